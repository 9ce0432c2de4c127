"""Slightly tightened limits, so that a point found with them lies strictly within the true ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

LARGEST_SHARE = 0.01  # of a range that may be given up at either end


def narrowed(lower: Vector, upper: Vector, amount: float) -> tuple[Vector, Vector]:
    """Move both bounds inwards by ``amount``, relative where they exceed 1; equalities stay as they are."""
    with np.errstate(invalid="ignore"):
        width = upper - lower
        low = np.minimum(amount * np.maximum(1.0, np.abs(lower)), LARGEST_SHARE * width)
        high = np.minimum(amount * np.maximum(1.0, np.abs(upper)), LARGEST_SHARE * width)
        return (
            np.where(np.isfinite(lower) & (width > 0), lower + low, lower),
            np.where(np.isfinite(upper) & (width > 0), upper - high, upper),
        )
