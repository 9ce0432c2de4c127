"""Selection of the runs that a figure shows, and their histories as arrays."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gridveil.bilevel.result import StepKind
from gridveil.core.errors import InputError
from gridveil.study.outcome import FAILED
from gridveil.study.paper_numbers import EPSILON
from gridveil.study.tables import available_methods, setting_text

if TYPE_CHECKING:
    from pandas import DataFrame, Series

Vector = NDArray[np.float64]

ON_THE_PATH = {
    step.value for step in (StepKind.HIGHPOINT, StepKind.DOUBLING, StepKind.BISECTION, StepKind.ROOT)
}  # points of HPR and O↑, of which monotonicity speaks


class FigureKind(Enum):
    """The two kinds of figures of the paper's evaluation."""

    CONVERGENCE = "convergence"
    MONOTONICITY = "monotonicity"


PAPER_ALPHA = 0.1
PAPER_BETA = {
    (FigureKind.CONVERGENCE, "power"): 0.01,
    (FigureKind.CONVERGENCE, "gas"): 0.01,
    (FigureKind.MONOTONICITY, "power"): 0.01,
    (FigureKind.MONOTONICITY, "gas"): 0.1,
}
PAPER_NETWORKS = {
    FigureKind.CONVERGENCE: ("gaslib-135", "case39_epri", "case118_ieee", "24-pipe", "gaslib-40"),
    FigureKind.MONOTONICITY: ("case39_epri", "case118_ieee", "24-pipe", "gaslib-40"),
}
"""The paper's own figures, and convergence also where it shows monotonicity."""
MOST_BY_DEFAULT = 4  # networks drawn where the store has none of the paper's


@dataclass(frozen=True, eq=False, kw_only=True)
class Trace:
    """The steps of one run, in order: shape (steps,). Distances are ‖d − d̃‖ (not squared), per unit."""

    seed: int
    verified: bool
    kinds: tuple[str, ...]
    radii: Vector
    distances: Vector
    joint_costs: Vector
    costs: Vector


@dataclass(frozen=True, eq=False, kw_only=True)
class NetworkRuns:
    """All runs of one network at one setting, and the band that their costs have to reach."""

    network: str
    kind: str
    setting: str
    target: float
    half_width: float
    tasks: int
    """All runs, also those without a history."""
    traces: tuple[Trace, ...]


def figure_networks(frame: DataFrame, kind: FigureKind) -> list[str]:
    """Networks drawn by default: those in the paper's figures that have a run to draw, or else the smallest."""
    there = set(frame.loc[frame["ending"] != FAILED, "network"])
    papers = [network for network in PAPER_NETWORKS[kind] if network in there]
    return papers or sorted(there, key=lambda name: (_size(frame, name), name))[:MOST_BY_DEFAULT]


def network_runs(frame: DataFrame, network: str, kind: FigureKind) -> NetworkRuns:
    """Select a network's runs at the paper's setting, or at the nearest setting in the store."""
    runs = frame[frame["network"] == network]
    if runs.empty:
        names = ", ".join(sorted(frame["network"].unique())) or "none yet"
        raise InputError(f"the store has no run of network {network}; it has {names}")
    runs = runs[runs["method"] == available_methods(runs)[0]]
    runs = runs[runs["solver"] == runs["solver"].mode()[0]]
    wanted = {"epsilon": EPSILON, "alpha": PAPER_ALPHA, "beta": PAPER_BETA[kind, runs["kind"].iloc[0]]}
    for name, value in wanted.items():
        nearest = min(runs[name].unique(), key=lambda found: abs(math.log(found / value)))
        runs = runs[runs[name] == nearest]
    first = runs.iloc[0]
    target = float(runs["true_cost"].median())
    if not math.isfinite(target):
        raise InputError(f"no run of network {network} reached a cost, so there is nothing to draw")
    traces = [_trace(row) for _, row in runs.sort_values("seed").iterrows()]
    return NetworkRuns(
        network=network,
        kind=str(first["kind"]),
        setting=", ".join([setting_text(name, float(first[name])) for name in wanted] + [str(first["method"])]),
        target=target,
        half_width=abs(float(first["beta"]) * target),
        tasks=len(runs),
        traces=tuple(trace for trace in traces if trace.kinds),
    )


def file_name(kind: FigureKind, runs: NetworkRuns) -> str:
    """File name of a figure, without its suffix, and without characters that labels may contain but file names may not."""
    return f"{kind.value}-{re.sub(r'[^A-Za-z0-9._-]+', '_', runs.network)}"


def typical_trace(runs: NetworkRuns) -> Trace:
    """Select the verified run of median length among those that needed more than the high point."""
    if not runs.traces:
        raise InputError(f"no run of network {runs.network} has a history, so there is nothing to draw")
    searched = [trace for trace in runs.traces if len(set(trace.kinds) - {"highpoint", "verification"}) > 0]
    candidates = [trace for trace in searched if trace.verified] or searched or list(runs.traces)
    by_length = sorted(candidates, key=lambda trace: (len(trace.costs), trace.seed))
    return by_length[(len(by_length) - 1) // 2]


def path(trace: Trace) -> tuple[Vector, Vector]:
    """Return (distances, costs) of the solved points of HPR and O↑, nearest first; shape (points,)."""
    use = np.isfinite(trace.distances) & np.isfinite(trace.costs) & np.isin(trace.kinds, list(ON_THE_PATH))
    order = np.argsort(trace.distances[use], kind="stable")
    return trace.distances[use][order], trace.costs[use][order]


def _trace(row: Series) -> Trace:
    steps = json.loads(row["history"])

    def column(name: str) -> Vector:
        return np.array([math.nan if step[name] is None else step[name] for step in steps], dtype=float)

    return Trace(
        seed=int(row["seed"]),
        verified=bool(row["verified"]),
        kinds=tuple(step["kind"] for step in steps),
        radii=np.sqrt(column("radius")),
        distances=np.sqrt(column("delta")),
        joint_costs=column("joint_cost"),
        costs=column("cost"),
    )


def _size(frame: DataFrame, network: str) -> float:
    return float(frame.loc[frame["network"] == network, "buses"].max())
