"""Read MatGas files (.m, as used by GasModels): both header dialects, SI units only."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gridveil.core.errors import InputError
from gridveil.sectors.gas.matgas_syntax import MatgasFile, MatgasTable, parse_matgas
from gridveil.sectors.gas.tables import (
    DEFAULT_HEAT_CAPACITY_RATIO,
    MOLAR_MASS_OF_AIR,
    DeliveryTable,
    Floats,
    GasProperties,
    GasTables,
    JunctionTable,
    LinkTable,
    PipeTable,
    StationTable,
    check_gas,
    check_gas_tables,
    delivery_table,
    link_table,
    receipt_table,
    station_table,
    tighten,
)
from gridveil.sectors.sites import AS_STATED, SiteKind, SiteRule, places_without_row

REQUIRED = ("junction", "pipe", "delivery")
READ = {*REQUIRED, "compressor", "receipt", "transfer", "short_pipe", "valve", "regulator", "resistor", "loss_resistor"}
SLACK_TYPE = 1
FORWARD_ONLY = 1  # directionality of a compressor; 0 and 2 let gas pass both ways
UNLIMITED = 1e50  # files write 1e100 for "no limit"

Positions = dict[str, int]


def read_matgas(path: Path, sites: SiteRule = AS_STATED) -> GasTables:
    """Read a MatGas file. Raises InputError, with a one-line message, if it is not a usable gas network.

    Every delivery is a site. As the file states it, a transfer is one if it carries gas: then transfers leave the sites
    undeclared, unless ``sites`` says otherwise.
    """
    file = parse_matgas(path)
    _refuse_other_units(file)
    for name in REQUIRED:
        if name not in file.tables:
            raise InputError(f"{path.name}: table mgc.{name} is missing; the file is not a complete gas network")
    notes = _left_out(file)
    junction, positions = _junctions(file.table("junction"))
    pipe = _pipes(file.table("pipe"), file.table("resistor"), positions)
    compressor = _compressors(file.table("compressor"), positions, notes)
    receipt = file.table("receipt")
    tables = GasTables(
        junction=_with_element_limits(junction, file, positions),
        pipe=pipe,
        link=_links(file, positions, notes),
        compressor=compressor,
        regulator=_regulators(file.table("regulator"), positions),
        receipt=receipt_table(
            receipt.positions("junction_id", positions) if receipt.rows else (),
            receipt.numbers("injection_nominal") if receipt.rows else (),
        ),
        delivery=_deliveries(file.table("delivery"), file.table("transfer"), positions, notes, sites),
        gas=_gas(file),
        file_format="matgas",
        notes=tuple(notes),
        sites_declared=sites.kind is not SiteKind.ROWS or not file.table("transfer").rows,
    )
    check_gas_tables(tables, path.name)
    return tables


def _refuse_other_units(file: MatgasFile) -> None:
    units = file.scalars.get("units")
    if units is None:
        raise InputError(f"{file.source}: mgc.units is missing; state mgc.units = 'si'")
    if units != "si":
        raise InputError(f"{file.source}: unknown unit system in mgc.units; only 'si' can be read: convert the file")
    if file.scalar("is_per_unit"):
        raise InputError(f"{file.source}: the values are per unit (mgc.is_per_unit); convert the file to SI units")


def _left_out(file: MatgasFile) -> list[str]:
    notes = [f"table {name} left out" for name in file.tables if name not in READ and name != "sources"]
    for name in READ & file.tables.keys():
        dropped = len(file.tables[name].rows) - len(file.table(name).rows)
        if dropped:
            notes.append(f"{dropped} rows of table {name} left out: not in service")
    return sorted(notes)


def _junctions(table: MatgasTable) -> tuple[JunctionTable, Positions]:
    ids = table.names()
    positions = {name: place for place, name in enumerate(ids)}
    if len(positions) < len(ids):
        twice = next(name for name in ids if ids.count(name) > 1)
        raise InputError(f"{table.source}: junction {twice} appears twice in table junction; give each its own id")
    regulated = np.array(table.optional("junction_type", 0.0)) == SLACK_TYPE
    nominal = np.array(table.numbers("p_nominal")) if np.any(regulated) else np.full(len(ids), np.nan)
    junction = JunctionTable(
        id=tuple(ids),
        p_min=np.array(table.numbers("p_min")),
        p_max=np.array(table.numbers("p_max")),
        slack_pressure=np.where(regulated, nominal, np.nan),
    )
    return junction, positions


def _pipes(pipe: MatgasTable, resistor: MatgasTable, positions: Positions) -> PipeTable:
    """Pipes, then resistors: a resistor of drag ζ loses as much as a pipe of length D and friction factor ζ."""
    one_way = np.array(pipe.optional("is_bidirectional", 1.0)) == 0
    diameter, drag = np.zeros(0), np.zeros(0)
    ids, start, end = pipe.names(), pipe.positions("fr_junction", positions), pipe.positions("to_junction", positions)
    if resistor.rows:
        diameter, drag = np.array(resistor.numbers("diameter")), np.array(resistor.numbers("drag"))
        ids += [f"resistor {name}" for name in resistor.names()]
        start += resistor.positions("fr_junction", positions)
        end += resistor.positions("to_junction", positions)
    free = np.full(len(diameter), np.inf)
    flow_min = _limits(pipe, "flow_min", -np.inf)
    return PipeTable(
        id=tuple(ids),
        from_junction=np.array(start, dtype=np.int64),
        to_junction=np.array(end, dtype=np.int64),
        diameter=np.concatenate([pipe.numbers("diameter"), diameter]),
        length=np.concatenate([pipe.numbers("length"), diameter]),
        friction_factor=np.concatenate([pipe.numbers("friction_factor"), drag]),
        flow_min=np.concatenate([np.where(one_way, np.maximum(flow_min, 0.0), flow_min), -free]),
        flow_max=np.concatenate([_limits(pipe, "flow_max", np.inf), free]),
    )


def _links(file: MatgasFile, positions: Positions, notes: list[str]) -> LinkTable:
    reasons = {
        "short_pipe": "",
        "valve": "treated as open, without pressure loss",
        "loss_resistor": "fixed pressure loss left out",
    }
    ids: list[str] = []
    start: list[int] = []
    end: list[int] = []
    for name, reason in reasons.items():
        table = file.table(name)
        if not table.rows:
            continue
        ids += [f"{name} {row}" for row in table.names()]
        start += table.positions("fr_junction", positions)
        end += table.positions("to_junction", positions)
        if reason:
            notes.append(f"{len(table.rows)} rows of table {name}: {reason}")
    return link_table(ids, start, end)


def _compressors(table: MatgasTable, positions: Positions, notes: list[str]) -> StationTable:
    if not table.rows:
        return station_table()
    flow_min = _limits(table, "flow_min", -np.inf)
    forward = np.array(table.optional("directionality", 0.0)) == FORWARD_ONLY
    ratio_min = np.array(table.optional("c_ratio_min", 1.0))
    if np.any(ratio_min < 1):
        notes.append(
            f"{int(np.sum(ratio_min < 1))} compressors may lower the pressure in the file: ratio kept at 1 or more"
        )
    if any(power < UNLIMITED for power in table.optional("power_max", np.inf)):
        notes.append("power limits of compressors left out: Model 2 limits their ratio and flow")
    return station_table(
        id=table.names(),
        from_junction=table.positions("fr_junction", positions),
        to_junction=table.positions("to_junction", positions),
        ratio_min=np.maximum(ratio_min, 1.0).tolist(),
        ratio_max=table.numbers("c_ratio_max"),
        flow_min=np.where(forward, np.maximum(flow_min, 0.0), flow_min).tolist(),
        flow_max=_limits(table, "flow_max", np.inf).tolist(),
    )


def _regulators(table: MatgasTable, positions: Positions) -> StationTable:
    if not table.rows:
        return station_table()
    return station_table(
        id=table.names(),
        from_junction=table.positions("fr_junction", positions),
        to_junction=table.positions("to_junction", positions),
        ratio_min=np.maximum(table.optional("reduction_factor_min", 0.0), 0.0).tolist(),
        ratio_max=np.minimum(table.optional("reduction_factor_max", 1.0), 1.0).tolist(),
        flow_min=np.maximum(_limits(table, "flow_min", 0.0), 0.0).tolist(),
        flow_max=_limits(table, "flow_max", np.inf).tolist(),
    )


def _limits(table: MatgasTable, column: str, default: float) -> Floats:
    values = np.array(table.optional(column, default))
    return np.where(np.abs(values) < UNLIMITED, values, np.copysign(np.inf, values))


def _with_element_limits(junction: JunctionTable, file: MatgasFile, positions: Positions) -> JunctionTable:
    """Pressure falls steadily along a pipe, so limits of a pipe or compressor are limits at its two ends."""
    for name, column, prefix in (
        ("pipe", "fr_junction", ""),
        ("pipe", "to_junction", ""),
        ("compressor", "fr_junction", "inlet_"),
        ("compressor", "to_junction", "outlet_"),
    ):
        table = file.table(name)
        if table.rows:
            at = np.array(table.positions(column, positions), dtype=np.int64)
            lower, upper = table.optional(f"{prefix}p_min", 0.0), table.optional(f"{prefix}p_max", np.inf)
            junction = tighten(junction, at, lower, upper)
    return junction


def _deliveries(
    delivery: MatgasTable, transfer: MatgasTable, positions: Positions, notes: list[str], sites: SiteRule
) -> DeliveryTable:
    """Deliveries, and transfers that are sites: a customer's withdrawal is secret whatever the file calls it."""
    names = list(positions)
    at = delivery.positions("junction_id", positions)
    withdrawal = delivery.numbers("withdrawal_nominal")
    if transfer.rows:
        flows, places = transfer.numbers("withdrawal_nominal"), transfer.positions("junction_id", positions)
        by_flow = sites.kind is SiteKind.ROWS
        chosen = [k for k, flow in enumerate(flows) if flow != 0 or (not by_flow and sites.wants(names[places[k]]))]
        at += [places[k] for k in chosen]
        withdrawal += [flows[k] for k in chosen]
        if chosen:
            notes.append(f"{len(chosen)} transfers{' with a nominal flow' if by_flow else ''} treated as deliveries")
    if sites.kind is SiteKind.LISTED:
        added = places_without_row(sites, [names[place] for place in at], names, "junction")
        at += [positions[name] for name in added]
        withdrawal += [0.0] * len(added)
    return delivery_table(at, withdrawal)


def _gas(file: MatgasFile) -> GasProperties:
    molar_mass, gravity = file.scalar("gas_molar_mass"), file.scalar("gas_specific_gravity")
    if molar_mass is None and gravity is not None:
        molar_mass = gravity * MOLAR_MASS_OF_AIR
    gamma = file.scalar("specific_heat_capacity_ratio")
    gas = GasProperties(
        heat_capacity_ratio=DEFAULT_HEAT_CAPACITY_RATIO if gamma is None else gamma,
        temperature=file.scalar("temperature"),
        compressibility=file.scalar("compressibility_factor"),
        molar_mass=molar_mass,
        stated_sound_speed=file.scalar("sound_speed"),
    )
    check_gas(gas, file.source)
    return gas
