"""Starting iterates: cold from public data, or warm from an earlier solution of the same network."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gridveil.solvers.structured.evaluate import evaluate
from gridveil.solvers.structured.layout import GridData, Iterate, LocalData, allocate_values
from gridveil.solvers.structured.lowering import OrderedGrid
from gridveil.solvers.structured.problem import COST, MINUS_DEMAND, SQUARED_DISTANCE, WarmStart
from gridveil.solvers.structured.settings import (
    FEASIBLE,
    FEASIBLE_MU,
    FEASIBLE_PUSH,
    NEAR_COST_MU,
    NEAR_COST_PUSH,
    NEAR_DEMAND_MU,
    NEAR_DEMAND_PUSH,
    NEAR_DISTANCE_MU,
    NEAR_DISTANCE_PUSH,
    PRIMAL_MU,
    SOFTENED_PUSH,
    START_PUSH,
    WARM_MU,
    WARM_PUSH,
)
from gridveil.solvers.structured.tasks import LoweredTask

Floats = NDArray[np.float64]

# Distance from bounds and first barrier parameter without multipliers to go by, by objective.
_NEAR = {
    COST: (NEAR_COST_PUSH, NEAR_COST_MU),
    SQUARED_DISTANCE: (NEAR_DISTANCE_PUSH, NEAR_DISTANCE_MU),
    MINUS_DEMAND: (NEAR_DEMAND_PUSH, NEAR_DEMAND_MU),
}


def cold_start(grid: GridData, local: LocalData, voltages: Floats, u_start: Floats, mu: float) -> Iterate:
    """Voltages (N, 2) and local variables as given, pushed inside their bounds; all else on the central path of ``mu``."""
    x = voltages.copy()
    room = grid.v_high - grid.v_low
    push = START_PUSH * np.minimum(np.maximum(1.0, grid.v_low), room)
    x[:, 1] = np.clip(x[:, 1], grid.v_low + push, grid.v_high - push)
    x[grid.fixed[:, 1], 1] = 0.5 * (grid.v_low + grid.v_high)[grid.fixed[:, 1]]
    n_limits = len(local.active)
    point = Iterate(
        x=x,
        u=u_start.copy(),
        slack=np.zeros(n_limits),
        price=np.zeros_like(x),
        limit=np.zeros(n_limits),
        u_bound=np.zeros((len(u_start), 2)),
    )
    point.slack[:] = np.where(local.active, np.maximum(np.abs(_limits(grid, local, point)), START_PUSH), 1.0)
    point.limit[:] = np.where(local.active, mu / point.slack, 0.0)
    point.u_bound[:, 0] = mu / (point.u - local.low)
    point.u_bound[:, 1] = mu / (local.high - point.u)
    return point


def _limits(grid: GridData, local: LocalData, point: Iterate) -> Floats:
    values = allocate_values(len(point.x), len(grid.branch_from), len(local.active))
    evaluate(grid, local, point, values)
    return values.limit


def has_multipliers(task: LoweredTask, warm: WarmStart) -> bool:
    """Whether the multipliers of an earlier solution say something about those of the task."""
    return _conversion(task, warm) != 0.0


def warm_iterate(grid: OrderedGrid, task: LoweredTask, warm: WarmStart, feasible: bool) -> tuple[Iterate, float]:
    """Start where an earlier solution ended, away from bounds, with a barrier parameter to match."""
    local = task.data
    scale = task.objective.scale * _conversion(task, warm)
    if scale == 0.0:
        u = _inside(local, _local_values(task, warm), WARM_PUSH)
        return cold_start(grid.data, local, warm.x, u, PRIMAL_MU), PRIMAL_MU
    n_rows, n_limits = len(task.rows), len(local.active)
    n_shared = n_limits - 2 * n_rows
    limit = np.zeros(n_limits)
    limit[:n_shared] = scale * warm.limit
    for r, row in enumerate(task.rows):
        for side in range(2):
            multiplier = warm.rows.get(row.name, (0.0, 0.0))[side]
            limit[n_shared + side * n_rows + r] = multiplier * scale / row.scale
    known = _primal(task, warm)._replace(price=scale * warm.price, limit=limit, u_bound=scale * warm.u_bound[task.free])
    # Pushing a feasible point off its bounds would undo that.
    push, mu = (FEASIBLE_PUSH, FEASIBLE_MU) if feasible else (WARM_PUSH, WARM_MU)
    return moved_inside(grid.data, local, known, push, mu), mu


def near_iterate(
    grid: OrderedGrid, task: LoweredTask, known: WarmStart, room: tuple[float, float] | None = None
) -> tuple[Iterate, float]:
    """Start at an earlier primal point, hardly pushed off its bounds, with multipliers on the central path.

    ``room`` is the distance from bounds and the first barrier parameter; by default what suits the objective.
    """
    push, mu = room or _NEAR[task.objective.name]
    return moved_inside(grid.data, task.data, _primal(task, known), push, mu), mu


def is_feasible(grid: OrderedGrid, task: LoweredTask, known: WarmStart) -> bool:
    """Whether an earlier point satisfies the task's balances, limits and bounds as it is."""
    local, point = task.data, _primal(task, known)
    values = allocate_values(len(point.x), len(grid.data.branch_from), len(local.active))
    evaluate(grid.data, local, point, values)
    outside = np.maximum(local.low - point.u, point.u - local.high)
    violations = (np.abs(values.balance), values.limit, outside)
    return max(float(np.max(violation, initial=0.0)) for violation in violations) <= FEASIBLE


def _primal(task: LoweredTask, known: WarmStart) -> Iterate:
    """The earlier primal point for this task, with slacks and multipliers of zero."""
    u, n_limits = _local_values(task, known), len(task.data.active)
    return Iterate(
        x=known.x,
        u=u,
        slack=np.zeros(n_limits),
        price=np.zeros_like(known.price),
        limit=np.zeros(n_limits),
        u_bound=np.zeros((len(u), 2)),
    )


def softened_start(grid: GridData, local: LocalData, softened: Iterate) -> tuple[Iterate, float]:
    """Start a task where its softened form ended, without what was traded."""
    n_own = len(local.bus)
    known = softened._replace(u=softened.u[:n_own], u_bound=softened.u_bound[:n_own])
    return moved_inside(grid, local, known, SOFTENED_PUSH, WARM_MU), WARM_MU


def moved_inside(grid: GridData, local: LocalData, known: Iterate, push: float, mu: float) -> Iterate:
    """Keep a distance ``push`` from all bounds, and products of at least ``mu``; slacks follow from the limits."""
    point = Iterate(
        x=known.x.copy(),
        u=_inside(local, known.u, push),
        slack=np.zeros(len(local.active)),
        price=known.price.copy(),
        limit=np.zeros(len(local.active)),
        u_bound=np.zeros((len(known.u), 2)),
    )
    point.slack[:] = np.where(local.active, np.maximum(-_limits(grid, local, point), push), 1.0)
    point.limit[:] = np.where(local.active, np.maximum(known.limit, mu / point.slack), 0.0)
    below, above = point.u - local.low, local.high - point.u
    point.u_bound[:, 0] = np.where(np.isfinite(below), np.maximum(known.u_bound[:, 0], mu / below), 0.0)
    point.u_bound[:, 1] = np.where(np.isfinite(above), np.maximum(known.u_bound[:, 1], mu / above), 0.0)
    return point


def _conversion(task: LoweredTask, warm: WarmStart) -> float:
    """Factor from the multipliers of the earlier objective to those of the task's; zero if there is none."""
    if warm.objective == task.objective.name:
        return 1.0
    return 1.0 / warm.cost_weight if task.objective is task.cost and warm.priced else 0.0


def _local_values(task: LoweredTask, warm: WarmStart) -> Floats:
    """The earlier values of the task's free variables."""
    u = np.where(warm.free, warm.u, task.start)
    # Demands are deviations from their target: the same demand deviates otherwise from another target.
    target = np.concatenate([task.target_p, task.target_q])
    u[len(u) - len(target) - 1 : -1] += warm.target - target
    return u[task.free]


def _inside(local: LocalData, u: Floats, push: float) -> Floats:
    room = push * np.minimum(local.high - local.low, 1.0)
    return np.clip(u, local.low + room, local.high - room)
