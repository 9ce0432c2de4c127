"""Generator costs as arrays: polynomials and convex piecewise-linear curves, in $/h for per-unit power."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gridveil.core.errors import InputError
from gridveil.sectors.power.tables import CostCurve

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

CONVEXITY_TOLERANCE = 1e-6  # relative: how far rounding in a file may lift a point above the convex hull of its curve


@dataclass(frozen=True, eq=False, kw_only=True)
class GeneratorCosts:
    """Costs of n generators.

    ``polynomial[k, i]`` multiplies p_i**k. Generators with a piecewise-linear curve have zeros there; for them the cost is
    the largest of the lines ``slope * p + intercept`` whose ``line_generator`` names them.
    """

    polynomial: Floats
    line_generator: Ints
    line_slope: Floats
    line_intercept: Floats
    points: tuple[tuple[int, Floats], ...]

    @cached_property
    def piecewise(self) -> Ints:
        """Generators with a piecewise-linear curve, ascending."""
        return np.unique(self.line_generator)

    @property
    def stated(self) -> bool:
        """Whether any generator has a cost that is not zero."""
        return bool(np.any(self.polynomial != 0) or self.line_generator.size)

    def select(self, generators: Ints) -> GeneratorCosts:
        """Select the costs of some generators, renumbered in the given order."""
        number = np.full(self.polynomial.shape[1], -1)
        number[generators] = np.arange(len(generators))
        keep = number[self.line_generator] >= 0
        return GeneratorCosts(
            polynomial=self.polynomial[:, generators],
            line_generator=number[self.line_generator[keep]],
            line_slope=self.line_slope[keep],
            line_intercept=self.line_intercept[keep],
            points=tuple((int(number[i]), xy) for i, xy in self.points if number[i] >= 0),
        )


def no_costs(n: int) -> GeneratorCosts:
    """Return the costs of n generators that cost nothing."""
    none = np.zeros(0)
    return GeneratorCosts(
        polynomial=np.zeros((3, n)),
        line_generator=np.zeros(0, dtype=np.int64),
        line_slope=none,
        line_intercept=none,
        points=(),
    )


def joined_costs(*parts: GeneratorCosts) -> GeneratorCosts:
    """Put the costs of several groups one after the other."""
    counts = [part.polynomial.shape[1] for part in parts]
    starts = np.cumsum([0, *counts[:-1]]).tolist()
    polynomial = np.zeros((max(len(part.polynomial) for part in parts), sum(counts)))
    for start, count, part in zip(starts, counts, parts, strict=True):
        polynomial[: len(part.polynomial), start : start + count] = part.polynomial
    each = list(zip(starts, parts, strict=True))
    return GeneratorCosts(
        polynomial=polynomial,
        line_generator=np.concatenate([start + part.line_generator for start, part in each]),
        line_slope=np.concatenate([part.line_slope for part in parts]),
        line_intercept=np.concatenate([part.line_intercept for part in parts]),
        points=tuple((start + i, xy) for start, part in each for i, xy in part.points),
    )


def cost_levels(cost: GeneratorCosts, power: Floats) -> Floats:
    """Value of each piecewise-linear curve, in the order of ``cost.piecewise``."""
    level = np.full(len(cost.piecewise), -np.inf)
    lines = cost.line_slope * power[cost.line_generator] + cost.line_intercept
    np.maximum.at(level, np.searchsorted(cost.piecewise, cost.line_generator), lines)
    return level


def costs_from_curves(
    curves: Sequence[CostCurve | None], base_mva: float, bus_id: Ints, kind: str = "generator"
) -> GeneratorCosts:
    """Convert curves in MW to per unit. A generator (or other ``kind``) without a curve costs nothing."""
    degree = max([3, *(len(curve.polynomial) for curve in curves if curve)])
    polynomial = np.zeros((degree, len(curves)))
    points: list[tuple[int, Floats]] = []
    lines: list[tuple[int, float, float]] = []
    for i, curve in enumerate(curves):
        if curve is None:
            continue
        with np.errstate(over="ignore"):
            coefficients = np.array(curve.polynomial[::-1]) * np.float64(base_mva) ** np.arange(len(curve.polynomial))
        if not np.all(np.isfinite(coefficients)):
            raise InputError(
                f"{kind} {i + 1} at bus {bus_id[i]}: a cost coefficient is too large; correct the cost row"
            )
        polynomial[: len(coefficients), i] = coefficients
        if curve.points:
            where = f"{kind} {i + 1} at bus {bus_id[i]}"
            xy = np.array(curve.points) / (base_mva, 1.0)
            points.append((i, xy))
            lines += [(i, slope, intercept) for slope, intercept in _lines_through(xy, where)]
    return GeneratorCosts(
        polynomial=polynomial,
        line_generator=np.array([line[0] for line in lines], dtype=np.int64),
        line_slope=np.array([line[1] for line in lines], dtype=float),
        line_intercept=np.array([line[2] for line in lines], dtype=float),
        points=tuple(points),
    )


def _lines_through(xy: Floats, where: str) -> list[tuple[float, float]]:
    if not np.all(np.isfinite(xy)):
        raise InputError(f"{where}: its piecewise-linear cost has a value that is not finite; correct the cost row")
    again = np.append(False, np.all(xy[1:] == xy[:-1], axis=1))
    distinct = xy[~again]
    if len(xy) < 2 or np.any(np.diff(distinct[:, 0]) <= 0):
        raise InputError(
            f"{where}: its piecewise-linear cost needs two or more points with growing MW; correct the cost row"
        )
    if len(distinct) == 1:
        return [(0.0, float(distinct[0, 1]))]
    hull = _lower_hull(distinct)
    above = distinct[:, 1] - np.interp(distinct[:, 0], hull[:, 0], hull[:, 1])
    if np.any(above > CONVEXITY_TOLERANCE * (1 + np.abs(distinct[:, 1]))):
        raise InputError(f"{where}: its piecewise-linear cost is not convex; replace it by its convex hull")
    slopes = np.diff(hull[:, 1]) / np.diff(hull[:, 0])
    return [(float(s), float(y - s * p)) for s, (p, y) in zip(slopes, hull[:-1], strict=True)]


def _lower_hull(xy: Floats) -> Floats:
    """Points of a curve that lie on its lower convex hull, from left to right."""
    hull: list[Floats] = []
    for point in xy:
        while len(hull) > 1:
            (x_0, y_0), (x_1, y_1) = hull[-2], hull[-1]
            if (y_1 - y_0) * (point[0] - x_1) <= (point[1] - y_1) * (x_1 - x_0):
                break
            hull.pop()
        hull.append(point)
    return np.array(hull)


def upper_envelope(slope: Floats, intercept: Floats, low: float, high: float) -> tuple[Floats, Floats, float]:
    """Lines that are largest somewhere in [low, high]: their slopes, where each takes over, the first's intercept."""
    by_slope = np.lexsort((intercept, slope))
    kept: list[int] = []
    starts: list[float] = []
    for i in by_slope.tolist():
        start = low
        while kept:
            rise = slope[i] - slope[kept[-1]]
            start = float((intercept[kept[-1]] - intercept[i]) / rise) if rise > 0 else -np.inf
            if start > starts[-1]:
                break
            kept.pop()
            starts.pop()
        start = start if kept else low
        if not kept or start < high:
            kept.append(i)
            starts.append(start)
    return slope[kept], np.array(starts), float(intercept[kept[0]])
