"""Definition 2 of the paper, measured: does O grow with the proxy m along the path that was solved?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

VIOLATION_TOLERANCE = 1e-6  # relative to the cost target; below it a fall of O is the solver's rounding


@dataclass(frozen=True, kw_only=True)
class Monotonicity:
    """Rank correlation of m and O over the points solved, and the largest fall of O while m grew, relative to |f̃|."""

    points: int
    rank_correlation: float
    worst_violation: float

    @property
    def holds(self) -> bool:
        """Whether no pair of points contradicts monotonicity beyond rounding."""
        return self.worst_violation <= VIOLATION_TOLERANCE


def measure_monotonicity(proxies: Vector, costs: Vector, scale: float) -> Monotonicity:
    """Measure over points with finite costs; fewer than two points contradict nothing."""
    finite = np.isfinite(costs)
    proxies, costs = proxies[finite], costs[finite]
    if len(costs) < 2:
        return Monotonicity(points=len(costs), rank_correlation=float("nan"), worst_violation=0.0)
    ordered = costs[np.argsort(proxies, kind="stable")]
    fall = float(np.max(np.maximum.accumulate(ordered) - ordered))
    varied = np.ptp(proxies) > 0 and np.ptp(costs) > 0
    correlation = rank_correlation(proxies, costs) if varied else float("nan")
    return Monotonicity(points=len(costs), rank_correlation=correlation, worst_violation=fall / scale)


def rank_correlation(first: Vector, second: Vector) -> float:
    """Spearman's coefficient: the correlation of ranks, ties sharing their mean rank.

    Written out, because scipy.stats takes a second to import.
    """
    return float(np.corrcoef(_ranks(first), _ranks(second))[0, 1])


def _ranks(values: Vector) -> Vector:
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(count) - (count - 1) / 2)[place], dtype=float)
