"""Outcomes made by hand, as rows, as a frame and as a real store, for the tests of tables, figures and pages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import pandas as pd

from gridveil.core.methods import Method, Solver
from gridveil.privacy.mechanisms.simulation import NoiseSites
from gridveil.study.outcome import FAILED, TaskOutcome
from gridveil.study.store import open_store
from gridveil.study.study_file import Limits, NetworkEntry, Setting, Study


def step(kind: str, delta: float, cost: float | None, radius: float | None = None) -> dict[str, object]:
    """One step of a history; the joint problem finds the cost target 100."""
    return {
        "kind": kind,
        "radius": delta if radius is None else radius,
        "delta": delta,
        "proxy": 1.0,
        "joint_cost": 100.0,
        "cost": cost,
        "joint_status": "converged",
        "follower_status": "converged" if cost is not None else "failed",
        "seconds": 0.01,
    }


SEARCH = (
    step("highpoint", 0.01, 90.0),
    step("doubling", 0.04, 96.0),
    step("doubling", 0.16, 100.5),
    step("bisection", 0.09, 99.2),
    step("verification", 0.09, 99.2),
)
"""Distances 0.1, 0.2, 0.4, 0.3; the fourth is released."""
AT_ONCE = (step("highpoint", 0.0025, 99.5), step("verification", 0.0025, 99.5))


def outcome(seed: int = 0, *, steps: Sequence[dict[str, object]] = SEARCH, **changes: object) -> TaskOutcome:
    """A verified run on NESTA's case14_ieee at the paper's setting, with a cost target of 100, but for the changes."""
    values: dict[str, object] = {
        "network": "case14_ieee",
        "kind": "power",
        "buses": 14,
        "sites": 11,
        "alpha": 0.1,
        "beta": 0.01,
        "epsilon": 1.0,
        "seed": seed,
        "method": "bisection",
        "solver": "structured",
        "verified": True,
        "ending": "BRACKET_CLOSED",
        "reason": "",
        "true_cost": 100.0,
        "cost": 100.1,
        "highpoint_cost": 95.0,
        "delta": 0.09,
        "highpoint_delta": 0.01,
        "noisy_distance": 0.71,
        "highpoint_distance": 0.67,
        "released_distance": 0.67,
        "optimisations": 4,
        "seconds": 0.5,
        "true_seconds": 0.02,
        "monotone": True,
        "rank_correlation": 1.0,
        "worst_violation": 0.0,
        "history": json.dumps(list(steps)),
        "versions": json.dumps({"gridveil": "0.1.0", "python": "3.11.0"}),
        "finished": "2030-01-01T00:00:00+00:00",
        "worker": "process 1",
    }
    unknown = set(changes) - set(values)
    assert not unknown, unknown
    return TaskOutcome(**(values | changes))  # type: ignore[arg-type]


def unverified(seed: int, **changes: object) -> TaskOutcome:
    """A run that found a high point and then no release, after 9 s."""
    nothing = {"cost": None, "delta": None, "released_distance": None, "seconds": 9.0, "optimisations": 13}
    steps = [step("highpoint", 0.01, 90.0), step("doubling", 0.04, None)]
    ending = {"verified": False, "ending": "NO_BRACKET", "reason": "pushing the proxy never raised the optimal cost"}
    return outcome(seed, steps=steps, **(nothing | ending | changes))


def crashed(seed: int, **changes: object) -> TaskOutcome:
    """A task that gave no result at all: zeros stand where it has no number."""
    names = ("true_cost", "cost", "highpoint_cost", "delta", "highpoint_delta", "noisy_distance", "highpoint_distance")
    nothing = dict.fromkeys((*names, "released_distance", "rank_correlation", "worst_violation"))
    zeros = {"optimisations": 0, "seconds": 0.0, "true_seconds": 0.0}
    ending = {"verified": False, "ending": FAILED, "reason": "the worker died"}
    return outcome(seed, steps=(), **(nothing | zeros | ending | changes))


def frame(outcomes: Sequence[TaskOutcome]) -> pd.DataFrame:
    """The outcomes as ``read_outcomes`` gives them: a missing number is NaN."""
    names = [field.name for field in fields(TaskOutcome)]
    made = pd.DataFrame([[getattr(one, name) for name in names] for one in outcomes], columns=names)
    numbers = [field.name for field in fields(TaskOutcome) if "float" in str(field.type)]
    return made.astype(dict.fromkeys(numbers, "float64"))


def write_store(path: Path, outcomes: Sequence[TaskOutcome], *, files: bool = True, name: str = "sample") -> Path:
    """A real store with these rows. ``files``: its networks are files, as the paper's are, and not names."""
    networks = {one.network: one for one in outcomes}
    study = Study(
        name=name,
        about="Made by hand",
        networks=tuple(
            NetworkEntry(
                label=label,
                case="some.m" if files else label,
                path=None,
                preset=label if one.kind == "gas" else None,
                checksum="0123456789abcdef" * 4 if files else "",
            )
            for label, one in networks.items()
        ),
        cells=tuple(Setting(alpha=a, beta=b) for a, b in sorted({(one.alpha, one.beta) for one in outcomes})),
        epsilon=outcomes[0].epsilon,
        methods=tuple(Method(method) for method in sorted({one.method for one in outcomes})),
        seeds=tuple(sorted({one.seed for one in outcomes})),
        solver=Solver.STRUCTURED,
        mechanism="laplace",
        sites=NoiseSites.POSITIVE,
        limits=Limits(task_seconds=600.0),
    )
    with open_store(path, study) as store:
        store.begin_session(workers=2, engine="local", cores=2)
        for one in outcomes:
            store.add([one])
    return path
