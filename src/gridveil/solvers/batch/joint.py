"""Batches of joint tasks (nearest demands, with or without a cut; the push): demands are variables, cost is a dense row."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridveil.core.errors import InputError
from gridveil.solvers.batch.check import check_joint
from gridveil.solvers.batch.contract import BatchAnswer, JointPoints, JointTasks
from gridveil.solvers.batch.engine import Engine, RawInput, RunOptions
from gridveil.solvers.batch.layout import UNBOUNDED, solver_settings
from gridveil.solvers.batch.lowering import read_points
from gridveil.solvers.batch.network import BatchNetwork, relaxed_bounds
from gridveil.solvers.batch.settings import JOINT_TOLERANCE
from gridveil.solvers.batch.solver import CHECK_CHUNK, host, verdict
from gridveil.solvers.batch.starts import StartKind, Starts, same_start

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class LoweredTasks:
    """Joint tasks as the kernels take them, and the scales that their answers are read back by."""

    local: Floats
    """(B, 5, n) low, high, quadratic, linear of every local variable, and its weight in the second row."""
    rows: Floats
    """(B, 5) see ``RawInput.rows``."""
    objective_scale: Floats
    """(B,)"""
    row_scale: Floats
    """(B, 2)"""

    @property
    def has_rows(self) -> NDArray[np.bool_]:
        """(B,) which tasks have any dense row."""
        there: NDArray[np.bool_] = np.any(np.abs(self.rows[:, :4]) < UNBOUNDED, axis=1)
        return there

    def some(self, chosen: Any) -> LoweredTasks:
        """Some of the tasks."""
        return LoweredTasks(**{f.name: getattr(self, f.name)[chosen] for f in fields(self)})


def lower_tasks(network: BatchNetwork, tasks: JointTasks) -> LoweredTasks:
    """Lower joint tasks as ``structured.tasks.lower_task`` lowers one."""
    setting = solver_settings()
    count, n = len(tasks), network.n_local
    n_generation, n_load = len(network.segment_gen) + len(network.grid.gen_bus), len(network.grid.load_bus)
    at = np.empty(n, np.int64)
    at[network.local_of] = np.arange(n)
    demand = at[n_generation:]
    table = np.zeros((count, 5, n))
    table[:, :2] = network.tables["local"].reshape(n, 4)[:, :2].T
    table[:, 0, demand], table[:, 1, demand] = _deviation_bounds(tasks)
    rows = np.tile([UNBOUNDED, -UNBOUNDED, UNBOUNDED, -UNBOUNDED, 0.0], (count, 1))
    scale, row_scale = np.ones(count), np.ones((count, 2))
    row_scale[:, 0] = network.objective_scale
    constant = float(network.constants.sum())
    for place, bound in ((0, tasks.cost_high), (1, tasks.cost_low)):
        rows[:, place] = np.clip((bound - constant) * network.objective_scale, -UNBOUNDED, UNBOUNDED)
    if tasks.delta is not None:
        row_scale[:, 1] = 0.5 / np.sqrt(np.maximum(tasks.delta, setting["LEAST_RADIUS_SQUARED"]))
        rows[:, 2], rows[:, 4] = tasks.delta * row_scale[:, 1], 2.0 * row_scale[:, 1]
        table[:, 3, demand[:n_load]] = -1.0
        return LoweredTasks(local=table, rows=rows, objective_scale=scale, row_scale=row_scale)
    farthest = np.maximum(
        np.abs(tasks.target_p).max(axis=1, initial=0.0), np.abs(tasks.target_q).max(axis=1, initial=0.0)
    )
    scale = np.minimum(setting["DISTANCE_SCALE"], setting["DISTANCE_GRADIENT"] / np.maximum(2.0 * farthest, 1.0))
    table[:, 2, demand] = 2.0 * scale[:, None]
    if tasks.weight_p is not None and tasks.weight_q is not None and tasks.least is not None:
        weight = np.concatenate([tasks.weight_p, tasks.weight_q], axis=1)
        target = np.concatenate([tasks.target_p, tasks.target_q], axis=1)
        row_scale[:, 1] = 1.0 / np.maximum(np.abs(weight).max(axis=1), setting["LEAST_WEIGHT"])
        table[:, 4, demand] = weight * row_scale[:, 1:]
        rows[:, 3] = (tasks.least - np.sum(weight * target, axis=1)) * row_scale[:, 1]
    return LoweredTasks(local=table, rows=rows, objective_scale=scale, row_scale=row_scale)


def _deviation_bounds(tasks: JointTasks) -> tuple[Floats, Floats]:
    """(B, 2 D) bounds on the deviations from the targets, relaxed as those of all variables."""
    target = np.concatenate([tasks.target_p, tasks.target_q], axis=1)
    if tasks.low is None or tasks.high is None:
        return np.full(target.shape, -UNBOUNDED), np.full(target.shape, UNBOUNDED)
    low, high = tasks.low - target, tasks.high - target
    with np.errstate(invalid="ignore"):
        low, high = relaxed_bounds(low, high, ~(high - low <= solver_settings()["FIXED_WIDTH"]))
    return np.clip(low, -UNBOUNDED, UNBOUNDED), np.clip(high, -UNBOUNDED, UNBOUNDED)


class JointSolver:
    """Solves batches of joint tasks on one network with one engine; every answer is checked."""

    def __init__(self, network: BatchNetwork, engine: Engine, *, tolerance: float = JOINT_TOLERANCE) -> None:
        if not network.rows:
            raise InputError("this network was lowered for dispatches: lower it for joint tasks")
        self.network = network
        self._engine, self._options = engine, RunOptions(tolerance=tolerance)

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
        xp, network = self._engine.xp, self.network
        (target_p, target_q), rest = self._engine.send(tasks.target_p, tasks.target_q)
        sent = {name: xp.ascontiguousarray(xp.asarray(getattr(lowered, name))) for name in ("local", "rows")}
        point = None if starts.point is None else xp.ascontiguousarray(xp.asarray(starts.point))
        given = RawInput(
            demand_p=target_p,
            demand_q=target_q,
            rest=rest,
            outage=None,
            warm=point,
            start=xp.asarray(np.ascontiguousarray(starts.choice)),
            **sent,
        )
        raw = self._engine.run(network, given, self._options)
        cost = raw.cost + float(network.constants.sum())
        points, residuals = self._read(tasks, lowered, cost, raw.point)
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

    def _read(self, tasks: JointTasks, lowered: LoweredTasks, cost: Any, raw: Any) -> tuple[JointPoints, Any]:
        """Points in the network's order, and the residuals of the check, some tasks at a time."""
        xp, network = self._engine.xp, self.network
        chunk = max(1, CHECK_CHUNK // network.grid.n_bus)
        found, residuals = [], xp.empty((len(tasks), 3))
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            for begin in range(0, len(tasks), chunk):
                rows = slice(begin, begin + chunk)
                some = tasks.rows(rows)
                points = _joint_points(
                    network,
                    some,
                    xp.asarray(lowered.objective_scale[rows]),
                    xp.asarray(lowered.row_scale[rows]),
                    raw[rows],
                    xp,
                )
                residuals[rows] = check_joint(network.grid, some, cost[rows], points, xp)
                found.append(replace(points, **{f.name: host(xp, getattr(points, f.name)) for f in fields(points)}))
        if len(found) == 1:
            return found[0], residuals
        whole = {f.name: np.concatenate([getattr(part, f.name) for part in found]) for f in fields(JointPoints)}
        return JointPoints(**whole), residuals


def _joint_points(
    network: BatchNetwork, tasks: JointTasks, scale: Any, row_scale: Any, raw: Any, xp: Any
) -> JointPoints:
    plain = read_points(network, raw, xp, scale[:, None])
    n_bus, n, n_load = network.grid.n_bus, network.n_local, len(network.grid.load_bus)
    at = np.empty(n, np.int64)
    at[network.local_of] = np.arange(n)
    away = raw[:, 4 * n_bus : 4 * n_bus + n][:, xp.asarray(at[n - 2 * n_load :])]
    limit = raw[:, raw.shape[1] - 4 :]
    prices = xp.stack([limit[:, 0] - limit[:, 1], limit[:, 2] - limit[:, 3]], axis=1)
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
