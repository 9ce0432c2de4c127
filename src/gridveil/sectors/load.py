"""The way in: from a path or a built-in name to a checked case, power or gas."""

from __future__ import annotations

from gridveil.sectors.builtin import PGLIB_PREFIX, resolve_case
from gridveil.sectors.case import Case
from gridveil.sectors.gas.boundary import GasBoundary
from gridveil.sectors.gas.generator import BUILT_IN as BUILT_IN_GAS
from gridveil.sectors.gas.network import gas_network_from_tables
from gridveil.sectors.gas.read import is_gas_file, read_gas_file
from gridveil.sectors.gas.tables import GasTables
from gridveil.sectors.power.case import power_case
from gridveil.sectors.power.read import read_power_file


def load_case(source: str, boundary: GasBoundary | None = None) -> Case:
    """Read and check a case. ``source`` is a path or a built-in name; what cannot be used is an InputError.

    ``boundary`` holds the boundary conditions of a gas network; what it leaves out is taken from the file.
    """
    if source in BUILT_IN_GAS:
        return _gas_case(source, BUILT_IN_GAS[source](), boundary)
    path = resolve_case(source)
    if is_gas_file(path):
        return _gas_case(path.stem, read_gas_file(path), boundary)
    return power_case(path.stem.removeprefix(PGLIB_PREFIX), read_power_file(path))


def _gas_case(name: str, tables: GasTables, boundary: GasBoundary | None) -> Case:
    network, demand = gas_network_from_tables(tables, boundary or GasBoundary())
    return Case(name=name, network=network, demand=demand, file_format=tables.file_format, notes=tables.notes)
