"""PyPSA's networks: CSV folders completed with the package's own defaults, and netCDF files through the package."""

from __future__ import annotations

import csv
import logging
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gridveil.core.errors import InputError
from gridveil.core.extras import optional_package
from gridveil.core.text import ranges

DEFAULT_KV = 1.0
NETCDF = (".nc", ".h5")

Row = dict[str, str]


def rows_of(path: Path) -> Sequence[Row]:
    """Rows of a CSV file; none where there is no such file."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        names = list(reader.fieldnames or ())
        if len(set(names)) < len(names):
            raise InputError(f"{path.name} has two columns of one name; rename or remove one")
        rows = list(reader)
    if any(None in row for row in rows):
        raise InputError(f"{path.name} has a row with more cells than columns; correct or re-export it")
    return rows


def completed_folder(folder: Path, into: Path) -> tuple[Path, list[str]]:
    """Write a copy of a folder with what powerio insists on and PyPSA fills in; the folder itself where nothing is missing.

    PyPSA takes 1 kV for a bus without a nominal voltage, and a generator as slack where none is. A branch may carry s_nom
    times s_max_pu.
    """
    changed: dict[str, list[Row]] = {}
    notes = (
        ["PyPSA states physical units and no base: 1 MVA is taken, so 0.1pu is 0.1 MVA"]
        if not _has_base(folder)
        else []
    )
    for name in ("lines.csv", "transformers.csv"):
        rows = rows_of(folder / name)
        if any(_share(row, "s_max_pu") != 1.0 for row in rows):
            changed[name] = [row | {"s_nom": _limited(row)} for row in rows]
    buses = rows_of(folder / "buses.csv")
    lacking = [place for place, row in enumerate(buses, start=1) if not row.get("v_nom")]
    if lacking:
        changed["buses.csv"] = [row | {"v_nom": row.get("v_nom") or str(DEFAULT_KV)} for row in buses]
        notes.append(f"buses without v_nom (rows {ranges(lacking)}): 1 kV, as PyPSA takes it")
    units = rows_of(folder / "generators.csv")
    if units and not any(row.get("control") == "Slack" for row in units):
        changed["generators.csv"] = _with_slack(units)
        notes.append("no generator is the slack: the largest is taken, or the first of the largest")
    if not changed:
        return folder, notes
    copy = into / "completed"
    shutil.copytree(folder, copy)
    for name, rows in changed.items():
        write_rows(copy / name, rows)
    return copy, notes


def _share(row: Row, column: str) -> float:
    try:
        return float(row.get(column) or 1.0)
    except ValueError:
        raise InputError(f"a PyPSA {column} is no number; correct it") from None


def _limited(row: Row) -> str:
    """What a branch may carry, which powerio reads off s_nom alone."""
    try:
        return repr(_share(row, "s_max_pu") * float(row.get("s_nom") or 0.0))
    except ValueError:
        return row["s_nom"]  # refused by powerio


def _has_base(folder: Path) -> bool:
    return any("powerio_base_mva" in row for row in rows_of(folder / "network.csv"))


def _with_slack(units: Sequence[Row]) -> list[Row]:
    largest = max(range(len(units)), key=lambda place: _size(units[place]))
    return [
        row | {"control": "Slack" if place == largest else row.get("control") or "PQ"}
        for place, row in enumerate(units)
    ]


def _size(row: Row) -> float:
    try:
        return float(row.get("p_nom") or 0.0)
    except ValueError:
        return 0.0  # refused with its row when the folder is checked


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """Write rows of equal columns as a CSV file."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def folder_of_file(path: Path, into: Path) -> Path:
    """Convert a netCDF or HDF5 file to a folder, by PyPSA itself."""
    pypsa = optional_package("pypsa", "pypsa")
    logging.getLogger("pypsa").setLevel(logging.ERROR)
    try:
        network = pypsa.Network(str(path))
    except Exception as error:
        # Whatever the package raises: its message may quote the content.
        raise InputError(
            f"{path}: PyPSA cannot read it ({type(error).__name__}); check or re-export the file"
        ) from None
    return folder_of_network(network, into)


def folder_of_network(network: Any, into: Path) -> Path:
    """Write a PyPSA network as a folder."""
    path = into / "network"
    network.export_to_csv_folder(str(path))
    return path
