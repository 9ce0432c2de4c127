"""Storage of pandapower and Egret files and compensators of pandapower, which powerio misreads or passes over: both ways.

What a unit was set to may follow the demand, so it is not used: powerio takes the set-point for a rating that is missing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gridveil.core.errors import InputError
from gridveil.sectors.power.matpower_tables import CompensatorRow
from gridveil.sectors.power.source import EGRET, PANDAPOWER, is_number, pandapower_tables, table_rows
from gridveil.sectors.power.tables import BusTable, CompensatorTable, StorageTable
from gridveil.sectors.power.write_elements import number

WRITTEN_HERE = (PANDAPOWER, EGRET)
"""Formats whose storage powerio does not write."""
FULL, NONE = 90.0, 180.0
"""Firing angles, in degrees, at which the reactor of a compensator conducts all the time, and never."""
_EGRET_KNOWN = {"bus", "load", "generator", "branch", "dc_branch", "shunt", "storage"}
_EGRET_NEUTRAL = ("min_charge_rate", "min_discharge_rate", "charge_cost", "discharge_cost")

Row = dict[str, Any]


def pandapower_storage(path: Path) -> list[Row]:
    """Storage units in the form of powerio's rows. pandapower counts what a unit draws as positive, and buses from 0."""
    tables = pandapower_tables(path)
    costs = [row for name in ("poly_cost", "pwl_cost") for _, row in _rows_of(path, name) if row.get("et") == "storage"]
    if costs:
        raise InputError(f"{len(costs)} storage units have costs, which are not modelled; remove them from the file")
    return [_pandapower_unit(index, row) for index, row in tables.get("storage", ())]


def _rows_of(path: Path, name: str) -> list[tuple[object, Row]]:
    table = json.loads(path.read_bytes())["_object"].get(name)
    return table_rows(name, table) if table else []


def _pandapower_unit(index: object, row: Mapping[str, Any]) -> Row:
    size, on = row.get("sn_mva"), row.get("in_service", True) is not False
    rating = float(size) if is_number(size) and size > 0 else math.inf
    drawn = [float(row[name]) if is_number(row.get(name)) else rating * sign for name, sign in _POWER]
    if on and not all(map(math.isfinite, drawn)):
        raise InputError(
            f"storage {index} (bus {row.get('bus')}): the file states no limits of its active power; add min_p_mw and max_p_mw, or "
            "sn_mva, to the pandapower storage table"
        )
    low, high = drawn if all(map(math.isfinite, drawn)) else (0.0, 0.0)
    q_low, q_high = (float(row[name]) if is_number(row.get(name)) else 0.0 for name in ("min_q_mvar", "max_q_mvar"))
    return {
        "bus": int(row["bus"]) + 1,
        "charge_rating": high,
        "discharge_rating": -low,
        "thermal_rating": rating,
        "qmin": -q_high,
        "qmax": -q_low,
        "in_service": on,
    }


_POWER = (("min_p_mw", -1.0), ("max_p_mw", 1.0))


def egret_storage(path: Path, bus_of: Mapping[str, int]) -> tuple[list[Row], list[str]]:
    """Storage units in the form of powerio's rows, and notes on elements of other kinds; ``bus_of`` a bus's key its id."""
    elements = json.loads(path.read_bytes()).get("elements", {})
    others = sorted(kind for kind, found in elements.items() if kind not in _EGRET_KNOWN and found)
    notes = [f"Egret elements of other kinds are not read: {', '.join(others)}"] if others else []
    units = elements.get("storage", {})
    return [_egret_unit(place, row, bus_of) for place, row in enumerate(units.values(), start=1)], notes


def _egret_unit(place: int, row: Mapping[str, Any], bus_of: Mapping[str, int]) -> Row:
    name, on = f"storage unit {place}", row.get("in_service", True) is not False
    rates = [row.get("max_charge_rate"), row.get("max_discharge_rate")]
    if str(row.get("bus")) not in bus_of:
        raise InputError(f"{name}: its bus does not exist; correct it in the file")
    if on and not all(map(is_number, rates)):
        raise InputError(f"{name}: the file states no limits of its power; add max_charge_rate and max_discharge_rate")
    if on and any(row.get(column) for column in _EGRET_NEUTRAL):
        raise InputError(f"{name}: costs and least rates of storage are not modelled; remove them, or switch it off")
    charge, discharge = (float(rate) if is_number(rate) else 0.0 for rate in rates)
    still = {"thermal_rating": math.inf, "qmin": 0.0, "qmax": 0.0}
    bus = bus_of[str(row["bus"])]
    return {"bus": bus, "charge_rating": charge, "discharge_rating": discharge, "in_service": on} | still


def pandapower_compensators(path: Path) -> list[CompensatorRow]:
    """Thyristor-controlled compensators: what they feed at 1 p.u. between the limits of their firing angles."""
    tables = pandapower_tables(path)
    voltage = {index: row.get("vn_kv") for index, row in tables.get("bus", ())}
    return [_compensator(index, row, voltage.get(row.get("bus"))) for index, row in tables.get("svc", ())]


SVC_NOTE = "compensators (svc): a susceptance between the limits of the firing angle; what they are set to is not used"


def _compensator(index: object, row: Mapping[str, Any], kv: object) -> CompensatorRow:
    values = (row.get("x_l_ohm"), row.get("x_cvar_ohm"), kv)
    if not all(is_number(value) and value != 0 for value in values):
        raise InputError(f"svc {index}: its reactances or the voltage of its bus are not stated; correct the file")
    coil, capacitor, base = (float(value) for value in values if is_number(value))
    low, high = (
        -(base**2) * _susceptance(float(row[name]) if is_number(row.get(name)) else usual, coil, capacitor)
        for name, usual in (("min_angle_degree", FULL), ("max_angle_degree", NONE))
    )
    return CompensatorRow(
        bus=int(row["bus"]) + 1, b_min=low, b_max=high, in_service=row.get("in_service", True) is not False
    )


def _susceptance(degrees: float, coil: float, capacitor: float) -> float:
    """What a reactor behind thyristors and a capacitor draw, in siemens, at a firing angle."""
    angle = math.radians(degrees)
    return (2 * (math.pi - angle) + math.sin(2 * angle)) / (math.pi * coil) + 1 / capacitor


def add_pandapower_devices(path: Path, bus: BusTable, storage: StorageTable, compensator: CompensatorTable) -> None:
    """Add storage and compensators to a written pandapower file; set-points get neutral values."""
    document = json.loads(path.read_text())
    tables = document["_object"]
    index = dict(zip(bus.id.tolist(), json.loads(tables["bus"]["_object"])["index"], strict=True))
    kv = dict(zip(bus.id.tolist(), bus.base_kv.tolist(), strict=True))
    units = [
        {"name": None, "bus": index[int(storage.bus_id[i])], "p_mw": 0.0, "q_mvar": 0.0, "sn_mva": None}
        | {
            "soc_percent": None,
            "min_e_mwh": 0.0,
            "max_e_mwh": None,
            "scaling": 1.0,
            "in_service": bool(storage.in_service[i]),
        }
        | {"type": None, "min_p_mw": number(-storage.p_max[i]), "max_p_mw": number(-storage.p_min[i])}
        | {"min_q_mvar": number(-storage.q_max[i]), "max_q_mvar": number(-storage.q_min[i]), "controllable": True}
        for i in range(len(storage.bus_id))
    ]
    compensators = [
        {"name": None, "bus": index[int(compensator.bus_id[i])]}
        | _reactances(compensator.b_min[i], compensator.b_max[i], kv[int(compensator.bus_id[i])])
        | {"set_vm_pu": 1.0, "thyristor_firing_angle_degree": NONE, "controllable": True}
        | {"in_service": bool(compensator.in_service[i]), "min_angle_degree": FULL, "max_angle_degree": NONE}
        for i in range(len(compensator.bus_id))
    ]
    for name, rows in (("storage", units), ("svc", compensators)):
        if rows:
            tables[name] = _table(rows)
    if units or compensators:
        path.write_text(json.dumps(document))


def _reactances(b_min: float, b_max: float, kv: float) -> Row:
    """Reactor and capacitor, in ohms, that feed b_min with the reactor conducting and b_max without it, in MVAr at 1 p.u."""
    smallest = np.finfo(float).tiny
    return {"x_l_ohm": kv**2 / max(b_max - b_min, smallest), "x_cvar_ohm": -(kv**2) / (b_max or smallest)}


def _table(rows: list[Row]) -> Row:
    content = {"columns": list(rows[0]), "index": list(range(len(rows))), "data": [list(row.values()) for row in rows]}
    types = {name: _dtype(value) for name, value in rows[0].items()}
    plain = {"orient": "split", "is_multiindex": False, "is_multicolumn": False}
    return {
        "_module": "pandas.core.frame",
        "_class": "DataFrame",
        "_object": json.dumps(content),
        "dtype": types,
    } | plain


def _dtype(value: object) -> str:
    if isinstance(value, bool):
        return "bool"
    return "int64" if isinstance(value, int) else "float64" if isinstance(value, float) else "object"


def add_egret_storage(path: Path, storage: StorageTable) -> None:
    """Add storage to a written Egret file."""
    if not len(storage.bus_id):
        return
    document = json.loads(path.read_text())
    document["elements"]["storage"] = {
        f"storage_{i + 1}": {
            "bus": str(storage.bus_id[i]),
            "max_charge_rate": number(-storage.p_min[i]),
            "max_discharge_rate": number(storage.p_max[i]),
            "in_service": bool(storage.in_service[i]),
        }
        for i in range(len(storage.bus_id))
    }
    path.write_text(json.dumps(document))
