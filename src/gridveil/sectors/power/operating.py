"""Operating points of power networks in physical units: MW, percentage of rating, per-unit voltage."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gridveil.sectors.power.network import Complexes, Grid, PowerNetwork

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class PowerState:
    """One dispatch of the energised grid: arrays over its buses, branches and generators in service."""

    voltage: Floats
    """Magnitudes, per unit."""
    generation: Complexes
    """MW + j MVAr."""
    flow: Floats
    """The larger apparent power of the two ends, MVA."""
    loading: Floats
    """That flow as a share of the rating; NaN where there is none."""


def power_state(network: PowerNetwork, x: Floats) -> PowerState:
    """Read the program's x: angles, magnitudes, active and reactive generation (then levels of costs)."""
    grid, base = network.grid, network.base_mva
    n, g = grid.n_bus, len(grid.generator.bus)
    angle, magnitude, p, q = np.split(x[: 2 * n + 2 * g], np.cumsum([n, n, g]))
    flow = base * _largest_flow(grid, magnitude * np.exp(1j * angle))
    rating = np.where(np.isfinite(grid.rate) & (grid.rate > 0), base * grid.rate, np.nan)
    generation = np.asarray(base * (p + 1j * q), dtype=complex)
    return PowerState(voltage=magnitude, generation=generation, flow=flow, loading=flow / rating)


def _largest_flow(grid: Grid, voltage: Complexes) -> Floats:
    """|S| per unit at the end of each branch where it is larger."""
    at_from, at_to = voltage[grid.from_bus], voltage[grid.to_bus]
    entering_from = at_from * np.conj(grid.y_ff * at_from + grid.y_ft * at_to)
    entering_to = at_to * np.conj(grid.y_tf * at_from + grid.y_tt * at_to)
    return np.maximum(np.abs(entering_from), np.abs(entering_to))
