"""Starting iterates: cold from public data, or warm from an earlier solution of the same network."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gridveil.structured.evaluate import evaluate
from gridveil.structured.layout import GridData, Iterate, LocalData, allocate_values
from gridveil.structured.lowering import OrderedGrid
from gridveil.structured.tasks import LoweredTask

Floats = NDArray[np.float64]

_START_PUSH = 1e-2
# A warm start keeps at least this distance from bounds and this barrier parameter.
_WARM_PUSH = 1e-3
_WARM_MU = 1e-4
# Without multipliers to start from, the barrier parameter starts here.
_PRIMAL_MU = 1.0
# Weight of the steepest cost below which a band is slack and its multipliers say nothing about prices.
_LEAST_WEIGHT = 1e-3


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class WarmStart:
    """A final iterate in elimination order, its multipliers in units of the task's objective, to start from again.

    ``u`` and ``u_bound`` cover all local variables, of which ``free`` were variable; ``rows`` are the multipliers (above,
    below) of the dense rows by name.
    """

    x: Floats
    price: Floats
    limit: Floats
    u: Floats
    u_bound: Floats
    free: NDArray[np.bool_]
    rows: dict[str, tuple[float, float]]
    target: Floats
    objective: str
    """Name of the objective that the multipliers belong to."""
    cost_weight: float
    """What a unit of cost weighs in that objective; the other multipliers follow it, so they convert to a dispatch."""


def cold_start(grid: GridData, local: LocalData, voltages: Floats, u_start: Floats, mu: float) -> Iterate:
    """Voltages (N, 2) and local variables as given, pushed inside their bounds; all else on the central path of ``mu``."""
    x = voltages.copy()
    room = grid.v_high - grid.v_low
    push = _START_PUSH * np.minimum(np.maximum(1.0, grid.v_low), room)
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
    point.slack[:] = np.where(local.active, np.maximum(np.abs(_limits(grid, local, point)), _START_PUSH), 1.0)
    point.limit[:] = np.where(local.active, mu / point.slack, 0.0)
    point.u_bound[:, 0] = mu / (point.u - local.low)
    point.u_bound[:, 1] = mu / (local.high - point.u)
    return point


def _limits(grid: GridData, local: LocalData, point: Iterate) -> Floats:
    values = allocate_values(len(point.x), len(grid.branch_from), len(local.active))
    evaluate(grid, local, point, values)
    return values.limit


def warm_iterate(grid: OrderedGrid, task: LoweredTask, warm: WarmStart) -> tuple[Iterate, float]:
    """Start where an earlier solution ended, away from bounds, with a barrier parameter to match."""
    local = task.data
    u = _inside(local, _local_values(task, warm))
    scale = task.objective.scale * _conversion(task, warm)
    if scale == 0.0:
        return cold_start(grid.data, local, warm.x, u, _PRIMAL_MU), _PRIMAL_MU
    n_rows, n_limits = len(task.rows), len(local.active)
    point = Iterate(
        x=warm.x.copy(),
        u=u,
        slack=np.zeros(n_limits),
        price=scale * warm.price,
        limit=np.zeros(n_limits),
        u_bound=np.zeros((len(u), 2)),
    )
    point.slack[:] = np.where(local.active, np.maximum(-_limits(grid.data, local, point), _WARM_PUSH), 1.0)
    n_shared = n_limits - 2 * n_rows
    point.limit[:n_shared] = scale * warm.limit
    for r, row in enumerate(task.rows):
        for side in range(2):
            known = warm.rows.get(row.name, (0.0, 0.0))[side]
            point.limit[n_shared + side * n_rows + r] = known * scale / row.scale
    mu = _WARM_MU
    point.limit[:] = np.where(local.active, np.maximum(point.limit, mu / point.slack), 0.0)
    bounds = scale * warm.u_bound[task.free]
    point.u_bound[:, 0] = np.where(np.isfinite(local.low), np.maximum(bounds[:, 0], mu / (u - local.low)), 0.0)
    point.u_bound[:, 1] = np.where(np.isfinite(local.high), np.maximum(bounds[:, 1], mu / (local.high - u)), 0.0)
    return point, mu


def _conversion(task: LoweredTask, warm: WarmStart) -> float:
    """Factor from the multipliers of the earlier objective to those of the task's; zero if there is none."""
    if warm.objective == task.objective.name:
        return 1.0
    steepest = float(np.max(np.abs(task.cost.linear), initial=0.0))
    if task.objective is task.cost and warm.cost_weight * steepest > _LEAST_WEIGHT:
        return 1.0 / warm.cost_weight
    return 0.0


def _local_values(task: LoweredTask, warm: WarmStart) -> Floats:
    """The earlier values of the task's free variables."""
    u = np.where(warm.free, warm.u, task.start)
    # Demands are deviations from their target: the same demand deviates otherwise from another target.
    target = np.concatenate([task.target_p, task.target_q])
    u[len(u) - len(target) - 1 : -1] += warm.target - target
    return u[task.free]


def _inside(local: LocalData, u: Floats) -> Floats:
    push = _WARM_PUSH * np.minimum(local.high - local.low, 1.0)
    return np.clip(u, local.low + push, local.high - push)
