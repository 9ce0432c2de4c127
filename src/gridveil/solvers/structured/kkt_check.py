"""An independent check of optimality: no formula is shared with the engine, which forms real flows from cosines.

Everything is computed anew in complex arithmetic from the network, the task and the answer. Multipliers of simple bounds are
not asked for: a gradient that pushes against a bound counts only as far as the variable is away from that bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gridveil.sectors.power.arrays import OpfArrays
from gridveil.solvers.structured.problem import (
    Dispatch,
    Multipliers,
    Nearest,
    Push,
    Residuals,
    Task,
    has_band,
    kept_name,
)
from gridveil.solvers.structured.settings import CORNER, LEAST_BALL, LEAST_WEIGHT

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Candidate:
    """An answer to be checked, in the order of OpfArrays."""

    va: Floats
    vm: Floats
    pg: Floats
    qg: Floats
    dc: Floats
    susceptance: Floats
    demand_p: Floats
    demand_q: Floats
    cost: float
    """The level that the cost band holds: the generation cost, or more if a cost is piecewise linear."""
    multipliers: Multipliers


@dataclass(frozen=True, eq=False)
class _Ends:
    """Both ends of all branches in one array, first the from ends, then the to ends: (2B,).

    The complex power into a branch is ``own`` (of this end's voltage alone) plus ``mutual``.
    """

    near: NDArray[np.int64]
    far: NDArray[np.int64]
    own: Complexes
    mutual: Complexes
    power: Complexes
    rate: Floats
    current: Floats


def check(arrays: OpfArrays, task: Task, answer: Candidate) -> Residuals:
    """Scaled residuals of primal feasibility, stationarity and complementarity.

    An answer that is not made of numbers, as of a solve that broke down, has residuals that are none either: no test passes.
    """
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        ends = _ends(arrays, answer)
        cost, cost_slope_low, cost_slope_high = _generation_cost(arrays, _outputs(answer))
        rows = _dense_rows(task, answer)
        idle = answer.cost - cost
        stationarity, scale = _stationarity(arrays, task, answer, ends, cost_slope_low, cost_slope_high)
        return Residuals(
            primal=max(_infeasibility(arrays, task, answer, ends, rows), _misstated(arrays, task, idle, cost)),
            dual=stationarity / scale,
            complementarity=max(_products(arrays, answer, ends, rows), _idle_price(answer, idle)) / scale,
        )


def _ends(arrays: OpfArrays, answer: Candidate) -> _Ends:
    voltage = answer.vm * np.exp(1j * answer.va)
    near = np.concatenate([arrays.branch_from, arrays.branch_to])
    far = np.concatenate([arrays.branch_to, arrays.branch_from])
    at_near = voltage[near]
    own = at_near * np.conj(np.concatenate([arrays.y_ff, arrays.y_tt]) * at_near)
    mutual = at_near * np.conj(np.concatenate([arrays.y_ft, arrays.y_tf]) * voltage[far])
    return _Ends(
        near=near,
        far=far,
        own=own,
        mutual=mutual,
        power=own + mutual,
        rate=np.concatenate([arrays.rate, arrays.rate]),
        current=np.concatenate([arrays.current, arrays.current]),
    )


def _balance(arrays: OpfArrays, answer: Candidate, ends: _Ends) -> Complexes:
    mismatch: Complexes = ((arrays.shunt_g - 1j * arrays.shunt_b) * answer.vm**2).astype(np.complex128)
    np.add.at(mismatch, ends.near, ends.power)
    np.add.at(mismatch, arrays.load_bus, answer.demand_p + 1j * answer.demand_q)
    np.subtract.at(mismatch, arrays.gen_bus, answer.pg + 1j * answer.qg)
    np.subtract.at(mismatch, arrays.svc_bus, 1j * answer.susceptance * answer.vm[arrays.svc_bus] ** 2)
    np.add.at(mismatch, arrays.dc_from, answer.dc)
    np.subtract.at(mismatch, arrays.dc_to, answer.dc - arrays.dc_loss_0 - arrays.dc_loss_1 * answer.dc)
    return mismatch


def _outputs(answer: Candidate) -> Floats:
    """All powers that a cost can be stated for."""
    return np.concatenate([answer.pg, answer.qg, answer.dc])


def _generation_cost(arrays: OpfArrays, power: Floats) -> tuple[float, Floats, Floats]:
    """Total cost, and the slopes of each output's cost to its left and to its right."""
    smooth = arrays.cost_1 + 2 * arrays.cost_2 * power
    low, high = smooth.copy(), smooth.copy()
    cost = float(np.sum(arrays.cost_0 + (arrays.cost_1 + arrays.cost_2 * power) * power))
    for k in set(arrays.line_output.tolist()):
        mine = arrays.line_output == k
        slope, intercept = arrays.line_slope[mine], arrays.line_intercept[mine]
        cost += float(np.max(slope * power[k] + intercept))
        low[k] += slope[np.argmax(slope * (power[k] - CORNER) + intercept)]
        high[k] += slope[np.argmax(slope * (power[k] + CORNER) + intercept)]
    return cost, low, high


def _misstated(arrays: OpfArrays, task: Task, idle: float, cost: float) -> float:
    """How wrong the stated cost is, relative to the cost: it may exceed that of generation only as an idle level."""
    may_idle = len(arrays.line_output) > 0 and not isinstance(task, Dispatch) and has_band(task)
    return max(-idle, 0.0 if may_idle else idle) / max(1.0, abs(cost))


def _idle_price(answer: Candidate, idle: float) -> float:
    """An idle level must be worth nothing."""
    return abs(answer.multipliers.rows.get("cost", 0.0)) * max(idle, 0.0)


def _dense_rows(task: Task, answer: Candidate) -> dict[str, tuple[float, float, float, float]]:
    """Value, lower and upper bound and measure of each dense row."""
    if isinstance(task, Dispatch):
        return {}
    rows = {}
    if has_band(task):
        rows["cost"] = (answer.cost, task.cost_low, task.cost_high, max(1.0, abs(task.cost_high)))
    if isinstance(task, Push):
        squares = float(np.sum((answer.demand_p - task.target_p) ** 2) + np.sum((answer.demand_q - task.target_q) ** 2))
        rows["ball"] = (squares, -np.inf, task.delta, max(2 * np.sqrt(task.delta), LEAST_BALL))
    elif task.cut is not None:
        reached = float(task.cut.weight_p @ answer.demand_p + task.cut.weight_q @ answer.demand_q)
        steepest = max(float(np.max(np.abs(task.cut.weight_p))), float(np.max(np.abs(task.cut.weight_q))))
        rows["cut"] = (reached, task.cut.least, np.inf, max(steepest, LEAST_WEIGHT))
    if task.kept is not None:
        values = task.kept.weight_p @ answer.demand_p + task.kept.weight_q @ answer.demand_q
        steepness = np.max(np.abs(np.hstack([task.kept.weight_p, task.kept.weight_q])), axis=1)
        measures = np.maximum(steepness, LEAST_WEIGHT)
        for r, value in enumerate(values.tolist()):
            rows[kept_name(r)] = (value, float(task.kept.low[r]), float(task.kept.high[r]), float(measures[r]))
    return rows


def _infeasibility(
    arrays: OpfArrays,
    task: Task,
    answer: Candidate,
    ends: _Ends,
    rows: dict[str, tuple[float, float, float, float]],
) -> float:
    mismatch = _balance(arrays, answer, ends)
    across = answer.va[arrays.branch_from] - answer.va[arrays.branch_to]
    violations = [
        np.abs(mismatch.real),
        np.abs(mismatch.imag),
        np.abs(ends.power) - ends.rate,
        np.abs(ends.power) / answer.vm[ends.near] - ends.current,
        across - arrays.angle_max,
        arrays.angle_min - across,
        answer.vm - arrays.v_max,
        arrays.v_min - answer.vm,
        answer.pg - arrays.p_max,
        arrays.p_min - answer.pg,
        answer.qg - arrays.q_max,
        arrays.q_min - answer.qg,
        answer.dc - arrays.dc_max,
        arrays.dc_min - answer.dc,
        answer.susceptance - arrays.svc_max,
        arrays.svc_min - answer.susceptance,
        np.abs(answer.va[arrays.reference]),
    ]
    violations += [np.array([low - value, value - high]) / measure for value, low, high, measure in rows.values()]
    if isinstance(task, Dispatch):
        violations += [np.abs(answer.demand_p - task.demand_p), np.abs(answer.demand_q - task.demand_q)]
    elif task.box is not None:
        violations += [
            answer.demand_p - task.box.p_high,
            task.box.p_low - answer.demand_p,
            answer.demand_q - task.box.q_high,
            task.box.q_low - answer.demand_q,
        ]
    return _largest(violations)


def _largest(parts: list[Floats]) -> float:
    """Largest entry of all parts, at least zero; NaN if there is any."""
    return float(np.max(np.concatenate(parts), initial=0.0))


def _pushed(gradient: Floats, value: Floats, low: Floats, high: Floats) -> Floats:
    """Gradients that no bound explains: one that pushes to a bound counts as far as the bound is away."""
    room = np.where(gradient > 0, value - low, high - value)
    unexplained: Floats = np.abs(gradient) * np.minimum(np.maximum(room, 0.0), 1.0)
    return unexplained


def _stationarity(
    arrays: OpfArrays, task: Task, answer: Candidate, ends: _Ends, slope_low: Floats, slope_high: Floats
) -> tuple[float, float]:
    """Largest gradient of the Lagrangian, and the size of prices and objective to compare it with."""
    multipliers = answer.multipliers
    price = multipliers.price_p + 1j * multipliers.price_q
    weight = price[ends.near] + 2 * np.concatenate([multipliers.flow_from, multipliers.flow_to]) * ends.power
    # The mutual term follows the angles as exp(j(θ_near − θ_far)) and is linear in both magnitudes; own is quadratic in one.
    by_mutual = np.conj(weight) * ends.mutual
    by_own = 2 * np.real(np.conj(weight) * ends.own)
    push = multipliers.angle_above - multipliers.angle_below
    by_angle, by_magnitude = np.zeros(arrays.n_bus), np.zeros(arrays.n_bus)
    np.add.at(by_angle, ends.near, np.concatenate([push, -push]) - by_mutual.imag)
    np.add.at(by_angle, ends.far, by_mutual.imag)
    np.add.at(by_magnitude, ends.near, by_own + by_mutual.real)
    np.add.at(by_magnitude, ends.far, by_mutual.real)
    by_magnitude /= answer.vm
    susceptance = arrays.shunt_b.copy()
    np.add.at(susceptance, arrays.svc_bus, answer.susceptance)
    by_magnitude += 2 * answer.vm * (arrays.shunt_g * multipliers.price_p - susceptance * multipliers.price_q)
    # A limit on the current allows more power at a higher voltage.
    eased = np.concatenate([multipliers.flow_from, multipliers.flow_to]) * _squares(ends.current) * answer.vm[ends.near]
    np.subtract.at(by_magnitude, ends.near, 2 * eased)
    by_angle[arrays.reference] = 0.0
    cost_weight = 1.0 if isinstance(task, Dispatch) else multipliers.rows.get("cost", 0.0)
    received = multipliers.price_p[arrays.dc_to] * (1 - arrays.dc_loss_1) - multipliers.price_p[arrays.dc_from]
    worth = np.concatenate([multipliers.price_p[arrays.gen_bus], multipliers.price_q[arrays.gen_bus], received])
    to_left, to_right = (cost_weight * slope - worth for slope in (slope_low, slope_high))
    # At a corner of the cost any slope between the two will do.
    by_output = np.maximum(np.minimum(to_left, to_right), 0.0) + np.minimum(np.maximum(to_left, to_right), 0.0)
    worst = [
        np.abs(by_angle),
        _pushed(by_magnitude, answer.vm, arrays.v_min, arrays.v_max),
        _pushed(
            by_output,
            _outputs(answer),
            np.concatenate([arrays.p_min, arrays.q_min, arrays.dc_min]),
            np.concatenate([arrays.p_max, arrays.q_max, arrays.dc_max]),
        ),
        _pushed(
            -multipliers.price_q[arrays.svc_bus] * answer.vm[arrays.svc_bus] ** 2,
            answer.susceptance,
            arrays.svc_min,
            arrays.svc_max,
        ),
        # Multipliers of inequalities must not be negative.
        -multipliers.flow_from,
        -multipliers.flow_to,
        -multipliers.angle_above,
        -multipliers.angle_below,
    ]
    if not isinstance(task, Dispatch):
        worst += _load_stationarity(arrays, task, answer)
    slopes = abs(cost_weight) * np.maximum(np.abs(slope_low), np.abs(slope_high))
    scale = max(1.0, _largest([np.abs(price), slopes]))
    return _largest(worst), scale


def _load_stationarity(arrays: OpfArrays, task: Nearest | Push, answer: Candidate) -> list[Floats]:
    multipliers = answer.multipliers
    off_p, off_q = 2 * (answer.demand_p - task.target_p), 2 * (answer.demand_q - task.target_q)
    if isinstance(task, Push):
        by_p, by_q = multipliers.rows["ball"] * off_p - 1.0, multipliers.rows["ball"] * off_q
    else:
        by_p, by_q = off_p, off_q
        if task.cut is not None:
            by_p = by_p + multipliers.rows["cut"] * task.cut.weight_p
            by_q = by_q + multipliers.rows["cut"] * task.cut.weight_q
    if task.kept is not None:
        of_kept = np.array([multipliers.rows[kept_name(r)] for r in range(len(task.kept.low))])
        by_p, by_q = by_p + of_kept @ task.kept.weight_p, by_q + of_kept @ task.kept.weight_q
    by_p, by_q = by_p + multipliers.price_p[arrays.load_bus], by_q + multipliers.price_q[arrays.load_bus]
    if task.box is None:
        return [np.abs(by_p), np.abs(by_q)]
    return [
        _pushed(by_p, answer.demand_p, task.box.p_low, task.box.p_high),
        _pushed(by_q, answer.demand_q, task.box.q_low, task.box.q_high),
    ]


def _products(
    arrays: OpfArrays, answer: Candidate, ends: _Ends, rows: dict[str, tuple[float, float, float, float]]
) -> float:
    """Largest product of a multiplier and the room its inequality leaves."""
    multipliers = answer.multipliers
    flow = np.concatenate([multipliers.flow_from, multipliers.flow_to])
    across = answer.va[arrays.branch_from] - answer.va[arrays.branch_to]
    products = [
        _times_room(flow, _allowed(ends, answer.vm) - np.abs(ends.power) ** 2),
        _times_room(multipliers.angle_above, arrays.angle_max - across),
        _times_room(multipliers.angle_below, across - arrays.angle_min),
    ]
    for name, (value, low, high, _) in rows.items():
        multiplier = multipliers.rows[name]
        room = high - value if multiplier > 0 else value - low
        products.append(_times_room(np.array([multiplier]), np.array([room])))
    return _largest([np.abs(product) for product in products])


def _allowed(ends: _Ends, vm: Floats) -> Floats:
    """Limit of |S|² at each end, infinite where there is none."""
    return np.minimum(ends.rate**2, ends.current**2 * vm[ends.near] ** 2)


def _squares(current: Floats) -> Floats:
    """Squares of limits, 0 where there is none."""
    return np.where(np.isfinite(current), current, 0.0) ** 2


def _times_room(multiplier: Floats, room: Floats) -> Floats:
    """Product; a multiplier of a bound that does not exist counts by itself."""
    return multiplier * np.where(np.isfinite(room), room, 1.0)
