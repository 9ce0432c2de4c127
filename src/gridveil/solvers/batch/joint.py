"""Batches of joint tasks (nearest demands, with or without a cut; the push): demands are variables, cost is a dense row."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridveil.core.errors import InputError
from gridveil.solvers.batch.compiled_check import check_tasks
from gridveil.solvers.batch.contract import BatchAnswer, JointPoints, JointTasks
from gridveil.solvers.batch.engine import Array, Engine, RawInput, RunOptions
from gridveil.solvers.batch.layout import JOINT_ROWS, UNBOUNDED, solver_settings
from gridveil.solvers.batch.lowering import places, read_points
from gridveil.solvers.batch.network import BatchNetwork, relaxed_bounds
from gridveil.solvers.batch.settings import JOINT_TOLERANCE
from gridveil.solvers.batch.solver import at_hand, contiguous, host, verdict
from gridveil.solvers.batch.starts import StartKind, Starts, same_start

_TARGETS = ("target_p", "target_q")


@dataclass(frozen=True, eq=False, kw_only=True)
class LoweredTasks:
    """Joint tasks as the kernels take them."""

    objective_scale: Array
    """(B,)"""
    row_scale: Array
    """(B, 2 + K) with the objective's what answers are read back by."""

    local: Array
    """(B, 5 + K, n) low, high, quadratic, linear of every local variable, and its weights in all rows but the first."""
    rows: Array
    """(B, 5 + 2 K) see ``RawInput.rows``."""

    @property
    def has_rows(self) -> NDArray[np.bool_]:
        """(B,) which tasks have any dense row."""
        there: NDArray[np.bool_] = np.any(np.abs(self.rows[:, :-1]) < UNBOUNDED, axis=1)
        return there

    def some(self, chosen: Any) -> LoweredTasks:
        """Some of the tasks."""
        return LoweredTasks(**{f.name: getattr(self, f.name)[chosen] for f in fields(self)})


def lower_tasks(network: BatchNetwork, tasks: JointTasks, xp: Any = np) -> LoweredTasks:
    """Lower joint tasks as ``structured.tasks.lower_task`` lowers one; ``xp`` is the array module that the tasks are of."""
    setting = solver_settings()
    count, n, kept = len(tasks), network.n_local, tasks.n_kept
    n_load = len(network.grid.load_bus)
    if kept != network.kept:
        raise InputError(f"this network was lowered for tasks that keep {network.kept} totals, and these keep {kept}")
    there = places(network, xp)
    demand = there.demand
    target = xp.concatenate([tasks.target_p, tasks.target_q], axis=1)
    table = xp.zeros((count, network.own_fields, n))
    table[:, :2] = there.bounds
    table[:, 0, demand], table[:, 1, demand] = _deviation_bounds(tasks, target, xp)
    rows = xp.tile(xp.asarray([UNBOUNDED, -UNBOUNDED] * network.rows + [0.0]), (count, 1))
    scale, row_scale = xp.ones(count), xp.ones((count, network.rows))
    row_scale[:, 0] = network.objective_scale
    constant = float(network.constants.sum())
    for place, bound in ((0, tasks.cost_high), (1, tasks.cost_low)):
        rows[:, place] = xp.clip((bound - constant) * network.objective_scale, -UNBOUNDED, UNBOUNDED)
    if tasks.kept is not None:
        weight = xp.asarray(tasks.kept)
        by = 1.0 / xp.maximum(xp.abs(weight).max(axis=2), setting["LEAST_WEIGHT"])
        reached = xp.sum(weight * target[:, None], axis=2)
        row_scale[:, JOINT_ROWS:] = by
        table[:, 5:, demand] = weight * by[:, :, None]
        rows[:, 4:-1:2] = xp.clip((xp.asarray(tasks.kept_high) - reached) * by, -UNBOUNDED, UNBOUNDED)
        rows[:, 5:-1:2] = xp.clip((xp.asarray(tasks.kept_low) - reached) * by, -UNBOUNDED, UNBOUNDED)
    if tasks.delta is not None:
        row_scale[:, 1] = 0.5 / xp.sqrt(xp.maximum(tasks.delta, setting["LEAST_RADIUS_SQUARED"]))
        rows[:, 2], rows[:, -1] = tasks.delta * row_scale[:, 1], 2.0 * row_scale[:, 1]
        table[:, 3, demand[:n_load]] = -1.0
        return LoweredTasks(local=table, rows=rows, objective_scale=scale, row_scale=row_scale)
    farthest = xp.abs(target).max(axis=1) if n_load else xp.zeros(count)
    scale = xp.minimum(setting["DISTANCE_SCALE"], setting["DISTANCE_GRADIENT"] / xp.maximum(2.0 * farthest, 1.0))
    table[:, 2, demand] = 2.0 * scale[:, None]
    if tasks.weight_p is not None and tasks.weight_q is not None and tasks.least is not None:
        weight = xp.concatenate([tasks.weight_p, tasks.weight_q], axis=1)
        row_scale[:, 1] = 1.0 / xp.maximum(xp.abs(weight).max(axis=1), setting["LEAST_WEIGHT"])
        table[:, 4, demand] = weight * row_scale[:, 1:2]
        rows[:, 3] = (tasks.least - xp.sum(weight * target, axis=1)) * row_scale[:, 1]
    return LoweredTasks(local=table, rows=rows, objective_scale=scale, row_scale=row_scale)


def _deviation_bounds(tasks: JointTasks, target: Array, xp: Any) -> tuple[Array, Array]:
    """(B, 2 D) bounds on the deviations from the targets, relaxed as those of all variables."""
    if tasks.low is None or tasks.high is None:
        return xp.full(target.shape, -UNBOUNDED), xp.full(target.shape, UNBOUNDED)
    low, high = xp.asarray(tasks.low) - target, xp.asarray(tasks.high) - target
    with np.errstate(invalid="ignore"):
        low, high = relaxed_bounds(low, high, ~(high - low <= solver_settings()["FIXED_WIDTH"]), xp)
    return xp.clip(low, -UNBOUNDED, UNBOUNDED), xp.clip(high, -UNBOUNDED, UNBOUNDED)


def joint_options(tolerance: float = JOINT_TOLERANCE) -> RunOptions:
    """Options of joint tasks: the iterations of the structured solver, and no run is given up, as all of them can be solved."""
    return RunOptions(tolerance=tolerance, cold_iterations=int(solver_settings()["ITERATIONS_THOROUGH"]), give_up=False)


class JointSolver:
    """Solves batches of joint tasks on one network with one engine; every answer is checked."""

    def __init__(self, network: BatchNetwork, engine: Engine, *, tolerance: float = JOINT_TOLERANCE) -> None:
        if not network.rows:
            raise InputError("this network was lowered for dispatches: lower it for joint tasks")
        self.network, self.options = network, joint_options(tolerance)
        self._engine = engine

    def solve(self, tasks: JointTasks, starts: Starts | None = None) -> BatchAnswer:
        """Every task from its own start, by default cold: first with a free, then with a held barrier parameter."""
        lowered = lower_tasks(self.network, tasks)
        if starts is not None:
            return self.solve_lowered(tasks, lowered, starts)
        setting = solver_settings()
        mu = np.where(lowered.has_rows, setting["MU_BAND"], setting["MU_DISPATCH"])
        answer = self.solve_lowered(tasks, lowered, same_start(StartKind.COLD, setting["START_PUSH"], mu))
        left = np.flatnonzero(~answer.converged)
        if not len(left) or tasks.delta is not None:
            return answer
        held = same_start(StartKind.HELD, setting["START_PUSH"], mu[left])
        return merged(answer, self.solve_lowered(tasks.rows(left), lowered.some(left), held), left)

    def solve_lowered(self, tasks: JointTasks, lowered: LoweredTasks, starts: Starts) -> BatchAnswer:
        """Every task once, as its start says."""
        xp = self._engine.xp
        given = self._given(tasks, lowered, starts)
        (target_p, target_q), rest = self._engine.send(given.demand_p, given.demand_q)
        given = replace(given, demand_p=target_p, demand_q=target_q, rest=rest)
        raw = self._engine.run(self.network, given, self.options)
        cost = raw.cost + float(self.network.constants.sum())
        scales = (lowered.objective_scale, lowered.row_scale)
        residuals = check_tasks(self._engine, self.network, tasks, scales, cost, raw.point)
        points = at_hand(xp, joint_points(self.network, tasks, *scales, raw.point, xp))
        return BatchAnswer(
            cost=host(xp, cost),
            status=host(xp, verdict(xp, raw.status, residuals)),
            iterations=host(xp, raw.iterations),
            factorisations=host(xp, raw.factorisations),
            residuals=host(xp, residuals),
            by_cpu=np.zeros(len(tasks), bool),
            points=points,
            feasible=host(xp, raw.feasible).astype(bool),
            raw=host(xp, raw.point),
        )

    def _given(self, tasks: JointTasks, lowered: LoweredTasks, starts: Starts) -> RawInput:
        xp = self._engine.xp
        return RawInput(
            demand_p=xp.asarray(tasks.target_p),
            demand_q=xp.asarray(tasks.target_q),
            outage=None,
            warm=contiguous(xp, starts.point),
            start=contiguous(xp, starts.choice),
            local=contiguous(xp, lowered.local),
            rows=contiguous(xp, lowered.rows),
        )


def joint_points(
    network: BatchNetwork, tasks: JointTasks, scale: Any, row_scale: Any, raw: Any, xp: Any
) -> JointPoints:
    """Answers to joint tasks (B, n_point), whose scales are those of the objective (B,) and of the dense rows (B, 2 + K)."""
    plain = read_points(network, raw, xp, scale[:, None])
    n_bus, n, n_load = network.grid.n_bus, network.n_local, len(network.grid.load_bus)
    away = raw[:, 4 * n_bus : 4 * n_bus + n][:, places(network, xp).demand]
    limit = raw[:, raw.shape[1] - 2 * network.rows :]
    prices = limit[:, ::2] - limit[:, 1::2]
    return JointPoints(
        **{f.name: getattr(plain, f.name) for f in fields(plain)},
        demand_p=xp.asarray(tasks.target_p) + away[:, :n_load],
        demand_q=xp.asarray(tasks.target_q) + away[:, n_load:],
        row_prices=prices * row_scale / scale[:, None],
    )


def merged(answer: BatchAnswer, again: BatchAnswer, left: NDArray[np.int64]) -> BatchAnswer:
    """An answer in which some rows, solved once more, are replaced; their iterations add up."""
    changed: dict[str, Any] = {}
    for f in fields(BatchAnswer):
        old, new = getattr(answer, f.name), getattr(again, f.name)
        if f.name == "points":
            parts = {g.name: _with_rows(getattr(old, g.name), getattr(new, g.name), left) for g in fields(old)}
            changed[f.name] = replace(old, **parts)
        elif old is not None:
            more = f.name in ("iterations", "factorisations")
            changed[f.name] = _with_rows(old, old[left] + new if more else new, left)
    return replace(answer, **changed)


def _with_rows(old: NDArray[Any], new: NDArray[Any], left: NDArray[np.int64]) -> NDArray[Any]:
    whole = old.copy()
    whole[left] = new
    return whole
