"""From the columns of a file to a checked power case in per unit."""

from __future__ import annotations

from typing import Any

import numpy as np

from gridveil.core.choices import Names
from gridveil.core.errors import InputError
from gridveil.core.secret import Secret, SecretField, SecretValues
from gridveil.core.text import ranges
from gridveil.sectors.case import Case
from gridveil.sectors.power.costs import costs_from_curves
from gridveil.sectors.power.elements import Compensators, DcLines, StorageUnits
from gridveil.sectors.power.given_names import GivenNames
from gridveil.sectors.power.network import Bools, Branches, Buses, Floats, Generators, Ints, LoadSites, PowerNetwork
from gridveil.sectors.power.tables import BranchTable, CompensatorTable, DcLineTable, PowerTables, StorageTable
from gridveil.sectors.power.vector_groups import without_vector_groups

UNLIMITED_ANGLE = np.deg2rad(90.0)  # files write ±360 or ±90 degrees, or twice 0, for "no limit"
BASE_RANGE = (1e-6, 1e9)  # MVA; beyond it per-unit values lose all meaning
LARGEST_DEMAND = 1e9  # MVA; what a solver could fail on is refused here, before it can fail because of a demand
DEFAULT_ANGLE = np.deg2rad(60.0)  # what stands in for "no limit", as in PowerModels


def power_case(name: str, tables: PowerTables, names: Names = Names.PSEUDONYMS) -> Case:
    """Build a case and check it. What cannot be used is an InputError that says where, and what to do.

    Names of buses and loads stay behind unless they shall be kept: then they are public.
    """
    _check_size(tables)
    _check_finite(tables)
    tables = without_vector_groups(tables, _without_angle_limit(tables.branch))
    bus, base = tables.bus, tables.base_mva
    generator = tables.generator
    network = PowerNetwork(
        base_mva=base,
        bus=Buses(
            id=bus.id,
            isolated=bus.isolated,
            reference=bus.reference & ~bus.isolated,
            v_min=bus.v_min,
            v_max=bus.v_max,
            shunt=np.array(bus.shunt_g + 1j * bus.shunt_b, dtype=np.complex128) / base,
            base_kv=bus.base_kv,
            area=bus.area,
            zone=bus.zone,
        ),
        branch=_branches(tables.branch, bus.id, base),
        generator=Generators(
            bus=_positions(generator.bus_id, bus.id, "generator"),
            p_min=generator.p_min / base,
            p_max=generator.p_max / base,
            q_min=generator.q_min / base,
            q_max=generator.q_max / base,
            cost=costs_from_curves(generator.cost, base, generator.bus_id),
            reactive_cost=costs_from_curves(generator.reactive_cost, base, generator.bus_id),
            in_service=generator.in_service,
        ),
        load=LoadSites(bus=_positions(tables.load.bus_id, bus.id, "load"), in_service=tables.load.in_service),
        dc_line=_dc_lines(tables.dc_line, bus.id, base),
        storage=_storage(tables.storage, bus.id, base),
        compensator=_compensators(tables.compensator, bus.id, base),
        given=tables.given if names is Names.KEEP else tables.given.unnamed(),
    )
    _check_limits(network)
    _check_supply(network)
    return Case(
        name=name,
        network=network,
        secret=Secret(field=demand_field(network), values=tables.load.power.scaled(1 / base)),
        file_format=tables.file_format,
        notes=tables.notes + _angle_note(tables.branch) + _names_note(tables.given, names),
        sites_declared=tables.sites_declared,
        unprotected=tables.unprotected + _published_names(network.given),
        over_time=None if tables.over_time is None else tables.over_time.scaled(1 / base),
    )


def power_network(case: Case) -> PowerNetwork | None:
    """Narrow a case to its power network, for what exists in this sector only; None if it is of another one."""
    return case.network if isinstance(case.network, PowerNetwork) else None


def demand_field(network: PowerNetwork) -> SecretField:
    """Define the secret field of a power case: the power of each load."""
    return SecretField(
        name="demand",
        meaning="active and reactive power of each load",
        participant="load site",
        dimension=2,
        unit="MVA",
        base=network.base_mva,
        places=tuple(str(bus) for bus in network.bus.id[network.load.bus]),
    )


def _branches(branch: BranchTable, bus_id: Ints, base: float) -> Branches:
    angle_min, angle_max = np.deg2rad(branch.angle_min), np.deg2rad(branch.angle_max)
    unset = (branch.angle_min == 0) & (branch.angle_max == 0)
    return Branches(
        from_bus=_positions(branch.from_id, bus_id, "branch"),
        to_bus=_positions(branch.to_id, bus_id, "branch"),
        impedance=branch.r + 1j * branch.x,
        shunt_from=branch.g_from + 1j * branch.b_from,
        shunt_to=branch.g_to + 1j * branch.b_to,
        tap=np.where(branch.tap == 0, 1.0, branch.tap) * np.exp(1j * np.deg2rad(branch.shift)),
        rate=np.where(branch.rate == 0, np.inf, branch.rate / base),
        current=np.where(branch.current == 0, np.inf, branch.current / base),
        angle_min=np.where(unset | (angle_min <= -UNLIMITED_ANGLE), -DEFAULT_ANGLE, angle_min),
        angle_max=np.where(unset | (angle_max >= UNLIMITED_ANGLE), DEFAULT_ANGLE, angle_max),
        in_service=branch.in_service,
    )


def _dc_lines(line: DcLineTable, bus_id: Ints, base: float) -> DcLines:
    return DcLines(
        from_bus=_positions(line.from_id, bus_id, "DC line"),
        to_bus=_positions(line.to_id, bus_id, "DC line"),
        p_min=line.p_min / base,
        p_max=line.p_max / base,
        loss_0=line.loss_0 / base,
        loss_1=line.loss_1,
        q_from_min=line.q_from_min / base,
        q_from_max=line.q_from_max / base,
        q_to_min=line.q_to_min / base,
        q_to_max=line.q_to_max / base,
        cost=costs_from_curves(line.cost, base, line.from_id, "DC line"),
        in_service=line.in_service,
    )


def _storage(unit: StorageTable, bus_id: Ints, base: float) -> StorageUnits:
    return StorageUnits(
        bus=_positions(unit.bus_id, bus_id, "storage unit"),
        p_min=unit.p_min / base,
        p_max=unit.p_max / base,
        q_min=unit.q_min / base,
        q_max=unit.q_max / base,
        in_service=unit.in_service,
    )


def _compensators(compensator: CompensatorTable, bus_id: Ints, base: float) -> Compensators:
    return Compensators(
        bus=_positions(compensator.bus_id, bus_id, "static var compensator"),
        b_min=compensator.b_min / base,
        b_max=compensator.b_max / base,
        in_service=compensator.in_service,
    )


def _without_angle_limit(branch: BranchTable) -> Bools:
    unset = (branch.angle_min == 0) & (branch.angle_max == 0)
    wide = (np.deg2rad(branch.angle_min) <= -UNLIMITED_ANGLE) | (np.deg2rad(branch.angle_max) >= UNLIMITED_ANGLE)
    return np.asarray((unset | wide) & branch.in_service)


def _angle_note(branch: BranchTable) -> tuple[str, ...]:
    rows = np.flatnonzero(_without_angle_limit(branch)) + 1
    if not rows.size:
        return ()
    return (f"{rows.size} branches without an angle limit (rows {ranges(rows.tolist())}): 60 degrees assumed",)


def _names_note(given: GivenNames, names: Names) -> tuple[str, ...]:
    if names is Names.KEEP or not given.words:
        return ()
    return (f"names of {given.words}: replaced by numbers, in the order of the file (--names keep publishes them)",)


def _published_names(given: GivenNames) -> tuple[str, ...]:
    return (f"names of {given.words}: published as the file states them",) if given.words else ()


def _positions(ids: Ints, bus_id: Ints, kind: str) -> Ints:
    order = np.argsort(bus_id, kind="stable")
    place = np.searchsorted(bus_id[order], ids)
    found = order[np.minimum(place, len(order) - 1)]
    unknown = np.flatnonzero(bus_id[found] != ids)
    if unknown.size:
        row = unknown[0]
        raise InputError(f"{kind} {row + 1}: its bus {ids[row]} does not exist; add the bus or remove the {kind}")
    return found


def _check_size(tables: PowerTables) -> None:
    if len(tables.bus.id) == 0:
        raise InputError("the network has no buses; check that the file is a complete case")
    ids, counts = np.unique(tables.bus.id, return_counts=True)
    if counts.max() > 1:
        raise InputError(f"bus id {ids[counts.argmax()]} appears {counts.max()} times; give each bus an id of its own")
    if not BASE_RANGE[0] <= tables.base_mva <= BASE_RANGE[1]:
        raise InputError("baseMVA must be a positive number of plausible size; correct it in the file")
    if len(tables.load.bus_id) == 0:
        raise InputError(
            "the network has no loads, so there is nothing to protect; check that the file is a complete case"
        )


def _check_finite(tables: PowerTables) -> None:
    limits = {"p_min", "p_max", "q_min", "q_max"} | {
        f"q_{end}_{side}" for end in ("from", "to") for side in ("min", "max")
    }
    all_tables: dict[str, Any] = {
        "bus": tables.bus,
        "branch": tables.branch,
        "generator": tables.generator,
        "DC line": tables.dc_line,
    }
    all_tables |= {"storage unit": tables.storage, "static var compensator": tables.compensator}
    for kind, table in all_tables.items():
        for name in table.__dataclass_fields__:
            column = getattr(table, name)
            if isinstance(column, np.ndarray) and column.dtype == float:
                bad = np.isnan(column) if name in limits else ~np.isfinite(column)
                if np.any(bad):
                    row = int(np.flatnonzero(bad)[0]) + 1
                    raise InputError(f"{kind} {row}: {name} is not a finite number; correct it in the file")
    generator, line = tables.generator, tables.dc_line
    for kind, curves in (("generator", generator.cost), ("generator", generator.reactive_cost), ("DC line", line.cost)):
        for row, curve in enumerate(curves, start=1):
            if curve is not None and not np.all(np.isfinite(curve.polynomial)):
                raise InputError(f"{kind} {row}: a cost coefficient is not a finite number; correct it in the file")
    for demand in (tables.load.power, *(tables.over_time.values if tables.over_time is not None else ())):
        _check_demand(demand)


def _check_demand(demand: SecretValues) -> None:
    site = demand.first_not_finite()
    if site is not None:
        raise InputError(f"load {site + 1}: its demand is not a finite number; correct it in the file")
    with np.errstate(over="ignore", invalid="ignore"):  # scaled so that just what is beyond the limit overflows
        site = demand.scaled(np.finfo(float).max / LARGEST_DEMAND).first_not_finite()
    if site is not None:
        raise InputError(f"load {site + 1}: its demand is implausibly large; give it in MW and MVAr")


def _check_limits(network: PowerNetwork) -> None:
    bus, branch, generator = network.bus, network.branch, network.generator
    on = ~bus.isolated
    _check_order(bus.v_min, bus.v_max, on, bus.id, "bus with id", "minimum voltage", "maximum voltage")
    _check_each(
        bus.v_max <= 0, on, bus.id, "bus with id", "its maximum voltage is not positive; give limits in per unit"
    )
    rows = np.arange(1, len(branch.rate) + 1)
    on = network.branch_on
    _check_each(
        branch.impedance == 0, on, rows, "branch", "its impedance is zero; merge its two buses or give it a reactance"
    )
    _check_each(branch.from_bus == branch.to_bus, on, rows, "branch", "both its ends are the same bus; remove it")
    limit = np.minimum(branch.rate, branch.current)
    _check_each(limit < 0, on, rows, "branch", "its rating is negative; use 0 for no limit")
    _check_each(
        np.abs(branch.tap) < 1e-6, on, rows, "branch", "its tap ratio is almost zero; use 0 (no tap) or a ratio near 1"
    )
    _check_order(branch.angle_min, branch.angle_max, on, rows, "branch", "minimum angle", "maximum angle")
    rows = np.arange(1, len(generator.bus) + 1)
    on = network.generator_on
    _check_order(
        generator.p_min, generator.p_max, on, rows, "generator", "minimum active power", "maximum active power"
    )
    _check_order(
        generator.q_min, generator.q_max, on, rows, "generator", "minimum reactive power", "maximum reactive power"
    )
    _check_elements(network)


def _check_elements(network: PowerNetwork) -> None:
    line, storage, compensator = network.dc_line, network.storage, network.compensator
    rows, on, active, reactive = np.arange(1, len(line.p_min) + 1), network.dc_line_on, "active power", "reactive power"
    _check_order(line.p_min, line.p_max, on, rows, "DC line", f"minimum {active}", f"maximum {active}")
    for low, high in ((line.q_from_min, line.q_from_max), (line.q_to_min, line.q_to_max)):
        _check_order(low, high, on, rows, "DC line", f"minimum {reactive}", f"maximum {reactive}")
    _check_each(line.from_bus == line.to_bus, on, rows, "DC line", "both its ends are the same bus; remove it")
    share = (line.loss_1 < 0) | (line.loss_1 >= 1)
    _check_each(share, on, rows, "DC line", "its share of losses is not between 0 and 1; correct loss1")
    rows, on = np.arange(1, len(storage.bus) + 1), network.storage_on
    _check_order(storage.p_min, storage.p_max, on, rows, "storage unit", f"minimum {active}", f"maximum {active}")
    _check_order(storage.q_min, storage.q_max, on, rows, "storage unit", f"minimum {reactive}", f"maximum {reactive}")
    rows, on = np.arange(1, len(compensator.bus) + 1), network.compensator_on
    kind, least, most = "static var compensator", "minimum susceptance", "maximum susceptance"
    _check_order(compensator.b_min, compensator.b_max, on, rows, kind, least, most)


def _check_order(lower: Floats, upper: Floats, on: Bools, label: Ints, kind: str, low: str, high: str) -> None:
    _check_each(lower > upper, on, label, kind, f"its {low} is above its {high}; swap or correct the limits")


def _check_each(bad: Bools, on: Bools, label: Ints, kind: str, problem: str) -> None:
    hits = np.flatnonzero(bad & on)
    if hits.size:
        raise InputError(f"{kind} {label[hits[0]]}: {problem}")


def _check_supply(network: PowerNetwork) -> None:
    if not np.any(~network.bus.isolated):
        raise InputError("every bus is isolated; give at least one bus a type other than 4")
    if not np.any(network.generator_on):
        raise InputError("no generator is in service on an energised bus; add one or switch one on")
    if not np.any(network.bus.reference):
        raise InputError("no reference bus; make one bus with a generator the reference (type 3)")
    if not np.any(network.served):
        raise InputError("no load is in service on an energised bus, so there is nothing to protect; switch one on")
