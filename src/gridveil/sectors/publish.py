"""Write a network with released demands, power or gas, and say how to read it back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from gridveil.sectors.case import Case, Network
from gridveil.sectors.gas.boundary import GasBoundary
from gridveil.sectors.gas.gaslib_write import write_gaslib
from gridveil.sectors.gas.matgas_write import matgas_text
from gridveil.sectors.gas.network import GasNetwork, public_gas_tables
from gridveil.sectors.load import load_case
from gridveil.sectors.power.export import public_tables
from gridveil.sectors.power.write import writable_format, write_power_network

GASLIB = "gaslib"


def write_network(network: Network, sites: NDArray[Any], folder: Path, file_format: str, *, title: str) -> Path:
    """Write the network with ``sites`` (released demands, per unit) in the format its source had, where that can be written."""
    if isinstance(network, GasNetwork):
        tables = public_gas_tables(network, sites)
        if file_format == GASLIB:
            return write_gaslib(tables, folder, title=title)
        path = folder / "network.m"
        path.write_text(matgas_text(tables, title=title, with_fixed_injections=True))
        return path
    return write_power_network(public_tables(network, sites), folder, writable_format(file_format), title=title)


def read_back(network: Network, path: Path) -> Case:
    """Read a written network as a stranger would, demands in the same unit as before."""
    boundary = GasBoundary(flow_base=network.flow_base) if isinstance(network, GasNetwork) else None
    return load_case(str(path), boundary)
