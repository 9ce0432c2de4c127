"""Growth of time with size: the exponent of a power law, fitted by least squares in logarithms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gridveil.benchmark.command import WARM, CommandRow
from gridveil.benchmark.opf import CONVERGED, OpfRow
from gridveil.benchmark.releases import DONE, ReleaseRow

GROWTH_CASES = (
    "case14_ieee",
    "case30_ieee",
    "case57_ieee",
    "case118_ieee",
    "case300_ieee",
    "case588_sdet",
    "case1354_pegase",
    "case2000_goc",
    "case2869_pegase",
    "case4917_goc",
    "case9241_pegase",
    "case13659_pegase",
)
"""Typical PGLib cases from 14 to 13 659 buses."""
FEWEST_POINTS = 3


@dataclass(frozen=True, kw_only=True)
class GrowthRow:
    """seconds ≈ seconds_at_1000 · (buses / 1000)^exponent, of O(d), of the median release at one α, or of the whole command."""

    quantity: str
    solver: str
    alpha: float | None
    exponent: float
    seconds_at_1000: float
    points: int
    smallest: int
    largest: int


def fit_power_law(buses: Sequence[int], seconds: Sequence[float]) -> tuple[float, float]:
    """Fit the exponent and the seconds at 1000 buses."""
    exponent, level = np.polyfit(np.log(np.asarray(buses) / 1000.0), np.log(seconds), 1)
    return float(exponent), float(np.exp(level))


def growth_rows(
    results: Sequence[OpfRow], releases: Sequence[ReleaseRow], commands: Sequence[CommandRow] = ()
) -> list[GrowthRow]:
    """Fit every solver's O(d), each α's releases and the whole command, where at least three sizes were solved."""
    series: dict[tuple[str, str, float | None], list[tuple[int, float]]] = {}
    for row in results:
        if row.status == CONVERGED and row.solve_seconds:
            series.setdefault(("O(d)", row.solver, None), []).append((row.buses, row.solve_seconds))
    for release in releases:
        if release.status == DONE and release.median_seconds:
            key = ("release", "structured", release.alpha)
            series.setdefault(key, []).append((release.buses, release.median_seconds))
    for command in commands:
        if command.public_seconds and command.caches == WARM:
            points = series.setdefault(("command, published", "structured", None), [])
            points.append((command.buses, command.public_seconds))
    return [_fitted(*key, points) for key, points in series.items() if len({n for n, _ in points}) >= FEWEST_POINTS]


def _fitted(quantity: str, solver: str, alpha: float | None, points: list[tuple[int, float]]) -> GrowthRow:
    buses, seconds = zip(*points, strict=True)
    exponent, level = fit_power_law(buses, seconds)
    return GrowthRow(
        quantity=quantity,
        solver=solver,
        alpha=alpha,
        exponent=exponent,
        seconds_at_1000=level,
        points=len(points),
        smallest=min(buses),
        largest=max(buses),
    )
