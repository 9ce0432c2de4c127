"""Write a power network from its public columns and released loads: an allow-list, never an edited copy of the source.

Set-points, flows, comments, names (unless they shall be kept), ratings B and C and every table that the program does not
use stay behind, because they may reveal demands. Where a format demands a value, it gets a neutral one (1 p.u., 0 degrees, 0 MW).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import powerio
from numpy.typing import NDArray

from gridveil.core.errors import InputError
from gridveil.sectors.power.given_names import NO_NAMES, GivenNames
from gridveil.sectors.power.mended import mend_pandapower, mend_pypsa
from gridveil.sectors.power.psse_devices import with_devices
from gridveil.sectors.power.source import EGRET, PANDAPOWER, PSSE
from gridveil.sectors.power.storage_files import WRITTEN_HERE, add_egret_storage, add_pandapower_devices
from gridveil.sectors.power.tables import (
    BranchTable,
    BusTable,
    CompensatorTable,
    DcLineTable,
    GeneratorTable,
    Ints,
    StorageTable,
)
from gridveil.sectors.power.write_elements import (
    Row,
    cost_row,
    dc_line_rows,
    number,
    storage_rows,
    with_matpower_tables,
    write_links,
)

IR_SCHEMA, IR_VERSION = "pio-ir", 2
FALLBACK_FORMAT = "matpower"


@dataclass(frozen=True, eq=False, kw_only=True)
class PublicTables:
    """What may be written: the network's public columns in file units, and the released loads in MW + j MVAr."""

    base_mva: float
    bus: BusTable
    branch: BranchTable
    generator: GeneratorTable
    dc_line: DcLineTable
    storage: StorageTable
    compensator: CompensatorTable
    load_bus_id: Ints
    load_in_service: NDArray[np.bool_]
    load_power: NDArray[np.complex128]
    given: GivenNames = NO_NAMES


def can_write(file_format: str) -> bool:
    """Whether a format is known and can be written."""
    information = powerio.resolve_format(file_format)
    return information is not None and bool(information.can_emit)


def writable_format(file_format: str) -> str:
    """Choose the format to write for one that was read: the same, or MATPOWER where the format can only be read."""
    return file_format if can_write(file_format) else FALLBACK_FORMAT


def write_power_network(tables: PublicTables, folder: Path, file_format: str, *, title: str) -> Path:
    """Write ``network.<extension>`` (or a folder ``network``) and return its path. ``title`` becomes the network's name."""
    information = powerio.resolve_format(file_format)
    if information is None or not information.can_emit:
        raise InputError(f"the format {file_format} cannot be written; choose another, such as {FALLBACK_FORMAT}")
    target = folder / ("network" if information.is_directory else f"network.{information.extension}")
    module = powerio.deserialize(json.dumps(_document(tables, title, information.token)).encode())
    powerio.emit(module, file_format, str(target))
    if information.token in MENDED:
        MENDED[information.token](target, tables)
    return target


def _mend_pandapower(path: Path, tables: PublicTables) -> None:
    mend_pandapower(path, tables.given)
    add_pandapower_devices(path, tables.bus, tables.storage, tables.compensator)


def _mend_pypsa(folder: Path, tables: PublicTables) -> None:
    write_links(folder / "links.csv", tables.dc_line)
    mend_pypsa(folder, tables.given)


def _add_matpower_tables(path: Path, tables: PublicTables) -> None:
    path.write_text(with_matpower_tables(path.read_text(), tables.branch, tables.generator, tables.compensator))


def _add_psse_devices(path: Path, tables: PublicTables) -> None:
    path.write_text(with_devices(path.read_text(), tables.dc_line, tables.compensator))


MENDED: dict[str, Callable[[Path, PublicTables], None]] = {
    PANDAPOWER: _mend_pandapower,
    EGRET: lambda path, tables: add_egret_storage(path, tables.storage),
    "pypsa-csv": _mend_pypsa,
    "matpower": _add_matpower_tables,
    PSSE: _add_psse_devices,
}
"""What powerio's writers leave out or write in a form that the format's own tools refuse."""


def _document(tables: PublicTables, title: str, file_format: str) -> Row:
    """Convert the network to a PowerIO IR document: powerio's only input that keeps several loads on a bus apart.

    PSS/E's DC lines are written apart, as powerio would state them without a rating, and so is storage that it passes over.
    """
    empty: list[Row] = []
    data: Row = {
        "name": title,
        "base_mva": number(tables.base_mva),
        "base_frequency": 60.0,
        "case_metadata": {},
        "generated_uids": [],
        "buses": _buses(tables),
        "loads": _loads(tables),
        "shunts": _shunts(tables.bus),
        "static_var_compensators": empty,
        "branches": _branches(tables.branch, tables.base_mva),
        "switches": empty,
        "generators": _generators(tables),
        "storage": [] if file_format in WRITTEN_HERE else storage_rows(tables.storage),
        "hvdc": [] if file_format == PSSE else dc_line_rows(tables.dc_line),
        "transformers_3w": empty,
        "areas": empty,
        "solver": None,
        "source_format": "in-memory",
    }
    value = {"type": "powerio.BalancedNetwork", "data": data}
    producer = {"name": "powerio", "version": powerio.__version__}
    return {"schema": IR_SCHEMA, "version": IR_VERSION, "producer": producer, "value": value}


def _buses(tables: PublicTables) -> list[Row]:
    bus = tables.bus
    supplied = set(tables.generator.bus_id[tables.generator.in_service].tolist())
    return [
        {
            "id": int(bus.id[i]),
            "kind": _kind(bool(bus.isolated[i]), bool(bus.reference[i]), int(bus.id[i]) in supplied),
            "vm": 1.0,
            "va": 0.0,
            "base_kv": number(bus.base_kv[i]),
            "vmax": number(bus.v_max[i]),
            "vmin": number(bus.v_min[i]),
            "evhi": None,
            "evlo": None,
            "area": int(bus.area[i]),
            "zone": int(bus.zone[i]),
            "name": (tables.given.bus[i] or None) if tables.given.bus else None,
            "uid": f"bus-{bus.id[i]}",
            "extras": {},
        }
        for i in range(len(bus.id))
    ]


def _kind(isolated: bool, reference: bool, supplied: bool) -> str:
    if isolated:
        return "ISOLATED"
    if reference:
        return "REF"
    return "PV" if supplied else "PQ"


def _loads(tables: PublicTables) -> list[Row]:
    return [
        {
            "bus": int(tables.load_bus_id[i]),
            "p": number(power.real),
            "q": number(power.imag),
            "voltage_model": None,
            "in_service": bool(tables.load_in_service[i]),
            "uid": f"load-{i + 1}",
            "extras": {},
        }
        for i, power in enumerate(tables.load_power)
    ]


def _shunts(bus: BusTable) -> list[Row]:
    return [
        {
            "bus": int(bus.id[i]),
            "g": number(bus.shunt_g[i]),
            "b": number(bus.shunt_b[i]),
            "in_service": True,
            "section_count": None,
            "uid": f"shunt-{bus.id[i]}",
            "extras": {},
        }
        for i in np.flatnonzero((bus.shunt_g != 0) | (bus.shunt_b != 0))
    ]


def _branches(branch: BranchTable, base_mva: float) -> list[Row]:
    return [
        {
            "from": int(branch.from_id[i]),
            "to": int(branch.to_id[i]),
            "r": number(branch.r[i]),
            "x": number(branch.x[i]),
            "b": number(branch.b_from[i] + branch.b_to[i]),
            "charging": _charging(branch, i),
            "rate_a": number(branch.rate[i]),
            "rate_b": 0.0,
            "rate_c": 0.0,
            "rating_sets": [],
            "current_ratings": _current_ratings(branch.current[i] / base_mva),
            "tap": number(branch.tap[i]),
            "shift": number(branch.shift[i]),
            "in_service": bool(branch.in_service[i]),
            "angmin": number(branch.angle_min[i]),
            "angmax": number(branch.angle_max[i]),
            "control": None,
            "solution": None,
            "uid": f"branch-{i + 1}",
            "extras": {},
        }
        for i in range(len(branch.r))
    ]


def _current_ratings(limit: float) -> Row | None:
    """Per unit: powerio passes them on to PowerModels JSON, the only format that it writes them to, as they are."""
    return {"c_rating_a": number(limit), "c_rating_b": 0.0, "c_rating_c": 0.0} if limit else None


def _charging(branch: BranchTable, i: int) -> Row | None:
    """Admittances of the two ends, needed only where they differ or conduct."""
    ends = {"g_fr": branch.g_from[i], "b_fr": branch.b_from[i], "g_to": branch.g_to[i], "b_to": branch.b_to[i]}
    if ends["g_fr"] == ends["g_to"] == 0 and ends["b_fr"] == ends["b_to"]:
        return None
    return {name: number(value) for name, value in ends.items()}


def _generators(tables: PublicTables) -> list[Row]:
    generator = tables.generator
    return [
        {
            "bus": int(generator.bus_id[i]),
            "energy_source": "other",
            "pg": 0.0,
            "qg": 0.0,
            "pmax": number(generator.p_max[i]),
            "pmin": number(generator.p_min[i]),
            "qmax": number(generator.q_max[i]),
            "qmin": number(generator.q_min[i]),
            "vg": 1.0,
            "mbase": number(tables.base_mva),
            "in_service": bool(generator.in_service[i]),
            "cost": cost_row(generator.cost[i]),
            "caps": {},
            "voltage_regulation_on": True,
            "regulated_bus": None,
            "uid": f"generator-{i + 1}",
        }
        for i in range(len(generator.bus_id))
    ]
