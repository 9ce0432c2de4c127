"""Many repairs of one network over all cores: the same results as one by one, with the problems compiled once per worker.

Only post-processing crosses to the workers: public network, noisy demands, cost targets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from gridveil.bilevel.repair import ReleasedDemand, derived_cost, repair
from gridveil.core.band import CostTarget
from gridveil.core.choices import DemandBounds, Formulation
from gridveil.core.methods import Method, Solver
from gridveil.core.parallel import Failure, run_many
from gridveil.privacy.noisy import NoisyDemand
from gridveil.sectors.case import Network
from gridveil.sectors.model import DemandLayout, build_model
from gridveil.solvers.choose import engine_for
from gridveil.solvers.ipopt import Engine

Job = TypeVar("Job")
Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class RepairJob:
    """One d̃, the band that O(d*) must lie in, and the method that finds d*."""

    noisy: NoisyDemand
    target: CostTarget
    method: Method = Method.AUTO


@dataclass(frozen=True, eq=False)
class _Compiled:
    engine: Engine
    layout: DemandLayout


def repair_many(
    network: Network,
    jobs: Sequence[RepairJob],
    *,
    workers: int,
    solver: Solver = Solver.STRUCTURED,
    formulation: Formulation = Formulation.AC,
    demand_bounds: DemandBounds = DemandBounds.NONE,
) -> list[ReleasedDemand | Failure]:
    """Repair every job; one without a verified d* is a Failure in its place. One worker means this process."""
    return _batch(partial(_compile, network, solver, formulation, demand_bounds), _repair, jobs, workers)


def derive_many(
    network: Network,
    noisy: Sequence[NoisyDemand],
    *,
    workers: int,
    solver: Solver = Solver.STRUCTURED,
    demand_bounds: DemandBounds = DemandBounds.NONE,
) -> list[float | Failure]:
    """Derive a cost target from each d̃ alone."""
    return _batch(partial(_compile, network, solver, Formulation.AC, demand_bounds), _derive, noisy, workers)


def _batch(
    build: Callable[[str], _Compiled], work: Callable[[_Compiled, Job], Result], jobs: Sequence[Job], workers: int
) -> list[Result | Failure]:
    found = dict(run_many(build, work, [("network", job) for job in jobs], workers=workers))
    return [found[index] for index in range(len(jobs))]


def _compile(network: Network, solver: Solver, formulation: Formulation, bounds: DemandBounds, _: str) -> _Compiled:
    model = build_model(network, formulation, bounds)
    return _Compiled(engine_for(network, model, solver), model.layout)


def _repair(compiled: _Compiled, job: RepairJob) -> ReleasedDemand:
    return repair(compiled.engine, compiled.layout, job.noisy, job.target, job.method)


def _derive(compiled: _Compiled, noisy: NoisyDemand) -> float:
    return derived_cost(compiled.engine, compiled.layout, noisy)
