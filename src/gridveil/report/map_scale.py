"""The colours of a map: classes of changes, from the largest fall over grey to the largest rise."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gridveil.core.text import number
from gridveil.report.style import HIGH, LOW, MIDDLE
from gridveil.sectors.view import Changes

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

CLASSES = 9  # of the colour scale; odd, so that one of them is "no change"


def colours() -> list[str]:
    """List the colours of the scale, from the largest fall over grey to the largest rise."""
    low, middle, high = (np.array([int(code[k : k + 2], 16) for k in (1, 3, 5)]) for code in (LOW, MIDDLE, HIGH))
    half = CLASSES // 2
    mixed = [low + (middle - low) * k / half for k in range(half)] + [
        middle + (high - middle) * k / half for k in range(half + 1)
    ]
    return ["#" + "".join(f"{round(channel):02x}" for channel in colour) for colour in mixed]


def shades(values: Floats) -> Ints:
    """Find the colour class of each change, −1 where there is none."""
    half = CLASSES // 2
    scaled = np.clip(np.nan_to_num(values) / strongest(values), -1, 1)
    return np.where(np.isfinite(values), np.rint(half * scaled).astype(np.int64) + half, -1)


def strongest(values: Floats) -> float:
    """The change that gets the strongest colour: the 98th percentile, so that one outlier does not pale all others."""
    changes = np.abs(values[np.isfinite(values)])
    return float(np.quantile(changes, 0.98)) or float(changes.max()) or 1.0 if changes.size else 1.0


def legend(change: Changes, values: Floats, of: str = "") -> dict[str, object]:
    """What the ends of the scale mean, for these values of a change."""
    limit = strongest(values)
    return {
        "name": f"{change.name}{of}",
        "least": f"{number(-limit, 3)} {change.unit}",
        "most": f"+{number(limit, 3)} {change.unit}",
    }
