"""From a task to local variables, objective and dense rows; demands become deviations from their target."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gridveil.sectors.power.arrays import OpfArrays
from gridveil.solvers.structured.layout import LocalData
from gridveil.solvers.structured.lowering import OrderedGrid, Segments
from gridveil.solvers.structured.problem import (
    COST,
    MINUS_DEMAND,
    SQUARED_DISTANCE,
    DemandBox,
    Dispatch,
    Nearest,
    Push,
    Task,
    has_band,
    kept_name,
)
from gridveil.solvers.structured.settings import (
    DISTANCE_GRADIENT,
    DISTANCE_SCALE,
    FIXED_WIDTH,
    GRADIENT_MAX,
    LEAST_RADIUS_SQUARED,
    LEAST_WEIGHT,
    RELAXATION,
    START_PUSH,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False, kw_only=True)
class Separable:
    """A function Σ quadratic/2 u² + linear u of all local variables, with the factor it is scaled by."""

    name: str
    linear: Floats
    quadratic: Floats
    scale: float
    low: float = -np.inf
    high: float = np.inf

    def value(self, u: Floats) -> float:
        """Unscaled value."""
        return float(np.sum((0.5 * self.quadratic * u + self.linear) * u))


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class LoweredTask:
    """The arrays of a task and what is needed to read its solution back.

    All local variables stand in the order segments of the outputs (S), susceptances of compensators (C), deviation of
    active demand (D), deviation of reactive demand (D), idle cost (1); ``free`` marks those that the solver sees,
    ``start`` holds the others.
    """

    data: LocalData
    free: Bools
    start: Floats
    target_p: Floats
    target_q: Floats
    objective: Separable
    rows: tuple[Separable, ...]
    cost: Separable
    cost_constant: float
    objective_constant: float
    """What the objective has at u = 0: fixed costs, or minus the total target."""


def lower_task(arrays: OpfArrays, grid: OrderedGrid, segments: Segments, task: Task) -> LoweredTask:
    """Lower a task on an ordered network."""
    n_svc, n_load = len(arrays.svc_bus), len(arrays.load_bus)
    n_chosen = len(segments.output) + n_svc
    position = grid.order.position
    load_bus = position[arrays.load_bus]
    bus, kind, sign = _places(arrays, grid, segments, load_bus)
    if isinstance(task, Dispatch):
        target_p, target_q = task.demand_p, task.demand_q
        load_low = load_high = np.zeros(2 * n_load)
    else:
        target_p, target_q = task.target_p, task.target_q
        load_low, load_high = _deviation_bounds(task.box, target_p, target_q)
    # A piecewise-linear cost is a level above its lines (its epigraph): under a band that level may idle higher.
    idle = np.inf if len(arrays.line_output) and not isinstance(task, Dispatch) and has_band(task) else 0.0
    low = np.concatenate([segments.low, arrays.svc_min, load_low, [0.0]])
    high = np.concatenate([segments.high, arrays.svc_max, load_high, [idle]])
    free = high - low > FIXED_WIDTH
    start = _starting_values(low, high)
    nothing = np.zeros(n_svc + 2 * n_load)
    cost_slope = np.concatenate([segments.slope, nothing, [np.max(np.abs(segments.slope), initial=1.0)]])
    cost_curvature = np.concatenate([2.0 * segments.curvature, nothing, [0.0]])
    cost = Separable(
        name=COST,
        linear=cost_slope,
        quadratic=cost_curvature,
        scale=_gradient_scale((cost_slope + cost_curvature * start)[free]),
    )
    objective, rows = _objective_and_rows(task, cost, segments.constant, n_chosen, n_load)
    fixed_draw = np.zeros((arrays.n_bus, 2))
    np.add.at(fixed_draw[:, 0], load_bus, target_p)
    np.add.at(fixed_draw[:, 1], load_bus, target_q)
    np.subtract.at(fixed_draw.reshape(-1), 2 * bus[~free] + kind[~free], (sign * start)[~free])
    tied = _tied_variables(arrays, grid, segments)
    _draw_of_dc_lines(arrays, position, tied, np.where(free, 0.0, start), fixed_draw)
    columns = _Columns(bus=bus, kind=kind, sign=sign, low=low, high=high, free=free, start=start, tied=tied)
    data = _local_data(grid, columns, objective, rows, fixed_draw)
    return LoweredTask(
        data=data,
        free=free,
        start=start,
        target_p=target_p,
        target_q=target_q,
        objective=objective,
        rows=rows,
        cost=cost,
        cost_constant=segments.constant,
        objective_constant=_objective_constant(task, segments.constant),
    )


def _places(arrays: OpfArrays, grid: OrderedGrid, segments: Segments, load_bus: Ints) -> tuple[Ints, Ints, Floats]:
    """Bus, balance and sign of each local variable; those of tied variables mean nothing, as their sign is 0."""
    position, n_gen, n_load = grid.order.position, len(arrays.gen_bus), len(arrays.load_bus)
    n_dc, n_svc = len(arrays.dc_from), len(arrays.svc_bus)
    gen_bus, dc_bus, svc_bus = (position[at] for at in (arrays.gen_bus, arrays.dc_from, arrays.svc_bus))
    output_bus = np.concatenate([gen_bus, gen_bus, dc_bus])
    output_kind = np.repeat([0, 1, 0], [n_gen, n_gen, n_dc])
    output_sign = np.repeat([1.0, 0.0], [2 * n_gen, n_dc])
    each = segments.output
    return (
        np.concatenate([output_bus[each], svc_bus, load_bus, load_bus, [0]]),
        np.concatenate([output_kind[each], np.repeat([1, 0, 1, 0], [n_svc, n_load, n_load, 1])]),
        np.concatenate([output_sign[each], np.repeat([0.0, -1.0, 0.0], [n_svc, 2 * n_load, 1])]),
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class _Tied:
    """Tied variables among all local ones, as in ``LocalData``; segments of DC lines first, then susceptances."""

    index: Ints
    bus: Ints
    row: Ints
    gain: Floats
    block: Ints


def _tied_variables(arrays: OpfArrays, grid: OrderedGrid, segments: Segments) -> _Tied:
    position, n_gen, n_svc = grid.order.position, len(arrays.gen_bus), len(arrays.svc_bus)
    of_lines = np.flatnonzero(segments.output >= 2 * n_gen)
    line = segments.output[of_lines] - 2 * n_gen
    ends = np.stack([position[arrays.dc_from], position[arrays.dc_to]], axis=1)
    gains = np.stack([np.full(len(arrays.dc_from), -1.0), 1.0 - arrays.dc_loss_1], axis=1)
    svc_bus = position[arrays.svc_bus]
    return _Tied(
        index=np.concatenate([of_lines, len(segments.output) + np.arange(n_svc)]),
        bus=np.concatenate([ends[line], np.stack([svc_bus, svc_bus], axis=1)]),
        row=np.concatenate([np.full((len(line), 2), 2), np.tile([3, 1], (n_svc, 1))]),
        gain=np.concatenate([gains[line], np.zeros((n_svc, 2))]),
        block=np.concatenate([grid.dc_block[line], np.full(n_svc, -1)]),
    )


def _draw_of_dc_lines(arrays: OpfArrays, position: Ints, tied: _Tied, held: Floats, fixed_draw: Floats) -> None:
    """Add what DC lines draw whatever is chosen: constant losses at their to ends, and the power of ``held`` segments."""
    np.add.at(fixed_draw[:, 0], position[arrays.dc_to], arrays.dc_loss_0)
    np.subtract.at(fixed_draw[:, 0], tied.bus, tied.gain * held[tied.index, None])


def lower_dispatch(template: LoweredTask, load_bus: Ints, task: Dispatch) -> LoweredTask:
    """Lower a dispatch by a template, itself lowered at demands of zero: nothing but the fixed draw depends on them.

    ``load_bus`` (D,) are the loads' buses in the order of elimination.
    """
    draw = template.data.fixed_draw.copy()
    np.add.at(draw[:, 0], load_bus, task.demand_p)
    np.add.at(draw[:, 1], load_bus, task.demand_q)
    data = template.data._replace(fixed_draw=draw)
    return replace(template, data=data, target_p=task.demand_p, target_q=task.demand_q)


def _objective_constant(task: Task, cost_constant: float) -> float:
    if isinstance(task, Dispatch):
        return cost_constant
    return -float(np.sum(task.target_p)) if isinstance(task, Push) else 0.0


def _deviation_bounds(box: DemandBox | None, target_p: Floats, target_q: Floats) -> tuple[Floats, Floats]:
    if box is None:
        unbounded = np.full(2 * len(target_p), np.inf)
        return -unbounded, unbounded
    target = np.concatenate([target_p, target_q])
    return np.concatenate([box.p_low, box.q_low]) - target, np.concatenate([box.p_high, box.q_high]) - target


def _starting_values(low: Floats, high: Floats) -> Floats:
    """Middle of the bounds, or the value nearest to zero where a bound is missing; fixed variables at their value."""
    bounded_low, bounded_high = np.isfinite(low), np.isfinite(high)
    finite_low, finite_high = np.where(bounded_low, low, 0.0), np.where(bounded_high, high, 0.0)
    middle = 0.5 * (finite_low + finite_high)
    above = np.maximum(0.0, finite_low + START_PUSH * np.maximum(1.0, np.abs(finite_low)))
    below = np.minimum(0.0, finite_high - START_PUSH * np.maximum(1.0, np.abs(finite_high)))
    one_sided = np.where(bounded_low, above, np.where(bounded_high, below, 0.0))
    return np.where(bounded_low & bounded_high, middle, one_sided)


def _gradient_scale(gradient: Floats) -> float:
    steepest = float(np.max(np.abs(gradient), initial=0.0))
    return GRADIENT_MAX / steepest if steepest > GRADIENT_MAX else 1.0


def _distance_scale(target_p: Floats, target_q: Floats) -> float:
    """Scale of squared distances, taking the largest target for the distance of its demand.

    They are often small: scaled up, the barrier's share in them is smaller still. But the pull of far targets is bounded,
    because a larger one leads the joint problems astray.
    """
    farthest = max(np.max(np.abs(target_p), initial=0.0), np.max(np.abs(target_q), initial=0.0))
    return min(DISTANCE_SCALE, DISTANCE_GRADIENT / max(2.0 * float(farthest), 1.0))


def _objective_and_rows(
    task: Task, cost: Separable, cost_constant: float, n_generation: int, n_load: int
) -> tuple[Separable, tuple[Separable, ...]]:
    if isinstance(task, Dispatch):
        return cost, ()
    none = np.zeros(n_generation + 2 * n_load + 1)
    band = Separable(
        name=COST,
        linear=cost.linear,
        quadratic=cost.quadratic,
        scale=cost.scale,
        low=task.cost_low - cost_constant,
        high=task.cost_high - cost_constant,
    )
    twice_loads = np.concatenate([np.zeros(n_generation), np.full(2 * n_load, 2.0), [0.0]])
    if isinstance(task, Push):
        active_loads = np.repeat([0.0, -1.0, 0.0], [n_generation, n_load, n_load + 1])
        total = Separable(name=MINUS_DEMAND, linear=active_loads, quadratic=none, scale=1.0)
        reach = 0.5 / np.sqrt(max(task.delta, LEAST_RADIUS_SQUARED))
        ball = Separable(name="ball", linear=none, quadratic=twice_loads, scale=float(reach), high=task.delta)
        return total, (band, ball, *_kept_rows(task, n_generation))
    scale = _distance_scale(task.target_p, task.target_q)
    distance = Separable(name=SQUARED_DISTANCE, linear=none, quadratic=twice_loads, scale=scale)
    banded = (band,) if has_band(task) else ()
    kept = _kept_rows(task, n_generation)
    if task.cut is None:
        return distance, (*banded, *kept)
    weight = np.concatenate([np.zeros(n_generation), task.cut.weight_p, task.cut.weight_q, [0.0]])
    reached = float(task.cut.weight_p @ task.target_p + task.cut.weight_q @ task.target_q)
    cut = Separable(
        name="cut",
        linear=weight,
        quadratic=none,
        scale=1.0 / max(float(np.max(np.abs(weight), initial=0.0)), LEAST_WEIGHT),
        low=task.cut.least - reached,
    )
    return distance, (*banded, cut, *kept)


def _kept_rows(task: Nearest | Push, n_generation: int) -> tuple[Separable, ...]:
    """The totals that are kept, as rows on the deviations of demands from their targets."""
    kept = task.kept
    if kept is None:
        return ()
    k = len(kept.low)
    weights = np.hstack([np.zeros((k, n_generation)), kept.weight_p, kept.weight_q, np.zeros((k, 1))])
    reached = kept.weight_p @ task.target_p + kept.weight_q @ task.target_q
    none = np.zeros(weights.shape[1])
    scales = 1.0 / np.maximum(np.max(np.abs(weights), axis=1), LEAST_WEIGHT)
    return tuple(
        Separable(
            name=kept_name(r),
            linear=weights[r],
            quadratic=none,
            scale=float(scales[r]),
            low=float(kept.low[r] - reached[r]),
            high=float(kept.high[r] - reached[r]),
        )
        for r in range(k)
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class _Columns:
    """All local variables, one entry each: where and how they feed, their bounds, whether free, where they start."""

    bus: Ints
    kind: Ints
    sign: Floats
    low: Floats
    high: Floats
    free: Bools
    start: Floats
    tied: _Tied


def _local_data(
    grid: OrderedGrid, all_u: _Columns, objective: Separable, rows: tuple[Separable, ...], fixed_draw: Floats
) -> LocalData:
    """Keep the free variables, scale, move what fixed variables contribute into the row bounds, relax bounds."""
    free, low, high = all_u.free, all_u.low, all_u.high
    at_fixed = np.where(free, 0.0, all_u.start)
    offsets = np.array([row.value(at_fixed) for row in rows])
    scales = np.array([row.scale for row in rows])
    row_low = (np.array([row.low for row in rows]) - offsets) * scales
    row_high = (np.array([row.high for row in rows]) - offsets) * scales
    has_rate = np.isfinite(grid.data.rate_squared)
    active = np.concatenate(
        [
            has_rate,
            has_rate,
            np.isfinite(grid.data.angle_high),
            np.isfinite(grid.data.angle_low),
            ~grid.data.fixed[:, 1],
            ~grid.data.fixed[:, 1],
            np.isfinite(row_high),
            np.isfinite(row_low),
        ]
    )
    shape = (len(rows), int(free.sum()))
    tied, number = all_u.tied, np.cumsum(free) - 1
    chosen = free[tied.index]
    return LocalData(
        bus=all_u.bus[free],
        row=all_u.kind[free],
        sign=all_u.sign[free],
        tied=number[tied.index[chosen]],
        tied_bus=np.ascontiguousarray(tied.bus[chosen]),
        tied_row=np.ascontiguousarray(tied.row[chosen]),
        tied_gain=np.ascontiguousarray(tied.gain[chosen]),
        tied_block=tied.block[chosen],
        low=(low - RELAXATION * np.maximum(1.0, np.abs(low)))[free],
        high=(high + RELAXATION * np.maximum(1.0, np.abs(high)))[free],
        linear=(objective.scale * objective.linear)[free],
        quadratic=(objective.scale * objective.quadratic)[free],
        row_linear=np.array([row.scale * row.linear[free] for row in rows]).reshape(shape),
        row_quadratic=np.array([row.scale * row.quadratic[free] for row in rows]).reshape(shape),
        row_low=row_low,
        row_high=row_high,
        fixed_draw=fixed_draw,
        active=active,
    )
