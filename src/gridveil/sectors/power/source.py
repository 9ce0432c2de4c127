"""Checks of the source file for data that powerio's readers would invent or drop; such files are refused.

Found by experiment with files that state a set-point and no limit (powerio 0.11.6): the readers of pandapower and PyPSA take the
set-point for the missing maximum, and a set-point follows the demand. Those of PSS/E, PowerModels, Egret and PowerWorld
put 0 or infinity, always the same; MATPOWER demands the column. Other readers were not examined, so they are not used.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard

import powerio

from gridveil.core.errors import InputError
from gridveil.core.text import ranges
from gridveil.sectors.power.psse_sections import is_read_here, refuse_equipment
from gridveil.sectors.power.pypsa_files import rows_of
from gridveil.sectors.redaction import redact

MATPOWER, PANDAPOWER, PYPSA, PSSE = "matpower", "pandapower-json", "pypsa-csv", "psse"
POWERMODELS, EGRET = "powermodels-json", "egret-json"
WITH_LOAD_TABLE = (PSSE, POWERMODELS, EGRET, PANDAPOWER, "powerworld", PYPSA)
"""Formats that state each load in a row of its own, which powerio keeps when it holds zeros."""
EXAMINED = (MATPOWER, *WITH_LOAD_TABLE)

_TABLES_READ = {
    "bus",
    "load",
    "sgen",
    "gen",
    "ext_grid",
    "line",
    "trafo",
    "shunt",
    "storage",
    "dcline",
    "poly_cost",
    "svc",
}
CUT_BY_SWITCH = {"l": "line", "t": "trafo"}
"""Tables of pandapower whose rows a switch of this kind can take out of service."""
_NOT_EQUIPMENT = {"pwl_cost", "measurement", "controller", "characteristic", "group", "bus_geodata", "line_geodata"}
_NOT_EQUIPMENT |= {"substation", "loadcases"}  # SimBench
_NOT_EQUIPMENT |= {"q_capability_curve_table"}  # of which powerio says that it passes it over
_NOT_EQUIPMENT |= {"spline_characteristic_table", "trafo_characteristic_table", "q_capability_characteristic"}
# Stricter than float(), which takes 1_000 and nan: what any reader takes for a number.
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
_SECTION_LEFT_OUT = re.compile(r"PSS/E (?P<name>.+?) section \(")


def check_source(path: Path, file_format: str) -> None:
    """Refuse a file whose missing limits powerio would take from set-points, or that has parts it would leave out."""
    if file_format not in EXAMINED:
        raise InputError(
            f"{path}: the format {file_format} is not read, because its reader may take missing limits from "
            f"set-points, which follow the demand; convert the file to one of {', '.join(EXAMINED)}"
        )
    if file_format == PYPSA:
        _check_pypsa(path)
    if file_format == PANDAPOWER:
        _check_pandapower(path)


def voltage_dependence(loads: Sequence[Mapping[str, Any]]) -> list[str]:
    """Note the loads that depend on the voltage: their power at 1 p.u. is taken."""
    rows = [place for place, row in enumerate(loads, start=1) if row["voltage_model"]]
    return [f"loads that depend on the voltage are taken as constant (rows {ranges(rows)})"] if rows else []


def notes_of(diagnostics: Iterable[powerio.Diagnostic]) -> list[str]:
    """Turn what powerio says about a file it read into notes without values; an error is an InputError."""
    notes = []
    for finding in diagnostics:
        message = redact(finding.message)
        if finding.severity == "error":
            raise InputError(f"the file cannot be used: {message}; check or re-export it")
        if finding.code == "READ.PSSE.SECTION_UNSUPPORTED":
            section = _SECTION_LEFT_OUT.match(finding.message)
            name = section["name"] if section else "of this name"
            if is_read_here(name):
                continue
            refuse_equipment(name)
            message = f"the PSS/E section {name} describes no equipment and is not read"
        if finding.code == "READ.MATPOWER.INDEXED_ASSIGNMENT":
            raise InputError("the file changes its tables by code; save its result with MATPOWER's savecase")
        # pandapower's result tables, which nobody would read; switches and compensators, which are read here; SimBench's own
        of_results = finding.message.startswith(("`res_", "`_", "`switch`", "`loadcases`", "`substation`", "`svc`"))
        if finding.severity == "warning" and not of_results and message not in notes:
            notes.append(message)
    return notes


def load_names(path: Path, file_format: str) -> list[str]:
    """Names of the loads, in the order of their rows, where the format has them and powerio leaves them out."""
    if file_format == PANDAPOWER:
        return [str(row.get("name") or "") for _, row in pandapower_tables(path).get("load", ())]
    return [row.get("name") or "" for row in rows_of(path / "loads.csv")] if file_format == PYPSA else []


def grid_connections(path: Path, file_format: str) -> tuple[int, ...]:
    """Positions, among powerio's generators, of what pandapower lists as ext_grid: they come after its table gen."""
    if file_format != PANDAPOWER:
        return ()
    tables = pandapower_tables(path)
    before = len(tables.get("gen", ()))
    return tuple(range(before, before + len(tables.get("ext_grid", ()))))


def pandapower_tables(path: Path) -> dict[str, list[tuple[object, dict[str, Any]]]]:
    """Rows of the tables of equipment of a pandapower file, with their indices."""
    document = json.loads(path.read_bytes())
    return {name: table_rows(name, value) for name, value in document["_object"].items() if _is_equipment(name, value)}


def _check_pandapower(path: Path) -> None:
    tables = pandapower_tables(path)
    for table in ("gen", "sgen"):
        for index, row in tables.get(table, ()):
            if not is_number(row.get("max_p_mw")):
                raise InputError(
                    f"generator {index} (bus {row.get('bus')}): the file states no maximum active power; "
                    f"add max_p_mw to the pandapower {table} table"
                )
    for table, rows in tables.items():
        count = 0 if table in _TABLES_READ else sum(_matters(table, row) for _, row in rows)
        if count and table == "switch":
            raise InputError(
                f"{count} rows of the pandapower table switch have an impedance or are open at a three-winding transformer, "
                "which is not modelled; set z_ohm to 0, or switch the transformer off"
            )
        if count:
            raise InputError(
                f"{count} rows of the pandapower table {table} are in service, and they are not modelled; "
                "replace them by rows of load, shunt, gen, line or trafo, or switch them off"
            )


def _matters(table: str, row: Mapping[str, Any]) -> bool:
    """Whether a row of a table that powerio passes over changes the network."""
    if table == "switch":
        impedance = row.get("et") == "b" and row.get("closed") is True and bool(row.get("z_ohm"))
        return impedance or (
            row.get("et") not in CUT_BY_SWITCH and row.get("et") != "b" and row.get("closed") is not True
        )
    return row.get("in_service", True) is not False


def _is_equipment(name: str, value: object) -> bool:
    listed = name not in _NOT_EQUIPMENT and not name.startswith(("res_", "_"))  # results and templates of results
    return listed and isinstance(value, dict) and value.get("_class") == "DataFrame"


def table_rows(name: str, value: Mapping[str, Any]) -> list[tuple[object, dict[str, Any]]]:
    """Rows of one table, with their indices."""
    content = value.get("_object") if isinstance(value, dict) else None
    try:
        frame: Any = json.loads(content) if isinstance(content, str) else content
        columns, index, data = frame["columns"], frame["index"], frame["data"]
        if len(set(columns)) < len(columns):
            raise InputError(f"the pandapower table {name} has two columns of one name; rename or remove one")
        return [(label, dict(zip(columns, row, strict=True))) for label, row in zip(index, data, strict=True)]
    except (KeyError, TypeError, ValueError):
        raise InputError(f"the pandapower table {name} is malformed; re-export the file") from None


def is_number(value: object) -> TypeGuard[float]:
    """Whether a cell of a JSON file is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def loading_limits(path: Path) -> list[float]:
    """Share of its rating that each line and transformer of a pandapower file may be loaded to, which powerio passes over."""
    tables = pandapower_tables(path)
    return [
        _stated(row.get("max_loading_percent"), 100.0) / 100 * (_stated(row.get("df"), 1.0) if name == "line" else 1.0)
        for name in ("line", "trafo")
        for _, row in tables.get(name, ())
    ]


def _stated(value: object, usual: float) -> float:
    return float(value) if is_number(value) else usual


def _check_pypsa(folder: Path) -> None:
    other = [row for row in rows_of(folder / "buses.csv") if row.get("carrier") not in (None, "", "AC")]
    if other:
        raise InputError(
            f"{len(other)} buses have another carrier than AC, and an optimal power flow knows no other; replace what is between "
            "them by links between AC buses"
        )
    for name, sign in (("loads", -1.0), ("generators", 1.0), ("storage_units", 1.0)):
        turned = [
            row for row in rows_of(folder / f"{name}.csv") if row.get("sign") and not _is_close(row["sign"], sign)
        ]
        if turned:
            raise InputError(
                f"{len(turned)} rows of {name}.csv have another sign than {sign:g}; turn their power round"
            )
    for number, row in enumerate(rows_of(folder / "generators.csv"), start=1):
        if not _NUMBER.fullmatch(row.get("p_nom") or ""):
            raise InputError(
                f"generator {number} (bus {row.get('bus')}): the file states no maximum active power; "
                "add p_nom to generators.csv"
            )
    for number, row in enumerate(rows_of(folder / "links.csv"), start=1):
        if not _NUMBER.fullmatch(row.get("p_nom") or ""):
            raise InputError(f"link {number}: the file states no maximum active power; add p_nom to links.csv")
    for number, row in enumerate(rows_of(folder / "storage_units.csv"), start=1):
        usual = {"p_min_pu": -1.0, "p_max_pu": 1.0, "marginal_cost": 0.0}
        if any(row.get(name) and not _is_close(row[name], value) for name, value in usual.items()):
            raise InputError(
                f"storage unit {number}: its p_min_pu, p_max_pu or marginal_cost is not modelled; "
                "use -1, 1 and 0, or replace it by a generator"
            )
    active = [row for row in rows_of(folder / "stores.csv") if (row.get("active") or "").lower() not in ("false", "0")]
    if active:
        raise InputError(f"{len(active)} rows of stores.csv are not modelled; remove them or make them inactive")


def _is_close(word: str, value: float) -> bool:
    return bool(_NUMBER.fullmatch(word)) and math.isclose(float(word), value)


def link_costs(folder: Path, count: int) -> list[float]:
    """Marginal cost of each row of links.csv, which powerio passes over."""
    rows = rows_of(folder / "links.csv")
    words = [row.get("marginal_cost") or "0" for row in rows]
    if len(rows) != count or not all(_NUMBER.fullmatch(word) for word in words):
        raise InputError("links.csv: a marginal cost is not a number, or a row could not be read; correct it")
    return [float(word) for word in words]
