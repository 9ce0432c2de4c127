"""Complete releases, from noisy demands to a verified d*, relative to one cold solve of O(d) by CasADi and Ipopt."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gridveil.benchmark.process import measure_apart
from gridveil.benchmark.public_case import BenchCase, power_case_at
from gridveil.core.choices import CostTargetMode
from gridveil.core.errors import NoReleaseError

if TYPE_CHECKING:
    from gridveil.benchmark.opf import Update
    from gridveil.core.band import CostTarget
    from gridveil.sectors.case import Case
    from gridveil.sectors.model import Model
    from gridveil.solvers.backend import Backend

EPSILON = 1.0
ALPHAS = (0.1, 1.0)
BETA = 0.01
DONE = "done"


@dataclass(frozen=True, kw_only=True)
class ReleaseRow:
    """Releases of one case at one α by the structured solver; times in seconds, over the releases that were verified."""

    case: str
    buses: int
    alpha: float
    epsilon: float = EPSILON
    beta: float = BETA
    status: str = "failed"
    seeds: int = 0
    failures: int = 0
    median_seconds: float | None = None
    worst_seconds: float | None = None
    optimisations: float | None = None
    """Mean number of evaluations of O per release."""
    ipopt_seconds: float | None = None
    """One cold solve of O(d) by CasADi and Ipopt, best of several."""
    ratio: float | None = None
    """Median release over that."""
    peak_mb: float | None = None
    note: str = ""


def release_rows(case: BenchCase, seeds: int, repeats: int, limit: float) -> list[ReleaseRow]:
    """Measure in a separate process; one row per α, even if it was stopped or failed."""
    request = {"task": "releases", "case": case.source, "seeds": seeds, "repeats": repeats}
    report = measure_apart(request, limit)
    shared = {name: report[name] for name in ("status", "ipopt_seconds", "peak_mb", "note") if name in report}
    measured: dict[str, dict[str, Any]] = report.get("releases", {})
    return [
        replace(ReleaseRow(case=case.name, buses=case.buses, alpha=alpha), **(shared | measured.get(str(alpha), {})))
        for alpha in ALPHAS
    ]


@dataclass(frozen=True, kw_only=True)
class ReleaseAttempt:
    """One release: its time, and the evaluations of O it took, or None if none was found."""

    seconds: float
    optimisations: int | None


def measure_releases(source: str, seeds: int, repeats: int, update: Update) -> None:
    """In the worker: O(d) by Ipopt, then for each α the releases of seeds 1, 2, …; seed 0 is a rehearsal and not counted."""
    from gridveil.core.band import Tolerance
    from gridveil.core.methods import Solver
    from gridveil.privacy.curator import published_values
    from gridveil.sectors.registry import build_model
    from gridveil.solvers.registry import backend_for
    from gridveil.solvers.solves import Solves
    from gridveil.solvers.structured.warm_up import warm_up

    case, network = power_case_at(source)
    update(stage="build")
    warm_up()
    model = build_model(network)
    backend = backend_for(model, Solver.STRUCTURED)
    update(stage="Ipopt's O(d)")
    ipopt_seconds = _ipopt_seconds(case, model, repeats)
    update(stage="O(d)", ipopt_seconds=ipopt_seconds)
    true = Solves(backend).afresh(model.layout.to_program(published_values(case)))
    if not true.converged:
        update(status="failed", note="O(d) of the file was not solved")
        return
    target = Tolerance(BETA, relative=True).around(true.cost, CostTargetMode.PUBLIC)
    _attempt(case, model, backend, target, ALPHAS[0], 0)
    rows: dict[str, dict[str, Any]] = {}
    for alpha in ALPHAS:
        attempts: list[ReleaseAttempt] = []
        for seed in range(1, seeds + 1):
            update(stage=f"alpha {alpha:g}, seed {seed}")
            attempts.append(_attempt(case, model, backend, target, alpha, seed))
            rows[str(alpha)] = summary(attempts, ipopt_seconds)
            update(releases=rows)
    update(status=DONE)


def summary(attempts: Sequence[ReleaseAttempt], ipopt_seconds: float | None) -> dict[str, Any]:
    """Median, worst and failures of some releases."""
    verified = [attempt for attempt in attempts if attempt.optimisations is not None]
    found: dict[str, Any] = {"seeds": len(attempts), "failures": len(attempts) - len(verified)}
    if not verified:
        return found
    times = [attempt.seconds for attempt in verified]
    median = float(np.median(times))
    return found | {
        "median_seconds": median,
        "worst_seconds": max(times),
        "optimisations": float(np.mean([attempt.optimisations for attempt in verified])),
        "ratio": median / ipopt_seconds if ipopt_seconds else None,
    }


def _ipopt_seconds(case: Case, model: Model, repeats: int) -> float | None:
    """Shortest of several cold solves, None if Ipopt does not converge."""
    from gridveil.privacy.curator import published_values
    from gridveil.programs import Follower

    follower = Follower(model.program)
    _ = follower.build_seconds
    best = math.inf
    for _ in range(repeats):
        clock = time.perf_counter()
        solution = follower.solve(model.layout.to_program(published_values(case)))
        best = min(best, time.perf_counter() - clock)
        if not solution.converged:
            return None
    return best


def _attempt(case: Case, model: Model, backend: Backend, target: CostTarget, alpha: float, seed: int) -> ReleaseAttempt:
    from gridveil.bilevel.repair import repair
    from gridveil.privacy.mechanisms.simulation import simulate_laplace

    noisy = simulate_laplace(case.values, epsilon=EPSILON, alpha=alpha, seed=seed)
    clock = time.perf_counter()
    try:
        optimisations: int | None = repair(backend, model.layout, noisy, target).result.optimisations
    except NoReleaseError:
        optimisations = None
    return ReleaseAttempt(seconds=time.perf_counter() - clock, optimisations=optimisations)
