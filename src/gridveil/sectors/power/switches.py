"""Networks without switches: the buses that closed switches join become one bus, open switches are left out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import powerio

from gridveil.core.errors import InputError
from gridveil.sectors.power.matpower_tables import Switch
from gridveil.sectors.power.source import CUT_BY_SWITCH, PANDAPOWER
from gridveil.sectors.redaction import redact

Row = Mapping[str, Any]
Module: TypeAlias = "powerio.PioModule[powerio.BalancedNetwork]"


@dataclass(frozen=True, eq=False, kw_only=True)
class Unswitched:
    """A network without switches, and how it differs from the one that had them."""

    network: powerio.BalancedNetwork
    buses: Sequence[Row]
    """Its buses. A merged bus keeps the limits on the voltage that all its buses have in common."""
    survivor: Mapping[int, int]
    """The bus that each merged bus became."""
    branch_rows: Sequence[int | None] | None
    """For each branch of the file its row now, None for one whose two buses are merged; None if there were no switches."""

    def at_survivors(self, rows: Sequence[Row]) -> list[Row]:
        """Rows of elements at the buses that those of the file became."""
        places = ("bus", "from", "to")
        return [{**row, **{at: self.survivor.get(row[at], row[at]) for at in places if at in row}} for row in rows]

    def of_branches(self, values: Sequence[float]) -> Sequence[float]:
        """Values of the branches that are left, from those of all branches of the file."""
        if self.branch_rows is None or not values:
            return values
        return [value for value, row in zip(values, self.branch_rows, strict=True) if row is not None]


def without_switches(module: Module, stated: Sequence[Switch]) -> Unswitched:
    """Merge buses; ``stated`` are switches that powerio did not read."""
    network = module.value
    if stated:
        network = _with_switches(module, stated)
    if not network.n_switches:
        return Unswitched(network=network, buses=list(network.buses), survivor={}, branch_rows=None)
    try:
        merged = network.merge_buses(closed_switches=True)
    except powerio.PowerIOError as error:
        raise InputError(f"the buses of a closed switch cannot be merged: {redact(str(error))}; open it") from None
    limits = {int(row["id"]): (row["vmin"], row["vmax"]) for row in network.buses}
    members: dict[int, list[int]] = {}
    for bus, into in merged.merged_buses.items():
        members.setdefault(into, [into]).append(bus)
    buses = [_limited(row, [limits[bus] for bus in members.get(int(row["id"]), ())]) for row in merged.network.buses]
    return Unswitched(network=merged.network, buses=buses, survivor=merged.merged_buses, branch_rows=merged.branch_rows)


def pandapower_switches(path: Path, module: Module) -> tuple[Module, list[Switch], list[str]]:
    """Apply pandapower's table of switches, which powerio passes over: cut what is open, list the switches between buses.

    A line or transformer that is open at one end counts as out of service.
    """
    try:
        return _applied(path, module)
    except (KeyError, TypeError, ValueError, OverflowError):
        raise InputError("the pandapower table switch is malformed; re-export the file") from None


def _applied(path: Path, module: Module) -> tuple[Module, list[Switch], list[str]]:
    document = json.loads(path.read_bytes())
    tables = document["_object"]
    rows = _records(tables["switch"]) if "switch" in tables else []
    between = [row for row in rows if row["et"] == "b"]
    # powerio numbers buses from 1 where pandapower has indices from 0
    switches = [Switch(int(row["bus"]) + 1, int(row["element"]) + 1, row["closed"] is True) for row in between]
    notes = []
    for kind, table in CUT_BY_SWITCH.items():
        cut = {int(row["element"]) for row in rows if row["et"] == kind and row["closed"] is not True}
        if cut and table in tables:
            _take_out(tables[table], cut)
            notes.append(f"{len(cut)} rows of the pandapower table {table} end at an open switch: out of service")
    if notes:
        module = powerio.parse(json.dumps(document).encode(), format=PANDAPOWER, name=path.name)
    return module, switches, notes


def _records(table: Mapping[str, Any]) -> list[dict[str, Any]]:
    frame = _content(table)
    return [dict(zip(frame["columns"], row, strict=True)) for row in frame["data"]]


def _content(table: Mapping[str, Any]) -> Any:
    return json.loads(table["_object"]) if isinstance(table["_object"], str) else table["_object"]


def _take_out(table: dict[str, Any], cut: set[int]) -> None:
    """Switch rows off, by their index."""
    frame = _content(table)
    place = frame["columns"].index("in_service")
    for index, row in zip(frame["index"], frame["data"], strict=True):
        if index in cut:
            row[place] = False
    table["_object"] = json.dumps(frame)


def _with_switches(module: Module, stated: Sequence[Switch]) -> powerio.BalancedNetwork:
    document = json.loads(powerio.serialize(module).artifacts[0].data or b"")
    document["value"]["data"]["switches"] = [
        {"from": switch.from_id, "to": switch.to_id, "closed": switch.closed, "extras": {}} for switch in stated
    ]
    known = {int(row["id"]) for row in module.value.buses}
    for number, switch in enumerate(stated, start=1):
        if not {switch.from_id, switch.to_id} <= known:
            raise InputError(f"switch {number}: one of its buses does not exist; add the bus or remove the switch")
    network: powerio.BalancedNetwork = powerio.deserialize(json.dumps(document).encode()).value
    return network


def _limited(row: Row, limits: Sequence[tuple[float, float]]) -> Row:
    if not limits:
        return row
    return dict(row) | {"vmin": max(low for low, _ in limits), "vmax": min(high for _, high in limits)}
