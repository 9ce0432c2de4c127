"""Operating points in the units that people read: MW, per cent of a rating, per unit of voltage, bar, kg/s."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gridveil.sectors.gas.network import GasNetwork
from gridveil.sectors.gas.ogf import ogf_point
from gridveil.sectors.power.network import Complexes, Grid, PowerNetwork

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

PASCAL_PER_BAR = 1e5


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


@dataclass(frozen=True, eq=False, kw_only=True)
class GasState:
    """One operating point: pressures in bar, flows in kg/s, in file order."""

    pressure: Floats
    pipe_flow: Floats
    compressor_flow: Floats
    compressor_ratio: Floats
    supply: Floats
    """What each regulated junction feeds in."""


def power_state(network: PowerNetwork, x: Floats) -> PowerState:
    """Read the program's x: angles, magnitudes, active and reactive generation (then levels of costs)."""
    grid, base = network.grid, network.base_mva
    n, g = grid.n_bus, len(grid.generator.bus)
    angle, magnitude, p, q = np.split(x[: 2 * n + 2 * g], np.cumsum([n, n, g]))
    flow = base * _largest_flow(grid, magnitude * np.exp(1j * angle))
    rating = np.where(np.isfinite(grid.rate) & (grid.rate > 0), base * grid.rate, np.nan)
    generation = np.asarray(base * (p + 1j * q), dtype=complex)
    return PowerState(voltage=magnitude, generation=generation, flow=flow, loading=flow / rating)


def gas_state(network: GasNetwork, x: Floats, demand: Floats) -> GasState:
    """Read the program's x. ``demand`` (units of the flow base) is what the sites draw, for the balance of the supplies."""
    point = ogf_point(network, x)
    edges = (
        (network.pipe, point.pipe_flow),
        (network.link, point.link_flow),
        (network.compressor, point.compressor_flow),
        (network.regulator, point.regulator_flow),
    )
    leaving = np.zeros(network.n_junction)
    for table, flow in edges:
        np.add.at(leaving, table.from_junction, flow)
        np.subtract.at(leaving, table.to_junction, flow)
    np.add.at(leaving, network.site_junction, network.flow_base * demand)
    return GasState(
        pressure=point.pressure / PASCAL_PER_BAR,
        pipe_flow=point.pipe_flow,
        compressor_flow=point.compressor_flow,
        compressor_ratio=point.compressor_ratio,
        supply=leaving[network.slack],
    )


def _largest_flow(grid: Grid, voltage: Complexes) -> Floats:
    """|S| per unit at the end of each branch where it is larger."""
    at_from, at_to = voltage[grid.from_bus], voltage[grid.to_bus]
    entering_from = at_from * np.conj(grid.y_ff * at_from + grid.y_ft * at_to)
    entering_to = at_to * np.conj(grid.y_tf * at_from + grid.y_tt * at_to)
    return np.maximum(np.abs(entering_from), np.abs(entering_to))
