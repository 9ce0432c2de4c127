"""Simulation of data for any sector: random shares, reduced to what the network can serve."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gridveil.core.errors import NoReleaseError
from gridveil.sectors.sector import Solve

Floats = NDArray[np.float64]

SPREAD = 0.5  # σ of the lognormal factor between participants that are connected alike
MOVED = 0.01  # relative: data further than this from their nearest feasible ones cannot be served
RETREAT = 0.9  # of the nearest feasible data, which sit at the very edge of what the network can carry


def random_shares(weight: Floats, generator: np.random.Generator) -> Floats:
    """Draw shares of a total, larger where the weight is larger."""
    shares = weight * generator.lognormal(0.0, SPREAD, len(weight))
    return np.asarray(shares / shares.sum())


def is_servable(data: Floats, found: Floats | None) -> bool:
    """Whether the nearest feasible data that were found are the data themselves."""
    return found is not None and float(np.linalg.norm(found - data)) <= MOVED * float(np.linalg.norm(data))


def made_servable(data: Floats, nearest: Solve) -> Floats:
    """Keep data that can be served; replace others by the nearest ones that can, less a tenth."""
    found = nearest(data)
    if found is None:
        raise NoReleaseError("found no simulated demands that the network can serve; try another --loading")
    return data if is_servable(data, found) else RETREAT * found


def words(level: float, of: str) -> str:
    """Describe how the data were made."""
    return f"simulated from public data: random shares, scaled to {level:.0%} of {of} and made feasible"
