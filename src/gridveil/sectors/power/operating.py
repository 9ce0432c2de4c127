"""Operating points of power networks in physical units: MW, percentage of rating, per-unit voltage."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gridveil.sectors.power.network import Complexes, Grid, PowerNetwork

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class PowerState:
    """One dispatch of the energised grid: arrays over its buses, branches, and generators and storage in service."""

    voltage: Floats
    """Magnitudes, per unit."""
    generation: Complexes
    """MW + j MVAr."""
    flow: Floats
    """The larger apparent power of the two ends, MVA."""
    loading: Floats
    """That flow as a share of the rating, or the current as a share of its limit if that is larger; NaN without limits."""
    dc_power: Floats
    """What each DC line draws at its from end, MW."""


def power_state(network: PowerNetwork, x: Floats) -> PowerState:
    """Read the program's x: angles, magnitudes, active and reactive generation, DC lines (then what else there is)."""
    grid, base = network.grid, network.base_mva
    n, g, u = grid.n_bus, len(grid.generator.bus), grid.n_unit
    angle, magnitude, p, q, carried, _ = np.split(x, np.cumsum([n, n, g, g, len(grid.dc_line.from_bus)]))
    ends = _flows(grid, magnitude * np.exp(1j * angle))
    flow = np.max(ends, axis=0)
    current = np.max(ends / magnitude[[grid.from_bus, grid.to_bus]], axis=0)
    loading = np.fmax(_share(flow, grid.rate), _share(current, grid.current))
    generation = np.asarray(base * (p + 1j * q)[:u], dtype=complex)
    return PowerState(
        voltage=magnitude, generation=generation, flow=base * flow, loading=loading, dc_power=base * carried
    )


def _share(value: Floats, limit: Floats) -> Floats:
    """Share of a limit; NaN where there is none."""
    return np.asarray(value / np.where(np.isfinite(limit) & (limit > 0), limit, np.nan))


def _flows(grid: Grid, voltage: Complexes) -> Floats:
    """|S| per unit at the from and the to end of each branch: (2, L)."""
    at_from, at_to = voltage[grid.from_bus], voltage[grid.to_bus]
    entering_from = at_from * np.conj(grid.y_ff * at_from + grid.y_ft * at_to)
    entering_to = at_to * np.conj(grid.y_tf * at_from + grid.y_tt * at_to)
    return np.abs([entering_from, entering_to])
