"""Names and coordinates of nodes in a case file, for the curator's drawings only: neither is published."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Point = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Places:
    """Names and coordinates of buses or junctions by id; a point is (east, north) in any unit."""

    names: Mapping[str, str] = field(default_factory=dict)
    points: Mapping[str, Point] = field(default_factory=dict)


def own_names(names: Mapping[str, str]) -> dict[str, str]:
    """Keep the names that say more than the id."""
    return {key: name for key, name in names.items() if name not in ("", key)}


def finite_points(points: Mapping[str, Any]) -> dict[str, Point]:
    """Keep the points that are two finite numbers."""
    kept = {}
    for key, values in points.items():
        try:
            east, north = (float(value) for value in values)
        except (TypeError, ValueError):
            continue
        if math.isfinite(east) and math.isfinite(north):
            kept[key] = (east, north)
    return kept
