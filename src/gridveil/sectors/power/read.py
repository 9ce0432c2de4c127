"""Read any power case file that powerio knows: MATPOWER, PSS/E, PowerModels JSON, pandapower JSON, PyPSA folders and more."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import powerio

from gridveil.core.errors import InputError
from gridveil.core.secret import SecretValues
from gridveil.sectors.case import ValuesOverTime
from gridveil.sectors.power.given_names import GivenNames
from gridveil.sectors.power.matpower_tables import MoreTables, more_tables
from gridveil.sectors.power.pandapower_profiles import other_profiles, profiles_of
from gridveil.sectors.power.parsed import ParsedSource, parsed
from gridveil.sectors.power.psse_devices import PsseDevices, read_devices
from gridveil.sectors.power.read_elements import (
    Elements,
    Row,
    bools,
    compensator_table,
    cost_curve,
    current_limits,
    current_unit,
    floats,
    ints,
    rare_rows,
)
from gridveil.sectors.power.source import (
    EGRET,
    PANDAPOWER,
    WITH_LOAD_TABLE,
    check_source,
    grid_connections,
    load_names,
    loading_limits,
    notes_of,
    voltage_dependence,
)
from gridveil.sectors.power.star import star_legs
from gridveil.sectors.power.storage_files import SVC_NOTE, egret_storage, pandapower_compensators, pandapower_storage
from gridveil.sectors.power.switches import pandapower_switches, without_switches
from gridveil.sectors.power.tables import (
    BranchTable,
    BusTable,
    CostCurve,
    Floats,
    GeneratorTable,
    LoadTable,
    PowerTables,
)
from gridveil.sectors.sites import AS_STATED, SiteKind, SiteRule, places_without_row

STAR_VOLTAGE_LIMITS = (0.9, 1.1)
NO_ROW = -1
NAMES = "bus_name"
"""The table of names of a MATPOWER file."""


def read_power_file(path: Path, sites: SiteRule = AS_STATED) -> PowerTables:
    """Read a case file (or a PyPSA folder). Raises InputError, with a one-line message, if it is not a usable case.

    ``sites`` says which buses have a site. As a file states it, formats with a table of loads declare their sites;
    MATPOWER does not, because a bus without demand is no site there.
    """
    with parsed(path) as source:
        return _tables(source, sites)


def _tables(source: ParsedSource, sites: SiteRule) -> PowerTables:
    path, module = source.path, source.module
    network, file_format = module.value, str(module.value.source_format)
    document = _document(source)
    check_source(path, file_format)
    notes = [*source.notes, *notes_of(module.diagnostics), *voltage_dependence(document["loads"])]
    beyond = MoreTables()
    if source.matpower is not None:
        beyond = more_tables(source.matpower, network.n_generators, network.n_branches)
    switches = beyond.switches
    if file_format == PANDAPOWER:
        module, switches, more = pandapower_switches(path, module)
        notes += more
    unswitched = without_switches(module, switches)
    network = unswitched.network
    if unswitched.branch_rows is not None:
        notes.append("switches: the buses that closed ones join are merged; their ratings are not modelled")
    devices = _psse_devices(source)
    elements = Elements(network, file_format, path, unswitched.at_survivors(devices.dc_lines))
    compensators = [*beyond.compensators, *devices.compensators]
    if file_format == PANDAPOWER:
        elements = elements.with_storage(unswitched.at_survivors(pandapower_storage(path)))
        compensators += (found := pandapower_compensators(path))
        notes += [SVC_NOTE] if any(row.in_service for row in found) else []
    if file_format == EGRET:
        units, more = egret_storage(path, _egret_buses(document))
        elements, notes = elements.with_storage(units), [*notes, *more]
    notes += [*elements.notes, *devices.notes]
    windings = [row for row in rare_rows(network, "transformers_3w") if row["in_service"]]
    if windings:
        notes.append(f"{len(windings)} three-winding transformers: replaced by their star equivalent")
    buses, branches, shunts = _with_stars(network, unswitched.buses, windings)
    unit = current_unit(path, file_format, network)
    currents = current_limits(branches, unswitched.of_branches(beyond.current), unit)
    if file_format == PANDAPOWER:
        notes += other_profiles(path)
        _limit_loading(branches, unswitched.of_branches(loading_limits(path)))
    loads, declared = _site_rows(network, sites, declared=file_format in WITH_LOAD_TABLE)
    return PowerTables(
        base_mva=float(network.base_mva),
        bus=_bus_table(buses, shunts),
        branch=_branch_table(branches, currents),
        generator=_generator_table(network.generators, beyond.reactive_cost),
        load=_load_table(loads),
        dc_line=elements.dc_lines(),
        storage=elements.storage(),
        compensator=compensator_table(compensators, unswitched.survivor),
        file_format=file_format,
        notes=tuple(notes),
        sites_declared=declared,
        unprotected=_unprotected(network, elements),
        given=_given_names(document, path, file_format, [int(row["id"]) for row in buses], loads),
        over_time=_over_time(source, file_format, network.n_loads, loads),
    )


def _document(source: ParsedSource) -> Mapping[str, Any]:
    """What powerio's tables leave out, such as names of buses and models of loads; rows as it writes them.

    A MATPOWER file states none of this but in a table of names, and large ones take a quarter of a second to write.
    """
    if source.matpower is not None and NAMES not in source.matpower.columns:
        return {"buses": [], "loads": []}
    document: Mapping[str, Any] = json.loads(powerio.serialize(source.module).artifacts[0].data or b"")
    return document["value"]["data"]  # type: ignore[no-any-return]


def _over_time(source: ParsedSource, file_format: str, count: int, loads: Sequence[Row]) -> ValuesOverTime | None:
    """Loads at several moments, where the file states them, in the order of the sites; zero at a site without a row."""
    stated = profiles_of(source.path) if file_format == PANDAPOWER else source.over_time
    if stated is None:
        return None
    if any(len(one) != count for one in stated.values):
        raise InputError("the loads over time are not those of the table of loads; re-export the file")
    return stated.at([row.get("row", NO_ROW) for row in loads])


def _limit_loading(branches: list[Row], shares: Sequence[float]) -> None:
    """Lower ratings to the share of them that may be used, for the first branches."""
    for place, share in enumerate(shares):
        branches[place] = {**branches[place], "rate_a": share * branches[place]["rate_a"]}


def _site_rows(network: powerio.BalancedNetwork, sites: SiteRule, *, declared: bool) -> tuple[list[Row], bool]:
    """Rows of all sites in the order of the buses, those without a row of their own with a demand of zero."""
    rows: list[Row] = [row | {"row": place} for place, row in enumerate(network.loads)]
    if sites.kind is SiteKind.ROWS:
        return rows, declared
    buses = [str(row["id"]) for row in network.buses]
    missing = places_without_row(sites, [str(row["bus"]) for row in rows], buses, "bus")
    rows += [{"bus": int(bus), "p": 0.0, "q": 0.0, "in_service": True} for bus in missing]
    position = {int(bus): place for place, bus in enumerate(buses)}
    return sorted(rows, key=lambda row: position[row["bus"]]), True


def _given_names(
    document: Mapping[str, Any],
    path: Path,
    file_format: str,
    bus_ids: Sequence[int],
    loads: Sequence[Row],
) -> GivenNames:
    """Collect names that say more than the number of a bus or load, and what pandapower keeps as grid connections."""
    names = {int(row["id"]): (row["name"] or "").strip() for row in document["buses"]}
    of_buses = tuple("" if names.get(bus) == str(bus) else names.get(bus, "") for bus in bus_ids)
    stated = load_names(path, file_format)
    of_loads = tuple(stated[row["row"]] if row.get("row", len(stated)) < len(stated) else "" for row in loads)
    return GivenNames(
        bus=of_buses if any(of_buses) else (),
        load=of_loads if any(of_loads) else (),
        grid_connections=grid_connections(path, file_format),
    )


def _psse_devices(source: ParsedSource) -> PsseDevices:
    if source.psse is None:
        return PsseDevices()
    return read_devices(source.psse, {int(row["id"]): float(row["base_kv"]) for row in source.module.value.buses})


def _egret_buses(document: Mapping[str, Any]) -> dict[str, int]:
    """The id of each bus by what an Egret file calls it: its id, or its name."""
    buses = document["buses"]
    named = {str(row["name"]): int(row["id"]) for row in buses if row["name"]}
    return {str(row["id"]): int(row["id"]) for row in buses} | named


def _unprotected(network: powerio.BalancedNetwork, elements: Elements) -> tuple[str, ...]:
    """What draws power outside the table of loads: it is published as the file states it."""
    rows = network.generators
    generators = [row["bus"] for row in rows if row["pmin"] < 0 and row["pmax"] <= 0]
    passive = [row["bus"] for row in rows if not row["voltage_regulation_on"] and row["pmax"] > 0]
    drawing = [row["bus"] for row in network.shunts if row["g"] > 0 and row["in_service"]]
    found = (
        ("dispatchable loads", "generators", generators, "with their limits"),
        ("static generators", "generators", passive, "with their limits"),
        ("shunts that draw active power", "shunts", drawing, "exactly"),
        ("storage units", "storage", elements.storage_buses, "with their power limits"),
        ("ends of DC lines", "DC lines", elements.dc_line_ends, "with their limits and losses"),
    )
    return tuple(
        f"{len(at)} {what} ({kind} at buses {', '.join(str(bus) for bus in sorted(set(at)))}): published {how}"
        for what, kind, at, how in found
        if at
    )


def _with_stars(
    network: powerio.BalancedNetwork, own_buses: Sequence[Row], windings: Sequence[Row]
) -> tuple[list[Row], list[Row], list[Row]]:
    buses: list[Row] = list(own_buses)
    branches: list[Row] = list(network.branches)
    shunts: list[Row] = list(network.shunts)
    next_id = 1 + max((int(row["id"]) for row in buses), default=0)
    for offset, row in enumerate(windings):
        star_id = next_id + offset
        legs = star_legs(*(complex(z["r"], z["x"]) for z in row["z"]))
        v_min, v_max = STAR_VOLTAGE_LIMITS
        blank = {"base_kv": 1.0, "area": 1, "zone": 1}
        buses.append({"id": star_id, "kind": "PQ", "vmin": v_min, "vmax": v_max} | blank)
        for winding, leg in zip(row["windings"], legs, strict=True):
            branches.append(
                {"from_id": winding["bus"], "to_id": star_id, "r": leg.real, "x": leg.imag, "in_service": True}
                | {"g_fr": 0.0, "b_fr": 0.0, "g_to": 0.0, "b_to": 0.0, "angmin": -360.0, "angmax": 360.0}
                | {"rate_a": winding["rate_a"], "tap": winding["tap"], "shift": winding["shift"]}
            )
        magnetising = {"g": row["mag_g"] * network.base_mva, "b": row["mag_b"] * network.base_mva}
        shunts.append({"bus": row["windings"][0]["bus"], "in_service": True} | magnetising)
    return buses, branches, shunts


def _bus_table(buses: Sequence[Row], shunts: Sequence[Row]) -> BusTable:
    ids = ints(buses, "id")
    kinds = [row["kind"] for row in buses]
    position = {int(bus_id): index for index, bus_id in enumerate(ids)}
    shunt_g, shunt_b = np.zeros(len(ids)), np.zeros(len(ids))
    for row in shunts:
        if row["in_service"] and row["bus"] in position:
            shunt_g[position[row["bus"]]] += row["g"]
            shunt_b[position[row["bus"]]] += row["b"]
    return BusTable(
        id=ids,
        isolated=np.array([kind == "ISOLATED" for kind in kinds], dtype=bool),
        reference=np.array([kind == "REF" for kind in kinds], dtype=bool),
        v_min=floats(buses, "vmin"),
        v_max=floats(buses, "vmax"),
        shunt_g=shunt_g,
        shunt_b=shunt_b,
        base_kv=floats(buses, "base_kv"),
        area=ints(buses, "area"),
        zone=ints(buses, "zone"),
    )


def _branch_table(branches: Sequence[Row], current: Floats) -> BranchTable:
    return BranchTable(
        from_id=ints(branches, "from_id"),
        to_id=ints(branches, "to_id"),
        r=floats(branches, "r"),
        x=floats(branches, "x"),
        g_from=floats(branches, "g_fr"),
        b_from=floats(branches, "b_fr"),
        g_to=floats(branches, "g_to"),
        b_to=floats(branches, "b_to"),
        rate=floats(branches, "rate_a"),
        current=current,
        tap=floats(branches, "tap"),
        shift=floats(branches, "shift"),
        angle_min=floats(branches, "angmin"),
        angle_max=floats(branches, "angmax"),
        in_service=bools(branches, "in_service"),
    )


def _generator_table(generators: Sequence[Row], reactive_cost: Sequence[CostCurve]) -> GeneratorTable:
    return GeneratorTable(
        bus_id=ints(generators, "bus"),
        p_min=floats(generators, "pmin"),
        p_max=floats(generators, "pmax"),
        q_min=floats(generators, "qmin"),
        q_max=floats(generators, "qmax"),
        in_service=bools(generators, "in_service"),
        cost=tuple(cost_curve(row["cost"]) for row in generators),
        reactive_cost=tuple(reactive_cost) or (None,) * len(generators),
    )


def _load_table(loads: Sequence[Row]) -> LoadTable:
    power = np.array([complex(row["p"], row["q"]) for row in loads], dtype=complex)
    return LoadTable(bus_id=ints(loads, "bus"), in_service=bools(loads, "in_service"), power=SecretValues(power))
