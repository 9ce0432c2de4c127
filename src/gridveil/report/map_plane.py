"""The plane of a map: coordinates of the case file, and the fit of any layout into the drawing."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gridveil.report.layout import fill_missing
from gridveil.sectors.geometry import Places
from gridveil.sectors.view import NetworkView

Floats = NDArray[np.float64]

WIDTH, LEAST_HEIGHT, MOST_HEIGHT, MARGIN = 1000.0, 360.0, 720.0, 34.0
SHARE_WITH_POINTS = 0.5  # of the nodes that must have coordinates for these to be used


@dataclass(frozen=True, eq=False)
class Plane:
    """How a layout (y up) fits into the drawing (y down): scale first, then shift. ``height`` is the drawing's."""

    scale: float
    shift: Floats
    height: float

    def of(self, points: Floats) -> Floats:
        """Points of the layout (n × 2) in units of the drawing."""
        return np.asarray(points * (self.scale, -self.scale) + self.shift)


def given_points(view: NetworkView, places: Places) -> Floats | None:
    """The file's coordinates (n × 2), those of a few nodes filled in; None where too few nodes have any."""
    found = np.array([places.points.get(node, (np.nan, np.nan)) for node in view.ids], dtype=float).reshape(-1, 2)
    known = np.asarray(np.isfinite(found).all(axis=1))
    if known.mean() < SHARE_WITH_POINTS or not np.all(np.ptp(found[known], axis=0) > 0):
        return None
    if np.all(np.abs(found[known]) <= (180, 90)):  # degrees: a degree of longitude is shorter than one of latitude
        found[:, 0] *= math.cos(math.radians(float(found[known, 1].mean())))
    return fill_missing(found, view.start, view.end)


def fit(low: Floats, high: Floats) -> Plane:
    """Fit what lies between two corners of a layout into the drawing, in its middle."""
    size = np.maximum(high - low, 1e-9)
    scale = float(np.min((np.array([WIDTH, MOST_HEIGHT]) - 2 * MARGIN) / size))
    height = min(MOST_HEIGHT, max(LEAST_HEIGHT, scale * float(high[1] - low[1]) + 2 * MARGIN))
    middle = (low + high) / 2 * (scale, -scale)
    return Plane(scale, np.array([WIDTH / 2, height / 2]) - middle, height)
