"""One task of a study: simulated noise on one network, its repair, and what only a simulation may measure."""

from __future__ import annotations

import json
import math
import os
import platform
import time
import zlib
from collections.abc import Generator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING, Any, cast

from gridveil import __version__
from gridveil.bilevel.methods.algorithm1 import solve_bilevel
from gridveil.bilevel.methods.auto import solve_auto
from gridveil.bilevel.result import BilevelResult, Step
from gridveil.core.band import TargetSource, Tolerance
from gridveil.core.errors import GridveilError, NoReleaseError
from gridveil.core.methods import Method, Solver
from gridveil.core.parallel import Failure, failure_of
from gridveil.privacy.curator import distance_to_truth, solve_true
from gridveil.privacy.mechanisms.simulation import NoiseSites, simulate_laplace
from gridveil.privacy.noisy import NoisyDemand
from gridveil.sectors.gas.boundary import preset_boundary
from gridveil.sectors.gas.network import GasNetwork
from gridveil.sectors.load import load_case
from gridveil.sectors.model import build_model
from gridveil.solvers.choose import engine_for
from gridveil.solvers.ipopt import Engine
from gridveil.study.outcome import FAILED, Outcome
from gridveil.study.study_file import NetworkEntry

if TYPE_CHECKING:
    from gridveil.sectors.case import Case
    from gridveil.sectors.model import Model

Rows = Generator[tuple[int, Outcome | Failure], None, None]
"""What an engine gives: the position of a job, and its row or why there is none."""
PACKAGES = ("numpy", "casadi", "numba")


@dataclass(frozen=True, kw_only=True)
class TrialNetwork:
    """A network of a study and what is known of it before it is compiled."""

    entry: NetworkEntry
    solver: Solver
    """What solves it: gas networks are always Ipopt's."""
    kind: str
    buses: int
    sites: int


@dataclass(frozen=True, kw_only=True)
class Task:
    """What one row is about, besides its network."""

    alpha: float
    beta: float
    epsilon: float
    seed: int
    method: Method


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What is the same for all tasks: who receives noise, and how long a release may take (seconds)."""

    sites: NoiseSites
    task_seconds: float | None


@dataclass(frozen=True, eq=False, kw_only=True)
class Prepared:
    """A compiled network and its true optimum: the state that a worker keeps."""

    network: TrialNetwork
    case: Case
    model: Model
    engine: Engine
    true_cost: float
    true_seconds: float


class OutOfTimeError(GridveilError):
    """A release took longer than the study allows."""


def load_network(entry: NetworkEntry) -> Case:
    """Read a network of a study."""
    return load_case(entry.source, preset_boundary(entry.preset) if entry.preset is not None else None)


def inspect_network(entry: NetworkEntry, solver: Solver) -> TrialNetwork:
    """Read a network, which checks it, and say how large it is."""
    case = load_network(entry)
    gas = isinstance(case.network, GasNetwork)
    return TrialNetwork(
        entry=entry,
        solver=Solver.IPOPT if gas else solver,
        kind="gas" if gas else "power",
        buses=case.network.n_junction if isinstance(case.network, GasNetwork) else len(case.network.bus.id),
        sites=len(case.demand),
    )


def prepare(network: TrialNetwork) -> Prepared:
    """Compile a network and solve O(d°), twice: the first solve ever also loads compiled code, so the second is timed."""
    case = load_network(network.entry)
    model = build_model(case.network)
    engine = engine_for(case.network, model, network.solver)
    solve_true(case, model, engine.solve_afresh)
    true = solve_true(case, model, engine.solve_afresh)
    if not true.converged:
        raise NoReleaseError(f"the optimal flow at the network's own demands was not solved ({true.status.value})")
    return Prepared(
        network=network, case=case, model=model, engine=engine, true_cost=true.cost, true_seconds=true.seconds
    )


def noise_stream(label: str, seed: int) -> int:
    """Give each network a stream of its own: with a common one, a lucky draw would repeat in every row of a table.

    α, β and method do not enter: all of them see the same noise, scaled by α.
    """
    return zlib.crc32(f"{label} {seed}".encode())


def run_trial(rules: Rules, prepared: Prepared, task: Task) -> Outcome:
    """Draw simulated noise, repair it, and measure. Whatever goes wrong in the repair is a row with its reason."""
    noisy = simulate_laplace(
        prepared.case.demand,
        epsilon=task.epsilon,
        alpha=task.alpha,
        seed=noise_stream(prepared.network.entry.label, task.seed),
        sites=rules.sites,
    )
    known = {
        "true_cost": prepared.true_cost,
        "true_seconds": prepared.true_seconds,
        "noisy_distance": distance_to_truth(prepared.case, noisy.values),
    }
    clock = time.perf_counter()
    try:
        result = _solve(rules, prepared, task, noisy)
    except Exception as error:
        seconds = time.perf_counter() - clock
        return failed_outcome(prepared.network, task, failure_of(error).reason, seconds=seconds, **known)
    return _row(prepared.network, task, **known, **_measured(prepared, noisy, result))


def failed_outcome(network: TrialNetwork, task: Task, reason: str, **known: Any) -> Outcome:
    """Give the row of a task without a result; ``known`` are the fields that are known all the same."""
    empty = {
        "verified": False,
        "ending": FAILED,
        "reason": reason,
        "true_cost": None,
        "cost": None,
        "highpoint_cost": None,
        "delta": None,
        "highpoint_delta": None,
        "noisy_distance": None,
        "highpoint_distance": None,
        "released_distance": None,
        "optimisations": 0,
        "seconds": 0.0,
        "true_seconds": 0.0,
        "monotone": True,
        "rank_correlation": None,
        "worst_violation": None,
        "history": "[]",
    }
    return _row(network, task, **(empty | known))


def _solve(rules: Rules, prepared: Prepared, task: Task, noisy: NoisyDemand) -> BilevelResult:
    target = Tolerance(task.beta, relative=True).around(prepared.true_cost, TargetSource.PUBLIC)
    engine = prepared.engine
    if rules.task_seconds is not None:
        engine = cast(Engine, _WithDeadline(engine, rules.task_seconds))
    solve = solve_auto if task.method is Method.AUTO else solve_bilevel
    return solve(engine, prepared.model.layout.to_program(noisy.values), target)


class _WithDeadline:
    """An engine that refuses to begin another solve when the time is up."""

    def __init__(self, engine: Engine, seconds: float) -> None:
        self._engine = engine
        self._seconds = seconds
        self._end = time.perf_counter() + seconds

    def __getattr__(self, name: str) -> Any:
        if time.perf_counter() > self._end:
            raise OutOfTimeError(f"longer than the study's limit of {self._seconds:g} s")
        return getattr(self._engine, name)


def _measured(prepared: Prepared, noisy: NoisyDemand, result: BilevelResult) -> dict[str, Any]:
    layout, high = prepared.model.layout, result.highpoint

    def distance(d: Any) -> float:
        return distance_to_truth(prepared.case, layout.to_sites(d, noisy.values))

    return {
        "verified": result.verified,
        "ending": result.ending.name,
        "reason": "" if result.verified else result.ending.value,
        "cost": _number(result.cost),
        "highpoint_cost": _number(high.cost) if high else None,
        "delta": _number(result.delta),
        "highpoint_delta": _number(high.delta) if high else None,
        "highpoint_distance": distance(high.d) if high else None,
        "released_distance": distance(result.d) if result.d is not None else None,
        "optimisations": result.optimisations,
        "seconds": result.seconds,
        "monotone": result.monotonicity.holds,
        "rank_correlation": _number(result.monotonicity.rank_correlation),
        "worst_violation": _number(result.monotonicity.worst_violation),
        "history": json.dumps([_step(step) for step in result.history], allow_nan=False),
    }


def _row(network: TrialNetwork, task: Task, **measured: Any) -> Outcome:
    return Outcome(
        network=network.entry.label,
        kind=network.kind,
        buses=network.buses,
        sites=network.sites,
        alpha=task.alpha,
        beta=task.beta,
        epsilon=task.epsilon,
        seed=task.seed,
        method=task.method.value,
        solver=network.solver.value,
        versions=versions(),
        finished=datetime.now(UTC).isoformat(timespec="milliseconds"),
        worker=f"process {os.getpid()}",
        **measured,
    )


def _step(step: Step) -> dict[str, Any]:
    return {
        "kind": step.kind.value,
        "radius": _number(step.radius),
        "delta": _number(step.delta),
        "proxy": _number(step.proxy),
        "joint_cost": _number(step.joint_cost),
        "cost": _number(step.cost),
        "joint_status": step.joint_status.value,
        "follower_status": step.follower_status.value,
        "seconds": step.seconds,
    }


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


@cache
def versions() -> str:
    """Give, as JSON, the versions of what computes the numbers."""
    found = {"gridveil": __version__, "python": platform.python_version()}
    return json.dumps(found | {name: metadata.version(name) for name in PACKAGES})
