"""Parts shared by the AC and DC formulations: angles, generation and the objective (1) of Model 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gridveil.core.lazy import lazy_module
from gridveil.programs.families import Rows, Variable, constant, pick, sum_at
from gridveil.sectors.power.costs import GeneratorCosts, cost_levels
from gridveil.sectors.power.network import Grid

if TYPE_CHECKING:
    import casadi as ca
else:
    ca = lazy_module("casadi")

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def variable_angle(grid: Grid) -> Variable:
    """∠V, with (2): zero at the reference of each island."""
    bound = np.full(grid.n_bus, np.inf)
    bound[grid.reference] = 0.0
    return Variable(-bound, bound, np.zeros(grid.n_bus))


def variable_generation(lower: Floats, upper: Floats) -> Variable:
    """Bounds (5); the start is the middle of the range, or its finite end."""
    return Variable(lower, upper, _middle(lower, upper))


def variable_dc_line(grid: Grid) -> Variable:
    """Active power that each DC line draws at its from end, within its limits."""
    return variable_generation(grid.dc_line.p_min, grid.dc_line.p_max)


def variable_susceptance(grid: Grid) -> Variable:
    """Susceptance b of each compensator, within its limits."""
    return variable_generation(grid.compensator.b_min, grid.compensator.b_max)


def variable_cost_level(cost: GeneratorCosts, lower: Floats, upper: Floats) -> Variable:
    """Each piecewise-linear cost of powers between these limits, as a variable above all its lines."""
    unlimited = np.full(len(cost.piecewise), np.inf)
    return Variable(-unlimited, unlimited, cost_levels(cost, _middle(lower, upper)))


def constraint_angle_difference(grid: Grid, angle: ca.MX) -> Rows:
    """(4): angle difference across each branch."""
    difference = pick(angle, grid.from_bus) - pick(angle, grid.to_bus)
    return Rows(difference, grid.angle_min, grid.angle_max)


def expression_dc_line_power(grid: Grid, carried: ca.MX) -> ca.MX:
    """Active power that DC lines feed at each bus: −p at their from ends, (1 − loss_1)·p − loss_0 at their to ends."""
    line = grid.dc_line
    delivered = constant(1 - line.loss_1) * carried - constant(line.loss_0)
    return sum_at(line.to_bus, grid.n_bus) @ delivered - sum_at(line.from_bus, grid.n_bus) @ carried


def constraint_cost_level(cost: GeneratorCosts, p: ca.MX, level: ca.MX) -> Rows:
    """Level ≥ slope·p + intercept for each line of each piecewise-linear cost of the powers p."""
    which = np.searchsorted(cost.piecewise, cost.line_generator)
    expression = pick(level, which) - constant(cost.line_slope) * pick(p, cost.line_generator)
    return Rows(expression, cost.line_intercept, np.full(len(which), np.inf))


def objective_generation_cost(cost: GeneratorCosts, p: ca.MX, level: ca.MX) -> ca.MX:
    """(1): the sum of all costs of the powers p, in $/h."""
    powers = ca.MX(1)
    total = ca.MX(float(cost.polynomial[0].sum()))
    for coefficients in cost.polynomial[1:]:
        powers = powers * p
        if np.any(coefficients != 0):
            total += ca.dot(constant(coefficients), powers)
    return total + ca.sum1(level)


def _middle(lower: Floats, upper: Floats) -> Floats:
    finite_lower = np.where(np.isfinite(lower), lower, np.where(np.isfinite(upper), upper, 0.0))
    finite_upper = np.where(np.isfinite(upper), upper, finite_lower)
    return np.asarray((finite_lower + finite_upper) / 2)
