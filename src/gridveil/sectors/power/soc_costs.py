"""Costs of powers in a convex program: a convex function from below, and a straight line from above.

Quadratic costs and convex piecewise-linear ones are exact from below. Any other polynomial (a cubic, a concave cost) is
replaced by tangents of its convex under-estimator f(p) + ½c(p − p_min)(p − p_max) with c = max(0, −min f″) (the αBB form).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import numpy as np
from numpy.polynomial import Polynomial
from numpy.typing import NDArray

from gridveil.sectors.power.costs import GeneratorCosts, joined_costs
from gridveil.sectors.power.network import Grid

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

TANGENTS = 33  # per polynomial that is neither linear nor convex quadratic
CURVATURE_SLACK = 1e-9  # relative, so that rounding cannot overstate the least curvature


@dataclass(frozen=True, eq=False, kw_only=True)
class ConvexCosts:
    """Σ constant + linear·p + quadratic·p² + level bounds the cost from below; level_k ≥ slope·p + intercept for its lines.

    Arrays over generators, but for ``level_*`` (over ``level_generator``) and ``line_*``. In $/h for per-unit power.
    """

    constant: float
    linear: Floats
    quadratic: Floats
    level_generator: Ints
    level_lower: Floats
    level_upper: Floats
    line_level: Ints
    line_generator: Ints
    line_slope: Floats
    line_intercept: Floats
    secant_slope: Floats
    secant_intercept: Floats
    """slope·p + intercept ≥ the cost between p_min and p_max; inf for a generator without finite limits."""


def convex_costs(cost: GeneratorCosts, low: Floats, high: Floats) -> ConvexCosts:
    """Build the convex form of the costs of powers between these limits."""
    polynomial = np.array(cost.polynomial)
    irregular = np.flatnonzero(np.any(polynomial[3:] != 0, axis=0) | (polynomial[2] < 0))
    tangents = [_tangents(Polynomial(polynomial[:, k]), low[k], high[k]) for k in irregular]
    owner = np.concatenate([cost.line_generator, np.repeat(irregular, [len(t) for t in tangents])]).astype(np.int64)
    lines = np.concatenate([np.stack([cost.line_slope, cost.line_intercept], axis=1), *tangents])
    levels = np.union1d(cost.piecewise, irregular).astype(np.int64)
    slack = np.zeros(len(low))
    slack[irregular] = [_bulge(Polynomial(polynomial[:, k]), low[k], high[k]) for k in irregular]
    line_level = np.searchsorted(levels, owner)
    secant_slope, secant_intercept = _secants(cost, polynomial, slack, low, high)
    level_lower, level_upper = _level_box(len(levels), line_level, lines, low[owner], high[owner])
    polynomial[:, irregular] = 0.0
    return ConvexCosts(
        constant=float(polynomial[0].sum()),
        linear=polynomial[1],
        quadratic=polynomial[2],
        level_generator=levels,
        level_lower=level_lower,
        level_upper=level_upper,
        line_level=line_level,
        line_generator=owner,
        line_slope=lines[:, 0],
        line_intercept=lines[:, 1],
        secant_slope=secant_slope,
        secant_intercept=secant_intercept,
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class RelaxedPowers:
    """The chosen powers: of generators (P), then of DC lines, then Q of generators where that has a cost."""

    low: Floats
    high: Floats
    cost: GeneratorCosts
    reactive: Ints
    """Generators whose Q is among them."""

    @property
    def convex(self) -> ConvexCosts:
        """The costs in convex form."""
        return convex_costs(self.cost, self.low, self.high)


def relaxed_powers(grid: Grid, p_low: Floats, p_high: Floats) -> RelaxedPowers:
    """Build the chosen powers for these limits of active generation."""
    generator, line = grid.generator, grid.dc_line
    cost = generator.reactive_cost
    reactive = np.union1d(np.flatnonzero(np.any(cost.polynomial != 0, axis=0)), cost.piecewise).astype(np.int64)
    return RelaxedPowers(
        low=np.concatenate([p_low, line.p_min, generator.q_min[reactive]]),
        high=np.concatenate([p_high, line.p_max, generator.q_max[reactive]]),
        cost=joined_costs(generator.cost, line.cost, cost.select(reactive)),
        reactive=reactive,
    )


def _concavity(f: Polynomial, low: float, high: float) -> float:
    """At least max(0, −min f″) between the limits: a polynomial is not below its least Bernstein coefficient."""
    powers = f.deriv(2)(Polynomial([low, high - low])).coef
    degree = len(powers) - 1
    values = [sum(comb(i, k) / comb(degree, k) * powers[k] for k in range(i + 1)) for i in range(degree + 1)]
    return max(0.0, float(CURVATURE_SLACK * np.max(np.abs(values)) - np.min(values)))


def _tangents(f: Polynomial, low: float, high: float) -> Floats:
    """(slope, intercept) of lines below f between the limits; none if the limits are not finite."""
    if not np.isfinite(high - low):
        return np.zeros((0, 2))
    under = f + 0.5 * _concavity(f, low, high) * Polynomial.fromroots([low, high])
    points = np.linspace(low, high, TANGENTS)
    slopes = under.deriv()(points)
    return np.stack([slopes, under(points) - slopes * points], axis=1)


def _bulge(f: Polynomial, low: float, high: float) -> float:
    """How far f can rise above its chord."""
    return _concavity(f, low, high) * (high - low) ** 2 / 8 if np.isfinite(high - low) else np.inf


def _secants(
    cost: GeneratorCosts, polynomial: Floats, slack: Floats, low: Floats, high: Floats
) -> tuple[Floats, Floats]:
    limited = np.isfinite(low) & np.isfinite(high)
    ends = [np.where(limited, end, 0.0) for end in (low, high)]
    at_low, at_high = (_cost_at(polynomial, cost, end) for end in ends)
    width = ends[1] - ends[0]
    slope = np.where(width > 0, (at_high - at_low) / np.where(width > 0, width, 1.0), 0.0)
    intercept = np.maximum(at_low - slope * ends[0], at_high - slope * ends[1]) + slack
    return slope, np.where(limited, intercept, np.inf)


def _cost_at(polynomial: Floats, cost: GeneratorCosts, p: Floats) -> Floats:
    value = np.sum(polynomial * p ** np.arange(len(polynomial))[:, None], axis=0)
    curve = np.full(len(p), -np.inf)
    np.maximum.at(curve, cost.line_generator, cost.line_slope * p[cost.line_generator] + cost.line_intercept)
    return np.asarray(value + np.where(np.isfinite(curve), curve, 0.0))


def _level_box(n: int, level: Ints, lines: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Limits of the largest of each level's lines between the limits of its generator."""
    with np.errstate(invalid="ignore"):
        ends = np.nan_to_num(lines[:, :1] * np.stack([low, high], axis=1), nan=0.0, posinf=np.inf, neginf=-np.inf)
    ends += lines[:, 1:]
    lower, upper = np.full(n, -np.inf), np.full(n, -np.inf)
    np.maximum.at(lower, level, ends.min(axis=1))
    np.maximum.at(upper, level, ends.max(axis=1))
    return lower, np.where(np.isfinite(lower), upper, np.inf)
