"""PyPSA folders with values over time: a folder without time for powerio, and the loads of every snapshot, which are secret.

The network of a release is one. Loads are taken snapshot by snapshot; limits and costs that change over time, which are public,
at their mean; set-points and results, which follow the demand, not at all.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gridveil.core.errors import InputError
from gridveil.core.secret import SecretValues
from gridveil.sectors.case import ValuesOverTime
from gridveil.sectors.power.pypsa_files import Row, rows_of, write_rows
from gridveil.sectors.power.tables import Floats

SNAPSHOTS = "snapshots.csv"
LOADS, ACTIVE, REACTIVE = "loads", "p_set", "q_set"
SINGLE = 1
PUBLIC_OVER_TIME = {
    "generators": {"p_min_pu": 0, "p_max_pu": 1, "marginal_cost": 0, "marginal_cost_quadratic": 0},
    "lines": {"s_max_pu": 1},
    "transformers": {"s_max_pu": 1},
    "links": {"p_min_pu": 0, "p_max_pu": 1, "efficiency": 1, "marginal_cost": 0},
    "storage_units": {"p_min_pu": -1, "p_max_pu": 1, "marginal_cost": 0},
}
"""Limits and costs, by table, with PyPSA's defaults."""


@dataclass(frozen=True, eq=False, kw_only=True)
class FlatFolder:
    """A folder without values over time; what its loads are at each snapshot, in MW and by row; and what was simplified."""

    path: Path
    over_time: ValuesOverTime | None
    notes: tuple[str, ...]


def is_over_time(folder: Path) -> bool:
    """Whether a folder holds a table of values over time."""
    return any(folder.glob("*-*.csv"))


def without_time(folder: Path, into: Path) -> FlatFolder:
    """Write a copy of a folder with one value of everything; its loads are those of the first snapshot."""
    flat = into / "flat"
    flat.mkdir()
    timed = sorted(folder.glob("*-*.csv"))
    for path in folder.iterdir():
        if path.is_file() and path not in timed and path.name != SNAPSHOTS:
            shutil.copy(path, flat / path.name)
    timestamps = _timestamps(folder)
    notes, passed_over = [_weighting_note(folder)], []
    for path in timed:
        table, _, column = path.stem.partition("-")
        if table == LOADS and column in (ACTIVE, REACTIVE):
            continue
        if column not in PUBLIC_OVER_TIME.get(table, {}):
            passed_over.append(path.stem)
        elif _take_mean(path, flat / f"{table}.csv", timestamps) and len(timestamps) > SINGLE:
            notes.append(f"{table}: {column} changes over time, and a release has one network: its mean is taken")
    if passed_over and len(timestamps) > SINGLE:
        notes.append(f"values over time that are set-points or results are not read: {', '.join(passed_over)}")
    over_time = _loads(folder, flat, timestamps)
    return FlatFolder(path=flat, over_time=over_time, notes=tuple(note for note in notes if note))


def _timestamps(folder: Path) -> tuple[str, ...]:
    rows = rows_of(folder / SNAPSHOTS)
    if not rows:
        raise InputError(f"{SNAPSHOTS} is missing or empty, and the folder has values over time; re-export the network")
    if "period" in rows[0]:
        raise InputError(
            "the PyPSA network has investment periods, which are not read; keep the snapshots of one period"
        )
    name = "snapshot" if "snapshot" in rows[0] else next(iter(rows[0]))
    found = tuple(row[name] for row in rows)
    if len(set(found)) < len(found):
        raise InputError(f"{SNAPSHOTS} has a snapshot twice; give each once")
    return found


def _weighting_note(folder: Path) -> str:
    weights = [row.get(name) for row in rows_of(folder / SNAPSHOTS) for name in ("objective", "weightings")]
    weighted = any(word and _number(word) != 1.0 for word in weights)
    return "snapshot weightings are not used: every snapshot is released by itself" if weighted else ""


def _take_mean(path: Path, static: Path, timestamps: Sequence[str]) -> bool:
    """Write the mean of each column of a table over time into the table of its elements; whether there was one."""
    table, _, column = path.stem.partition("-")
    names, values = _table(path, timestamps)
    rows, mean = rows_of(static), dict(zip(names, values.mean(axis=0), strict=True))
    if not mean.keys() <= {row.get("name") for row in rows} or not np.all(np.isfinite(values)):
        raise InputError(
            f"{path.name}: a column names nothing in {static.name}, or a value is no finite number; mend the file"
        )
    if mean:
        usual = str(PUBLIC_OVER_TIME[table][column])
        means = {name: repr(float(value)) for name, value in mean.items()}
        write_rows(static, [row | {column: means.get(row["name"], row.get(column) or usual)} for row in rows])
    return bool(mean)


def _loads(folder: Path, flat: Path, timestamps: Sequence[str]) -> ValuesOverTime | None:
    """Loads in MW and MVAr, by row of loads.csv; a load without values over time has its static one throughout."""
    rows = rows_of(flat / "loads.csv")
    parts = [_loads_part(folder, rows, column, timestamps) for column in (ACTIVE, REACTIVE)]
    if not rows:
        return None
    first = [
        row | {ACTIVE: repr(float(p)), REACTIVE: repr(float(q))}
        for row, p, q in zip(rows, parts[0][0], parts[1][0], strict=True)
    ]
    write_rows(flat / "loads.csv", first)
    return ValuesOverTime(
        timestamps=tuple(timestamps),
        values=tuple(SecretValues(hour) for hour in parts[0] + 1j * parts[1]),
        replace_values=len(timestamps) > SINGLE,
    )


def _loads_part(folder: Path, rows: Sequence[Row], column: str, timestamps: Sequence[str]) -> Floats:
    path = folder / f"{LOADS}-{column}.csv"
    names, values = _table(path, timestamps) if path.exists() else ([], np.zeros((len(timestamps), 0)))
    place = {row.get("name"): number for number, row in enumerate(rows)}
    if not place.keys() >= set(names):
        raise InputError(f"{path.name} names a load that loads.csv does not have; re-export the network")
    static = np.array([_number(row.get(column) or "0") for row in rows])
    table = np.tile(static, (len(timestamps), 1))
    table[:, [place[name] for name in names]] = values
    if not np.all(np.isfinite(table)):
        raise InputError(f"a load has no finite number in {path.name} or loads.csv; mend the file")
    return table


def _table(path: Path, timestamps: Sequence[str]) -> tuple[list[str], Floats]:
    """Names of the columns and values of a table over time, one row for each snapshot."""
    rows = rows_of(path)
    if not rows:
        return [], np.zeros((len(timestamps), 0))
    time, *names = rows[0]
    stated = tuple(row[time] for row in rows)
    numbered = tuple(str(number) for number in range(len(timestamps)))  # as PyPSA 1 writes them
    if stated not in (tuple(timestamps), numbered):
        raise InputError(f"{path.name}: its first column is not that of {SNAPSHOTS}; re-export the network")
    return names, np.array([[_number(row[name]) for name in names] for row in rows])


def _number(word: str | None) -> float:
    """A number, NaN for anything else: no message shows a value."""
    try:
        return float(word or "nan")
    except ValueError:
        return float("nan")
