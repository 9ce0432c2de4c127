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

CONVEXITY_TOLERANCE = 1e-9  # relative, for slopes that are equal up to the rounding of a file


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


def costs_from_curves(curves: Sequence[CostCurve | None], base_mva: float, bus_id: Ints) -> GeneratorCosts:
    """Convert curves in MW to per unit. A generator without a curve costs nothing."""
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
                f"generator {i + 1} at bus {bus_id[i]}: a cost coefficient is too large; correct the cost row"
            )
        polynomial[: len(coefficients), i] = coefficients
        if curve.points:
            where = f"generator {i + 1} at bus {bus_id[i]}"
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
    if len(xy) < 2 or np.any(np.diff(xy[:, 0]) <= 0):
        raise InputError(
            f"{where}: its piecewise-linear cost needs two or more points with growing MW; correct the cost row"
        )
    slopes = np.diff(xy[:, 1]) / np.diff(xy[:, 0])
    if np.any(np.diff(slopes) < -CONVEXITY_TOLERANCE * (1 + np.abs(slopes[:-1]))):
        raise InputError(f"{where}: its piecewise-linear cost is not convex; replace it by its convex hull")
    return [(float(s), float(y - s * p)) for s, (p, y) in zip(slopes, xy[:-1], strict=True)]


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
