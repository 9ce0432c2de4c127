"""Tables of a MATPOWER file that powerio passes over: reactive costs, limits on currents, switches, compensators.

A table is ``mpc.name = [ ... ];`` with rows that end at a semicolon or a line break. Tables of extensions name their columns
in a comment above them (``%column_names%``), as PowerModels.jl writes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gridveil.core.errors import InputError
from gridveil.sectors.power.tables import CostCurve

COLUMN_MARK = "%column_names%"
CURRENTS, COMPENSATORS, SWITCHES = "branch_currents", "static_var_compensator", "switch"
_USUAL_COLUMNS = {SWITCHES: ("f_bus", "t_bus", "psw", "qsw", "state", "thermal_rating", "status")}

Rows = NDArray[np.float64]


class PlainTables(Protocol):
    """The tables of a file."""

    @property
    def columns(self) -> Mapping[str, tuple[str, ...]]:
        """Every field of the file, with the names of its columns where a comment states them."""

    def table(self, name: str) -> Rows | None:
        """Rows of a table; None where the file has none of this name, or not one of plain numbers."""


@dataclass(frozen=True)
class Switch:
    """A switch in service between two buses."""

    from_id: int
    to_id: int
    closed: bool


@dataclass(frozen=True)
class CompensatorRow:
    """A static var compensator: limits in MVAr at 1 p.u. voltage."""

    bus: int
    b_min: float
    b_max: float
    in_service: bool


@dataclass(frozen=True)
class MoreTables:
    """What a file states beyond powerio's reach; empty where the file has no such table."""

    reactive_cost: Sequence[CostCurve] = ()
    """One for each row of mpc.gen."""
    current: Sequence[float] = ()
    """Limit of each row of mpc.branch, MVA at 1 p.u. voltage; 0 for none."""
    switches: Sequence[Switch] = ()
    compensators: Sequence[CompensatorRow] = ()


def more_tables(file: PlainTables, n_generators: int, n_branches: int) -> MoreTables:
    """Read the tables of a file with that many generators and branches."""
    return MoreTables(
        reactive_cost=_reactive_costs(file, n_generators),
        current=_currents(file, n_branches),
        switches=_switches(file),
        compensators=_compensators(file),
    )


def _column(file: PlainTables, name: str, *columns: str) -> list[list[float]]:
    """Columns of a table of an extension, by their names."""
    rows = file.table(name)
    known = file.columns.get(name, ()) or _USUAL_COLUMNS.get(name, ())
    places = [known.index(column) if column in known else -1 for column in columns]
    if rows is None:
        raise InputError(f"mpc.{name} holds something that is not a number; write its value")
    if rows.size == 0:
        return [[] for _ in columns]
    if min(places) < 0 or max(places) >= rows.shape[1]:
        raise InputError(
            f"mpc.{name} needs the columns {', '.join(columns)}; name its columns in a comment above it ({COLUMN_MARK} ...)"
        )
    if not np.all(np.isfinite(rows[:, places])):
        raise InputError(f"mpc.{name} holds something that is not a number; write its value")
    return [rows[:, place].tolist() for place in places]


def _reactive_costs(file: PlainTables, n_generators: int) -> list[CostCurve]:
    """Read the second half of gencost, if there is one."""
    rows = file.table("gencost")
    if rows is None or len(rows) <= n_generators or n_generators == 0:
        return []
    if len(rows) != 2 * n_generators:
        raise InputError(
            f"mpc.gencost has {len(rows)} rows for {n_generators} generators; give one for each, "
            "or two with the costs of reactive power in the second half"
        )
    return [_curve(row, number) for number, row in enumerate(rows[n_generators:].tolist(), n_generators + 1)]


def _curve(row: Sequence[float], number: int) -> CostCurve:
    model, values = (row[0], row[4:]) if len(row) > 4 else (0.0, [])
    count = int(row[3]) if len(row) > 4 and row[3].is_integer() else 0
    if model == 2 and 0 < count <= len(values):
        return CostCurve(polynomial=tuple(values[:count]))
    if model == 1 and 0 < 2 * count <= len(values):
        return CostCurve(points=tuple(zip(values[0 : 2 * count : 2], values[1 : 2 * count : 2], strict=True)))
    raise InputError(f"mpc.gencost: row {number} is no polynomial and no list of points; correct or complete it")


def _currents(file: PlainTables, n_branches: int) -> list[float]:
    if CURRENTS not in file.columns:
        return []
    (found,) = _column(file, CURRENTS, "c_rating_a")
    if len(found) != n_branches:
        raise InputError(f"mpc.{CURRENTS} has {len(found)} rows for {n_branches} branches; give one for each")
    return found


def _switches(file: PlainTables) -> list[Switch]:
    if SWITCHES not in file.columns:
        return []
    rows = zip(*_column(file, SWITCHES, "f_bus", "t_bus", "state", "status"), strict=True)
    return [Switch(int(i), int(j), state != 0) for i, j, state, status in rows if status != 0]


def _compensators(file: PlainTables) -> list[CompensatorRow]:
    if COMPENSATORS not in file.columns:
        return []
    rows = zip(*_column(file, COMPENSATORS, "bus", "b_min", "b_max", "status"), strict=True)
    return [CompensatorRow(int(bus), low, high, status != 0) for bus, low, high, status in rows]
