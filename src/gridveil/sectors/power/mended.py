"""Written files, completed: names of loads and grid connections, and columns that the format's own tools refuse."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gridveil.sectors.power.given_names import GivenNames

Row = dict[str, Any]

OLD_LOAD_COLUMNS = ("const_z_percent", "const_i_percent")
GRID_COLUMNS = ("min_p_mw", "max_p_mw", "min_q_mvar", "max_q_mvar")


def mend_pandapower(path: Path, given: GivenNames) -> None:
    """Drop columns of pandapower 2, name the loads, and move grid connections back to their table ext_grid."""
    document = json.loads(path.read_text())
    tables = document["_object"]
    _edit(tables["load"], lambda rows: [_load(row, name) for row, name in _named(rows, given.load)])
    if given.grid_connections:
        _move_grid_connections(tables, set(given.grid_connections))
    path.write_text(json.dumps(document))


def _load(row: Row, name: str) -> Row:
    """Drop what duplicates its successors: pandapower 3 refuses a file with both."""
    kept = {column: value for column, value in row.items() if column not in OLD_LOAD_COLUMNS}
    return kept | ({"name": name} if name else {})


def _move_grid_connections(tables: dict[str, Any], positions: set[int]) -> None:
    generators, index = _rows(tables["gen"])
    moved = [k for k in range(len(index)) if k in positions]
    number = {index[k]: place for place, k in enumerate(moved)}
    neutral = {"vm_pu": 1.0, "va_degree": 0.0, "slack_weight": 1.0, "controllable": True}
    grid = [
        {"name": None, "bus": generators[k]["bus"], "in_service": generators[k]["in_service"]}
        | neutral
        | {column: generators[k][column] for column in GRID_COLUMNS}
        for k in moved
    ]
    _set_rows(tables["ext_grid"], grid, list(range(len(grid))))
    kept = [k for k in range(len(index)) if k not in positions]
    _set_rows(tables["gen"], [generators[k] for k in kept], [index[k] for k in kept])
    for costs in ("poly_cost", "pwl_cost"):
        if costs in tables:
            _edit(tables[costs], lambda rows: [_cost(row, number) for row in rows])


def _cost(row: Row, number: dict[int, int]) -> Row:
    moved = row["et"] == "gen" and row["element"] in number
    return row | ({"et": "ext_grid", "element": number[row["element"]]} if moved else {})


def _named(rows: list[Row], names: tuple[str, ...]) -> list[tuple[Row, str]]:
    return list(zip(rows, names or ("",) * len(rows), strict=True))


def _edit(table: dict[str, Any], change: Callable[[list[Row]], list[Row]]) -> None:
    rows, index = _rows(table)
    if rows:
        _set_rows(table, change(rows), index)
    else:
        frame = json.loads(table["_object"])
        frame["columns"] = [name for name in frame["columns"] if name not in OLD_LOAD_COLUMNS]
        table["_object"] = json.dumps(frame)


def _rows(table: dict[str, Any]) -> tuple[list[Row], list[int]]:
    frame = json.loads(table["_object"])
    return [dict(zip(frame["columns"], row, strict=True)) for row in frame["data"]], frame["index"]


def _set_rows(table: dict[str, Any], rows: list[Row], index: list[int]) -> None:
    frame = json.loads(table["_object"])
    columns = list(rows[0]) if rows else frame["columns"]
    table["_object"] = json.dumps({"columns": columns, "index": index, "data": [list(row.values()) for row in rows]})
    if "dtype" in table:
        known = table["dtype"]
        table["dtype"] = {column: known.get(column, "float64") for column in columns}


def mend_pypsa(folder: Path, given: GivenNames) -> None:
    """Name the loads, and drop the neutral set-points: PyPSA 1.4 takes 0 MW in ``p_set`` as a dispatch to be kept."""
    for units in (folder / "generators.csv", folder / "storage_units.csv"):
        if units.exists():
            _write(units, [{key: row[key] for key in row if key != "p_set"} for row in _read(units)])
    if given.load:
        loads = _read(folder / "loads.csv")
        _write(
            folder / "loads.csv", [row | ({"name": name} if name else {}) for row, name in _named(loads, given.load)]
        )


def _read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _write(path: Path, rows: list[dict[str, str]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]) if rows else [], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
