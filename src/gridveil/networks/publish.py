"""Write a network with released demands, power or gas, and say how to read it back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from gridveil.formats.gaslib_write import write_gaslib
from gridveil.formats.matgas_write import matgas_text
from gridveil.formats.power_write import writable_format, write_power_network
from gridveil.networks.case import Case, Network
from gridveil.networks.gas import GasNetwork, public_gas_tables
from gridveil.networks.gas_boundary import GasBoundary
from gridveil.networks.load import load_case
from gridveil.networks.power_export import public_tables

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
