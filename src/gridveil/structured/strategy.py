"""What is tried, in which order, until a run converges."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gridveil.structured import ipm
from gridveil.structured.elastic import elastic_problem, elastic_start
from gridveil.structured.evaluate import evaluate
from gridveil.structured.layout import Iterate, LocalData, allocate_values
from gridveil.structured.lowering import OrderedGrid
from gridveil.structured.problem import SolveStatus
from gridveil.structured.tasks import LoweredTask
from gridveil.structured.warm import WarmStart, cold_start, warm_iterate

_STATUS = {
    ipm.CONVERGED: SolveStatus.CONVERGED,
    ipm.ITERATION_LIMIT: SolveStatus.ITERATION_LIMIT,
    ipm.SINGULAR_SYSTEM: SolveStatus.SINGULAR,
    ipm.NO_STEP: SolveStatus.NO_STEP,
    ipm.DIVERGED: SolveStatus.DIVERGED,
}
# Larger starts save iterations, but lead a dispatch to poorer local optima more often (case1888_rte from 10).
_DISPATCH_MU, _BAND_MU, _COLD_HELD_MU = 1.0, 10.0, 0.1
_ELASTIC_MU, _ELASTIC_TOLERANCE = 0.1, 1e-5
# More power than this traded by the elastic problem, per unit at one bus, means that no balance exists nearby.
_TRADED = 1e-3
_WARM_ITERATIONS = 30


@dataclass(frozen=True, eq=False, kw_only=True)
class Attempt:
    """The last run, with the work of all runs before it added up."""

    status: SolveStatus
    point: Iterate
    iterations: int
    factorisations: int


def attempt(
    grid: OrderedGrid, task: LoweredTask, warm: WarmStart | None, tolerance: float, max_iterations: int
) -> Attempt:
    """Run warm if possible, then cold with a free barrier parameter, then with a held one, then after restoration."""
    work = _Work(grid, task, max_iterations)
    if warm is not None:
        point, mu = warm_iterate(grid, task, warm)
        last = work.run(task.data, point, ipm.Settings(tolerance, min(_WARM_ITERATIONS, max_iterations), mu, True))
        if last.status is SolveStatus.CONVERGED:
            return last
    free_mu = _BAND_MU if task.rows else _DISPATCH_MU
    for mu, free in ((free_mu, True), (_COLD_HELD_MU, False)):
        point = cold_start(grid.data, task.data, grid.no_load, task.start[task.free], mu)
        last = work.run(task.data, point, ipm.Settings(tolerance, max_iterations, mu, free))
        if last.status is SolveStatus.CONVERGED:
            return last
    return _restored(work, last, tolerance)


def _restored(work: _Work, last: Attempt, tolerance: float) -> Attempt:
    """Balance the network elastically from where the last run ended, then run again from there."""
    grid, task = work.grid, work.task
    stuck = last.point
    if not all(np.all(np.isfinite(part)) for part in stuck):
        return last
    elastic = elastic_problem(task.data, stuck.u)
    values = allocate_values(len(stuck.x), len(grid.data.branch_from), len(task.data.active))
    evaluate(grid.data, task.data, stuck, values)
    start = elastic_start(grid.data, elastic, stuck, values.balance, _ELASTIC_MU)
    settings = ipm.Settings(_ELASTIC_TOLERANCE, work.max_iterations, _ELASTIC_MU, False)
    balanced = work.run(elastic, start, settings)
    n_own = len(stuck.u)
    if balanced.status is not SolveStatus.CONVERGED:
        return replace(last, iterations=balanced.iterations, factorisations=balanced.factorisations)
    if np.max(balanced.point.u[n_own:]) > _TRADED:
        return replace(
            last,
            status=SolveStatus.INFEASIBLE,
            iterations=balanced.iterations,
            factorisations=balanced.factorisations,
        )
    point = cold_start(grid.data, task.data, balanced.point.x, balanced.point.u[:n_own], _COLD_HELD_MU)
    return work.run(task.data, point, ipm.Settings(tolerance, work.max_iterations, _COLD_HELD_MU, False))


class _Work:
    """Runs on one task, adding up their work."""

    def __init__(self, grid: OrderedGrid, task: LoweredTask, max_iterations: int) -> None:
        self.grid, self.task, self.max_iterations = grid, task, max_iterations
        self.iterations = self.factorisations = 0

    def run(self, local: LocalData, point: Iterate, settings: ipm.Settings) -> Attempt:
        history = np.zeros((settings.max_iterations + 1, 8))
        outcome = ipm.run(self.grid.data, local, self.grid.order.pattern, point, settings, history)
        self.iterations += outcome.iterations
        self.factorisations += outcome.factorisations
        return Attempt(
            status=_STATUS[outcome.status],
            point=point,
            iterations=self.iterations,
            factorisations=self.factorisations,
        )
