"""Answers of dispatches in NumPy or CuPy: their flows, gradients and costs, and the check of what the structured solver finds.

Flows and gradients are complex, computed anew from the network, the scenario and the answer, as in structured/kkt_check.py.
Multipliers of simple bounds are not asked for: a gradient that pushes against a bound counts only as far as the variable is away
from that bound. Whole batches are checked by compiled_check.py, which does the same for each answer where it lies.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from gridveil.solvers.batch.contract import Points, Scenarios
from gridveil.solvers.batch.layout import solver_settings
from gridveil.solvers.batch.network import PlainGrid

Array = Any
"""An array of NumPy or CuPy, (B, …)."""


def check_batch(grid: PlainGrid, on: Array, scenarios: Scenarios, cost: Array, points: Points) -> Array:
    """(B, 3) scaled residuals: primal, dual, complementarity; NaN where an answer is no number.

    ``on`` (B, G) are the generators that take part (``lowering.gen_on``), ``cost`` (B,) the stated costs in $/h.
    """
    case = Answers(grid, on, scenarios, points, np)
    primal = np.maximum(case.infeasibility(), case.misstated(cost))
    dual, scale = case.stationarity()
    return np.stack([primal, dual / scale, case.products() / scale], axis=1)


class _Constants:
    """The network's arrays under their names, in the memory of ``xp``: sent when first asked for, and kept."""

    def __init__(self, grid: PlainGrid, xp: Any) -> None:
        self._grid, self._xp = grid, xp
        self.near = np.concatenate([grid.branch_from, grid.branch_to])
        self.at_near, self.at_far = xp.asarray(self.near), xp.asarray(np.roll(self.near, len(grid.branch_from)))
        self.y_own = xp.asarray(np.concatenate([grid.y_ff, grid.y_tt]))
        self.y_mutual = xp.asarray(np.concatenate([grid.y_ft, grid.y_tf]))
        self.rates = xp.asarray(np.tile(grid.rate, 2))
        self._turns: dict[str, list[tuple[Array, Array]]] = {}

    def __getattr__(self, name: str) -> Array:
        array = self._xp.asarray(getattr(self._grid, name))
        setattr(self, name, array)
        return array

    def sum_at(self, name: str, values: Array) -> Array:
        """(B, N) sums of columns by bus, a column of each bus at a time: no bus is added to twice at once."""
        if name not in self._turns:
            place = self.near if name == "near" else getattr(self._grid, name)
            order = np.argsort(place, kind="stable")
            rank = np.arange(len(place)) - np.searchsorted(place[order], place[order])
            turns = [order[rank == r] for r in range(int(rank.max(initial=-1)) + 1)]
            self._turns[name] = [(self._xp.asarray(place[turn]), self._xp.asarray(turn)) for turn in turns]
        total = self._xp.zeros((len(values), self._grid.n_bus), values.dtype)
        for at, chosen in self._turns[name]:
            total[:, at] += values[:, chosen]
        return total


_constants = lru_cache(maxsize=32)(_Constants)


class Answers:
    """The scenarios with their answers; every term is (B, elements)."""

    def __init__(self, grid: PlainGrid, on: Array, scenarios: Scenarios, points: Points, xp: Any) -> None:
        self.grid, self.on, self.scenarios, self.points, self.xp = grid, on, scenarios, points, xp
        self.net = net = _constants(grid, xp)
        self.here = self._in_service()
        self.both_here = xp.concatenate([self.here, self.here], axis=1)
        voltage = points.vm * xp.exp(1j * points.va)
        at_near, at_far = voltage[:, net.at_near], voltage[:, net.at_far]
        # Complex power into both ends of all branches, from ends first: of the end's own voltage alone, and the rest.
        self.own = at_near * xp.conj(net.y_own * at_near) * self.both_here
        self.mutual = at_near * xp.conj(net.y_mutual * at_far) * self.both_here
        self.power = self.own + self.mutual

    def _in_service(self) -> Array:
        """(B, L) which branches take part; one row if all do in every scenario."""
        out, n_branch = self.scenarios.branch_out, len(self.grid.branch_from)
        if out is None:
            return self.xp.ones((1, n_branch), bool)
        here = np.ones((len(self.scenarios), n_branch), bool)
        for listed in np.asarray(out).T:
            some = np.flatnonzero(listed >= 0)
            here[some, listed[some]] = False
        return self.xp.asarray(here)

    def _limits(self, name: str) -> Array:
        """(B, G) or (1, G) limits or costs of generators: the scenario's own, or the network's."""
        given = getattr(self.scenarios, name)
        return getattr(self.net, name)[None] if given is None else self.xp.asarray(given)

    def _across(self) -> Array:
        return self.points.va[:, self.net.branch_from] - self.points.va[:, self.net.branch_to]

    def infeasibility(self) -> Array:
        """(B,) largest violation of balances, limits and bounds."""
        xp, net, points, on = self.xp, self.net, self.points, self.on
        demand = xp.asarray(self.scenarios.demand_p) + 1j * xp.asarray(self.scenarios.demand_q)
        mismatch = (net.shunt_g - 1j * net.shunt_b) * points.vm**2
        mismatch = mismatch + net.sum_at("near", self.power) + net.sum_at("load_bus", demand)
        mismatch = mismatch - net.sum_at("gen_bus", points.pg + 1j * points.qg)
        here, across = self.here, self._across()
        return _largest(
            xp,
            xp.abs(mismatch.real),
            xp.abs(mismatch.imag),
            xp.abs(self.power) - net.rates,
            xp.where(here, across - net.angle_max, 0.0),
            xp.where(here, net.angle_min - across, 0.0),
            points.vm - net.v_max,
            net.v_min - points.vm,
            points.pg - xp.where(on, self._limits("p_max"), 0.0),
            xp.where(on, self._limits("p_min"), 0.0) - points.pg,
            points.qg - xp.where(on, self._limits("q_max"), 0.0),
            xp.where(on, self._limits("q_min"), 0.0) - points.qg,
            xp.abs(points.va[:, net.reference]),
        )

    @cached_property
    def slopes(self) -> tuple[Array, Array, Array]:
        """(B,) cost of generation; (B, G) slopes of each cost to the left and to the right of the output."""
        xp, grid, net, pg = self.xp, self.grid, self.net, self.points.pg
        cost_1, cost_2 = self._limits("cost_1"), self._limits("cost_2")
        total = (self.on * (net.cost_0 + (cost_1 + cost_2 * pg) * pg)).sum(axis=1)
        low = cost_1 + 2 * cost_2 * pg
        high, corner = low.copy(), solver_settings()["CORNER"]
        for k in set(grid.line_gen.tolist()):
            mine = grid.line_gen == k
            slope, intercept = xp.asarray(grid.line_slope[mine]), xp.asarray(grid.line_intercept[mine])
            at = pg[:, k, None]
            total = total + self.on[:, k] * (slope * at + intercept).max(axis=1)
            low[:, k] += slope[(slope * (at - corner) + intercept).argmax(axis=1)]
            high[:, k] += slope[(slope * (at + corner) + intercept).argmax(axis=1)]
        return total, low, high

    def misstated(self, cost: Array) -> Array:
        """(B,) how wrong the stated costs are, relative to the cost."""
        xp, (total, _, _) = self.xp, self.slopes
        return xp.abs(cost - total) / xp.maximum(1.0, xp.abs(total))

    def voltage_gradient(self) -> tuple[Array, Array]:
        """(B, N) gradients of the Lagrangian by angle and by magnitude, without the multipliers of simple bounds."""
        xp, net, points = self.xp, self.net, self.points
        price = points.price_p + 1j * points.price_q
        flow = xp.concatenate([points.flow_from, points.flow_to], axis=1)
        weight = price[:, net.at_near] + 2 * flow * self.power
        # The mutual term follows the angles as exp(j(θ_near − θ_far)) and is linear in both magnitudes; own is quadratic in one.
        by_mutual, by_own = xp.conj(weight) * self.mutual, 2 * (xp.conj(weight) * self.own).real
        push = points.angle_above - points.angle_below
        half = push.shape[1]
        swapped = xp.concatenate([by_mutual[:, half:], by_mutual[:, :half]], axis=1)  # what the other end has
        by_angle = xp.concatenate([push, -push], axis=1) + (swapped - by_mutual).imag
        by_angle = net.sum_at("near", by_angle)
        by_angle[:, net.reference] = 0.0
        shunt = net.shunt_g * points.price_p - net.shunt_b * points.price_q
        by_magnitude = net.sum_at("near", by_own + (swapped + by_mutual).real)
        return by_angle, by_magnitude / points.vm + 2 * points.vm * shunt

    def stationarity(self) -> tuple[Array, Array]:
        """(B,) largest gradient of the Lagrangian, and the size of prices and costs to compare it with."""
        xp, net, points, on = self.xp, self.net, self.points, self.on
        by_angle, by_magnitude = self.voltage_gradient()
        price = points.price_p + 1j * points.price_q
        flow = xp.concatenate([points.flow_from, points.flow_to], axis=1)
        _, slope_low, slope_high = self.slopes
        at_gen = net.gen_bus
        to_left, to_right = (slope - points.price_p[:, at_gen] for slope in (slope_low, slope_high))
        # At a corner of the cost any slope between the two will do.
        by_p = xp.maximum(xp.minimum(to_left, to_right), 0.0) + xp.minimum(xp.maximum(to_left, to_right), 0.0)
        worst = _largest(
            xp,
            xp.abs(by_angle),
            self._pushed(by_magnitude, points.vm, net.v_min, net.v_max),
            on * self._pushed(by_p, points.pg, self._limits("p_min"), self._limits("p_max")),
            on * self._pushed(-points.price_q[:, at_gen], points.qg, self._limits("q_min"), self._limits("q_max")),
            # Multipliers of inequalities must not be negative.
            -flow,
            -points.angle_above,
            -points.angle_below,
        )
        slopes = on * xp.maximum(xp.abs(slope_low), xp.abs(slope_high))
        return worst, xp.maximum(1.0, _largest(xp, xp.abs(price), slopes))

    def _pushed(self, gradient: Array, value: Array, low: Array, high: Array) -> Array:
        """Gradients that no bound explains: one that pushes to a bound counts as far as the bound is away."""
        xp = self.xp
        room = xp.where(gradient > 0, value - low, high - value)
        return xp.abs(gradient) * xp.minimum(xp.maximum(room, 0.0), 1.0)

    def products(self) -> Array:
        """(B,) largest product of a multiplier and the room its inequality leaves."""
        xp, net, points = self.xp, self.net, self.points
        flow, across = xp.concatenate([points.flow_from, points.flow_to], axis=1), self._across()
        flow_room = xp.where(self.both_here, net.rates**2 - xp.abs(self.power) ** 2, xp.inf)
        above = xp.where(self.here, net.angle_max - across, xp.inf)
        below = xp.where(self.here, across - net.angle_min, xp.inf)
        pairs = ((flow, flow_room), (points.angle_above, above), (points.angle_below, below))
        # A multiplier of a limit that does not exist counts by itself.
        return _largest(xp, *(xp.abs(one * xp.where(xp.isfinite(room), room, 1.0)) for one, room in pairs))


def _largest(xp: Any, *parts: Array) -> Array:
    """(B,) largest entry of all parts, at least zero; NaN if there is any."""
    found = xp.zeros(len(parts[0]))
    for part in parts:
        if part.shape[1]:
            found = xp.maximum(found, part.max(axis=1))
    return found
