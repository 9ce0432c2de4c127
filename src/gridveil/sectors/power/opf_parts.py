"""Parts shared by the AC and DC formulations: angles, generation and the objective (1) of Model 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gridveil.core.lazy import lazy_module
from gridveil.programs.families import Rows, Variable, constant, pick
from gridveil.sectors.power.costs import GeneratorCosts
from gridveil.sectors.power.network import Generators, Grid

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


def variable_cost_level(cost: GeneratorCosts, generator: Generators) -> Variable:
    """Cost of each piecewise-linear generator, as a variable above all its lines."""
    n = len(cost.piecewise)
    middle = _middle(generator.p_min, generator.p_max)
    start = np.full(n, -np.inf)
    level = np.searchsorted(cost.piecewise, cost.line_generator)
    np.maximum.at(start, level, cost.line_slope * middle[cost.line_generator] + cost.line_intercept)
    return Variable(np.full(n, -np.inf), np.full(n, np.inf), start)


def constraint_angle_difference(grid: Grid, angle: ca.MX) -> Rows:
    """(4): angle difference across each branch."""
    difference = pick(angle, grid.from_bus) - pick(angle, grid.to_bus)
    return Rows(difference, grid.angle_min, grid.angle_max)


def constraint_cost_level(cost: GeneratorCosts, p: ca.MX, level: ca.MX) -> Rows:
    """Level ≥ slope·p + intercept for each line of each piecewise-linear cost."""
    which = np.searchsorted(cost.piecewise, cost.line_generator)
    expression = pick(level, which) - constant(cost.line_slope) * pick(p, cost.line_generator)
    return Rows(expression, cost.line_intercept, np.full(len(which), np.inf))


def objective_generation_cost(cost: GeneratorCosts, p: ca.MX, level: ca.MX) -> ca.MX:
    """(1): the sum of all generator costs, in $/h."""
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
