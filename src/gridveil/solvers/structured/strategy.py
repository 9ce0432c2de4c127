"""What is tried, in which order, until a run converges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from gridveil.core.deadline import check_time
from gridveil.solvers.structured import ipm
from gridveil.solvers.structured.elastic import elastic_problem, elastic_start, softened_problem
from gridveil.solvers.structured.evaluate import evaluate
from gridveil.solvers.structured.iteration_log import Run
from gridveil.solvers.structured.layout import Iterate, LocalData, Problem, allocate_history, allocate_values
from gridveil.solvers.structured.lowering import OrderedGrid
from gridveil.solvers.structured.problem import COST, MINUS_DEMAND, SQUARED_DISTANCE, SolveStatus, WarmStart
from gridveil.solvers.structured.settings import (
    ELASTIC_TOLERANCE,
    ITERATIONS_BRIEF,
    ITERATIONS_NEAR,
    ITERATIONS_RESUMED,
    ITERATIONS_SOFTENED,
    ITERATIONS_THOROUGH,
    ITERATIONS_WARM,
    LARGE,
    MU_BAND,
    MU_DISPATCH,
    MU_ELASTIC,
    MU_HELD,
    MU_SOFTENED,
    PATIENCE,
    RESUMED_MU,
    RESUMED_MULTIPLIER,
    RESUMED_NEXT,
    RESUMED_PUSH,
    RESUMPTIONS,
    RETRIES,
    SOFT_TOLERANCE,
    THIN_MU,
    THIN_PUSH,
    TRADED,
)
from gridveil.solvers.structured.tasks import LoweredTask
from gridveil.solvers.structured.warm import (
    cold_start,
    has_multipliers,
    is_feasible,
    moved_inside,
    near_iterate,
    softened_start,
    warm_iterate,
)

_STATUS = {
    ipm.CONVERGED: SolveStatus.CONVERGED,
    ipm.ITERATION_LIMIT: SolveStatus.ITERATION_LIMIT,
    ipm.SINGULAR_SYSTEM: SolveStatus.SINGULAR,
    ipm.NO_STEP: SolveStatus.NO_STEP,
    ipm.DIVERGED: SolveStatus.DIVERGED,
    ipm.STALLED: SolveStatus.STALLED,
}


@dataclass(frozen=True, eq=False, kw_only=True)
class Attempt:
    """The last run, with the work of all runs before it added up."""

    status: SolveStatus
    point: Iterate
    iterations: int
    factorisations: int
    runs: tuple[Run, ...]


def attempt(
    grid: OrderedGrid,
    task: LoweredTask,
    warm: WarmStart | None,
    tolerance: float,
    thorough: bool,
    near_enough: Callable[[Iterate], bool],
) -> Attempt:
    """Run warm if possible, then cold with a free barrier parameter, then by way of the softened task.

    A search for nearest data then goes on briefly from where that ended. A thorough attempt goes on: with a held barrier
    parameter, from where a run ended, and after restoration. ``near_enough`` is the independent check of a point at which a
    search for nearest data ran out of iterations.
    """
    # A joint problem is not convex: where it is not to be solved at any price, a stuck run is not taken elsewhere.
    retries = RETRIES if thorough or task.objective.name == COST else 0
    work = _Work(grid, task, tolerance, ITERATIONS_THOROUGH if thorough else ITERATIONS_BRIEF, retries)
    if warm is not None:
        last = _warm(work, warm)
        if last.status is SolveStatus.CONVERGED:
            return last
    free_mu = MU_BAND if task.rows else MU_DISPATCH
    last = work.run_cold(free_mu, free=True)
    is_distance = task.objective.name == SQUARED_DISTANCE
    if is_distance and last.status is SolveStatus.ITERATION_LIMIT and near_enough(last.point):
        # Along a direction in which the distance is flat, prices creep for hundreds of iterations; data move no more.
        return replace(last, status=SolveStatus.CONVERGED)
    if is_distance and last.status is not SolveStatus.CONVERGED:
        # Some free runs get to the limits long before they get to the balances.
        last = work.run_cold(free_mu, free=False)
    if last.status is not SolveStatus.CONVERGED:
        last = _softened(work)
    if last.status is SolveStatus.CONVERGED:
        return last
    if not thorough:
        return _resumed(work, last.point, 1, ITERATIONS_NEAR) if is_distance else last
    if task.objective.name == COST:
        last = work.run_cold(MU_HELD, free=False)
    if last.status is not SolveStatus.CONVERGED:
        last = _resumed(work, last.point)
    return last if last.status is SolveStatus.CONVERGED else _restored(work, last)


def attempt_warm(grid: OrderedGrid, task: LoweredTask, warm: WarmStart, tolerance: float) -> Attempt:
    """Run once from an earlier point and its multipliers.

    Where they say nothing and the point is feasible, nothing is tried: `attempt_near` begins with the run that this would be.
    """
    work = _Work(grid, task, tolerance, ITERATIONS_WARM)
    feasible = is_feasible(grid, task, warm)
    if feasible and not has_multipliers(task, warm):
        point, _ = near_iterate(grid, task, warm)
        return Attempt(status=SolveStatus.NOT_TRIED, point=point, iterations=0, factorisations=0, runs=())
    return _warm_once(work, warm, feasible)


def attempt_near(grid: OrderedGrid, task: LoweredTask, known: WarmStart, tolerance: float) -> Attempt:
    """Run from a primal point that is feasible or nearly so."""
    work = _Work(grid, task, tolerance, ITERATIONS_NEAR)
    last = _near(work, known)
    if last.status is SolveStatus.CONVERGED:
        return last
    return _resumed(work, last.point, 1 if len(grid.no_load) > LARGE else RESUMPTIONS)


def _warm(work: _Work, warm: WarmStart) -> Attempt:
    """Run from an earlier point with its multipliers; without them if they say nothing or lead nowhere.

    O↑ starts near its last point even if the ball has since shrunk away from it: all else there is still feasible.
    """
    task = work.task
    feasible = is_feasible(work.grid, task, warm)
    stay = feasible or task.objective.name == MINUS_DEMAND
    if stay and not has_multipliers(task, warm):
        return _near(work, warm)
    last = _warm_once(work, warm, feasible)
    return _near(work, warm) if stay and last.status is not SolveStatus.CONVERGED else last


def _warm_once(work: _Work, warm: WarmStart, feasible: bool) -> Attempt:
    start = warm_iterate(work.grid, work.task, warm, feasible)
    return work.run(work.task.data, *start, limit=ITERATIONS_WARM, patience=PATIENCE)


def _near(work: _Work, known: WarmStart) -> Attempt:
    """Run from an earlier primal point; a dispatch that leads nowhere starts again with hardly any room to bounds.

    Demands that can only just be served leave an interior thinner than the usual room, which a start must not leave.
    """
    last = _near_once(work, known)
    if last.status is SolveStatus.CONVERGED:
        return last
    if work.task.objective.name == COST:
        thin = near_iterate(work.grid, work.task, known, (THIN_PUSH, THIN_MU))
        return work.run(work.task.data, *thin, limit=ITERATIONS_RESUMED)
    return work.run(work.task.data, *near_iterate(work.grid, work.task, known), free=False, limit=ITERATIONS_NEAR)


def _near_once(work: _Work, known: WarmStart) -> Attempt:
    start = near_iterate(work.grid, work.task, known)
    return work.run(work.task.data, *start, limit=ITERATIONS_NEAR, patience=PATIENCE)


def _softened(work: _Work) -> Attempt:
    """Solve the task with soft balances, then the task itself from there."""
    grid, task = work.grid, work.task
    soft = softened_problem(task.data)
    start = np.concatenate([task.start[task.free], np.zeros(len(soft.bus) - len(task.data.bus))])
    point = cold_start(grid.data, soft, grid.no_load, start, MU_SOFTENED)
    last = work.run(soft, point, MU_SOFTENED, tolerance=SOFT_TOLERANCE, limit=ITERATIONS_SOFTENED)
    if last.status is not SolveStatus.CONVERGED:
        return replace(last, point=softened_start(grid.data, task.data, last.point)[0])
    return work.run(task.data, *softened_start(grid.data, task.data, last.point))


def _resumed(work: _Work, ended: Iterate, resumptions: int = RESUMPTIONS, limit: int = ITERATIONS_RESUMED) -> Attempt:
    """Start again where a run ended, ever closer to bounds, with multipliers of ordinary size.

    Where limits at both ends of a branch meet, multipliers grow without bound, and no direction is any good any more.
    """
    data = work.task.data
    known = ended._replace(
        price=np.clip(ended.price, -RESUMED_MULTIPLIER, RESUMED_MULTIPLIER),
        limit=np.minimum(ended.limit, RESUMED_MULTIPLIER),
        u_bound=np.minimum(ended.u_bound, RESUMED_MULTIPLIER),
    )
    for number, free in product(range(resumptions), (True, False)):
        push, mu = RESUMED_PUSH * RESUMED_NEXT**number, RESUMED_MU * RESUMED_NEXT**number
        start = moved_inside(work.grid.data, data, known, push, mu)
        last = work.run(data, start, mu, free=free, limit=limit)
        if last.status is SolveStatus.CONVERGED:
            break
    return last


def _restored(work: _Work, last: Attempt) -> Attempt:
    """Balance the network elastically from where the last run ended, then run again from there."""
    grid, task = work.grid, work.task
    stuck = last.point
    if not all(np.all(np.isfinite(part)) for part in stuck):
        return last
    elastic = elastic_problem(task.data, stuck.u)
    values = allocate_values(len(stuck.x), len(grid.data.branch_from), len(task.data.active))
    evaluate(grid.data, task.data, stuck, values)
    start = elastic_start(grid.data, elastic, stuck, values.balance, MU_ELASTIC)
    balanced = work.run(elastic, start, MU_ELASTIC, free=False, tolerance=ELASTIC_TOLERANCE)
    n_own = len(stuck.u)
    if balanced.status is not SolveStatus.CONVERGED:
        return replace(balanced, status=last.status, point=last.point)
    if np.max(balanced.point.u[n_own:]) > TRADED:
        return replace(balanced, status=SolveStatus.INFEASIBLE, point=last.point)
    point = cold_start(grid.data, task.data, balanced.point.x, balanced.point.u[:n_own], MU_HELD)
    return work.run(task.data, point, MU_HELD, free=False)


class _Work:
    """Runs on one task, adding up their work."""

    def __init__(
        self, grid: OrderedGrid, task: LoweredTask, tolerance: float, max_iterations: int, retries: int = RETRIES
    ) -> None:
        self.grid, self.task = grid, task
        self._tolerance, self._max_iterations, self._retries = tolerance, max_iterations, retries
        self._iterations = self._factorisations = 0
        self._runs: tuple[Run, ...] = ()

    def run_cold(self, mu: float, *, free: bool) -> Attempt:
        task = self.task
        point = cold_start(self.grid.data, task.data, self.grid.no_load, task.start[task.free], mu)
        patience = PATIENCE if free else None
        return self.run(task.data, point, mu, free=free, patience=patience)

    def run(
        self,
        local: LocalData,
        point: Iterate,
        mu: float,
        *,
        free: bool = True,
        tolerance: float | None = None,
        limit: int | None = None,
        patience: int | None = None,
    ) -> Attempt:
        check_time()
        most = limit or self._max_iterations
        options = ipm.Options(tolerance or self._tolerance, most, mu, free, patience or most + 1, self._retries)
        problem = Problem(grid=self.grid.data, local=local, pattern=self.grid.order.pattern)
        history = allocate_history(most)
        outcome = ipm.run(problem, point, options, history)
        status = _STATUS[outcome.status]
        self._iterations += outcome.iterations
        self._factorisations += outcome.factorisations
        self._runs += (Run(free=free, mu=mu, tolerance=options.tolerance, status=status, history=history),)
        return Attempt(
            status=status,
            point=point,
            iterations=self._iterations,
            factorisations=self._factorisations,
            runs=self._runs,
        )
