"""What the AC and the DC form share: angles, generation and the objective (1) of Model 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from gridveil.sectors.power.costs import GeneratorCosts
from gridveil.sectors.power.network import Generators, Grid

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Rows:
    """One family of constraints: lower ≤ expression ≤ upper."""

    expression: ca.MX
    lower: Floats
    upper: Floats


@dataclass(frozen=True, eq=False)
class Variable:
    """One family of variables with its bounds and public start."""

    lower: Floats
    upper: Floats
    start: Floats


def join(variables: Sequence[Variable]) -> Variable:
    """Put families of variables one after another."""
    return Variable(
        np.concatenate([v.lower for v in variables]),
        np.concatenate([v.upper for v in variables]),
        np.concatenate([v.start for v in variables]),
    )


def stack(rows: Sequence[Rows]) -> Rows:
    """Put families of constraints on top of each other."""
    return Rows(
        ca.vertcat(*(r.expression for r in rows)),
        np.concatenate([r.lower for r in rows]),
        np.concatenate([r.upper for r in rows]),
    )


def equal_to_zero(expression: ca.MX) -> Rows:
    """Give rows that must vanish."""
    zeros = np.zeros(expression.numel())
    return Rows(expression, zeros, zeros)


def constant(values: Floats) -> ca.DM:
    """Give an array as a CasADi column, so that products with symbols stay symbols."""
    return ca.DM(values)


def pick(vector: ca.MX, index: Ints) -> ca.MX:
    """Give the entries at ``index`` as a column (CasADi's own indexing turns some selections on their side)."""
    return ca.vec(vector[index.tolist()])


def sum_at(bus: Ints, n_bus: int) -> ca.DM:
    """Give the 0/1 matrix that adds up, at each bus, the quantities attached to it (shape n_bus × len(bus))."""
    return ca.DM.triplet(bus.tolist(), list(range(len(bus))), ca.DM.ones(len(bus)), n_bus, len(bus))


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
