"""Operating points of gas networks in bar and kg/s."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gridveil.sectors.gas.network import GasNetwork
from gridveil.sectors.gas.ogf import ogf_point

Floats = NDArray[np.float64]

PASCAL_PER_BAR = 1e5


@dataclass(frozen=True, eq=False, kw_only=True)
class GasState:
    """One operating point: pressures in bar, flows in kg/s, in file order."""

    pressure: Floats
    pipe_flow: Floats
    compressor_flow: Floats
    compressor_ratio: Floats
    supply: Floats
    """What each regulated junction feeds in."""


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
