"""From powerio's rows to the tables of DC lines, storage and compensators."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import powerio

from gridveil.core.errors import InputError
from gridveil.sectors.power.matpower_tables import CompensatorRow
from gridveil.sectors.power.source import EGRET, MATPOWER, PANDAPOWER, POWERMODELS, PSSE, PYPSA, link_costs
from gridveil.sectors.power.tables import (
    Bools,
    CompensatorTable,
    CostCurve,
    DcLineTable,
    Floats,
    Ints,
    StorageTable,
)

Row = Mapping[str, Any]
POLYNOMIAL_COST = 2
WITH_STORAGE = (MATPOWER, POWERMODELS, PYPSA, PANDAPOWER, EGRET)
"""Formats that storage units are written to, by powerio or here."""
STORAGE_NOTE = "storage units: an injection within their power limits; energy, efficiency and losses are not modelled"


class Elements:
    """DC lines and storage units of a network, for one file format; refuses what cannot be modelled as stated."""

    def __init__(
        self, network: powerio.BalancedNetwork, file_format: str, path: Path, more_lines: Sequence[Row] = ()
    ) -> None:
        own_lines = rare_rows(network, "hvdc")
        self._lines: list[Row] = [*own_lines, *more_lines]
        self._units: list[Row] = rare_rows(network, "storage")
        self._format, self._path = file_format, path
        if any(row["in_service"] for row in rare_rows(network, "static_var_compensators")):
            raise InputError(
                f"the case has static var compensators in a form that the format {file_format} is not released in; "
                "switch them off or state them in a MATPOWER file"
            )
        for number, row in enumerate(own_lines, start=1):
            if row["in_service"]:
                self._check_line(number, row)
        stored = sum(bool(row["in_service"]) for row in self._units)
        if stored and file_format not in WITH_STORAGE:
            raise InputError(
                f"the case has {stored} storage units in service, which cannot be released in the format {file_format}; "
                "switch them off or replace them by generators and try again"
            )

    def with_storage(self, units: Sequence[Row]) -> Elements:
        """The same with storage units that were read otherwise."""
        other = copy(self)
        other._units = list(units)
        return other

    @property
    def storage_buses(self) -> list[int]:
        """Buses of the storage units in service."""
        return [row["bus"] for row in self._units if row["in_service"]]

    @property
    def notes(self) -> list[str]:
        """What is simplified."""
        return [STORAGE_NOTE] if any(row["in_service"] for row in self._units) else []

    def _check_line(self, number: int, row: Row) -> None:
        if self._format == PSSE:
            raise InputError(
                f"DC line {number}: PSS/E states what a two-terminal DC line is set to and no rating, and what it is set to "
                "may follow the demand; switch it off, state it as a VSC line with SMAX, or give its limits in a MATPOWER file "
                "(mpc.dcline)"
            )
        if self._format == PANDAPOWER and not np.isfinite(float(row["pmax"])):
            raise InputError(
                f"DC line {number}: the file states no maximum active power; add max_p_mw to the pandapower dcline table"
            )

    @property
    def dc_line_ends(self) -> list[int]:
        """Buses of the DC lines in service."""
        return [row[end] for row in self._lines if row["in_service"] for end in ("from", "to")]

    def dc_lines(self) -> DcLineTable:
        """Limits at the from end. MATPOWER states a negative limit for the to end, where power would enter."""
        rows = self._lines
        loss_0, loss_1 = floats(rows, "loss0"), floats(rows, "loss1")
        costs = [cost_curve(row["cost"]) for row in rows]
        p_min, p_max = floats(rows, "pmin"), floats(rows, "pmax")
        if self._format == PYPSA:
            costs = [CostCurve(polynomial=(slope, 0.0)) for slope in link_costs(self._path, len(rows))]
        else:
            p_min, p_max = (from_end(limit, loss_0, loss_1) for limit in (p_min, p_max))
        return DcLineTable(
            from_id=ints(rows, "from"),
            to_id=ints(rows, "to"),
            p_min=p_min,
            p_max=p_max,
            loss_0=loss_0,
            loss_1=loss_1,
            q_from_min=floats(rows, "qminf"),
            q_from_max=floats(rows, "qmaxf"),
            q_to_min=floats(rows, "qmint"),
            q_to_max=floats(rows, "qmaxt"),
            in_service=bools(rows, "in_service"),
            cost=tuple(costs),
        )

    def storage(self) -> StorageTable:
        """Charging and discharging power, neither above the rating of the converter."""
        rows = self._units
        rating = np.array([_rating(row["thermal_rating"]) for row in rows])
        return StorageTable(
            bus_id=ints(rows, "bus"),
            p_min=-np.minimum(floats(rows, "charge_rating"), rating),
            p_max=np.minimum(floats(rows, "discharge_rating"), rating),
            q_min=floats(rows, "qmin"),
            q_max=floats(rows, "qmax"),
            in_service=bools(rows, "in_service"),
        )


def rare_rows(network: powerio.BalancedNetwork, name: str) -> list[Row]:
    """Rows of a table that most networks lack: powerio goes over the whole network for it, so an empty one is not asked for."""
    return list(getattr(network, name)) if getattr(network, f"n_{name}") else []


def from_end(limit: Floats, loss_0: Floats, loss_1: Floats) -> Floats:
    """Turn limits as MATPOWER states them (a negative one for the power at the to end) into limits at the from end."""
    with np.errstate(divide="ignore", invalid="ignore"):  # a share of losses of one is refused later
        return np.where(limit < 0, (limit + loss_0) / (1 - loss_1), limit)


def stated_limit(limit: Floats, loss_0: Floats, loss_1: Floats) -> Floats:
    """The inverse of ``from_end``."""
    return np.where(limit < 0, (1 - loss_1) * limit - loss_0, limit)


def compensator_table(rows: Sequence[CompensatorRow], survivor: Mapping[int, int]) -> CompensatorTable:
    """Build the table; ``survivor`` names the bus that a merged bus became."""
    return CompensatorTable(
        bus_id=np.array([survivor.get(row.bus, row.bus) for row in rows], dtype=np.int64),
        b_min=np.array([row.b_min for row in rows], dtype=float),
        b_max=np.array([row.b_max for row in rows], dtype=float),
        in_service=np.array([row.in_service for row in rows], dtype=bool),
    )


def current_limits(branches: Sequence[Row], stated: Sequence[float], unit: float) -> Floats:
    """Limits on currents in MVA: those of the rows, in ``unit``, or those ``stated`` apart for the first branches."""
    current = unit * np.array([row.get("c_rating_a") or 0.0 for row in branches], dtype=float)
    current[: len(stated)] = stated
    return current


def current_unit(path: Path, file_format: str, network: powerio.BalancedNetwork) -> float:
    """Unit of c_rating_a in MVA: powerio passes it on as PowerModels JSON states it, unlike ratings."""
    if file_format != POWERMODELS or not any(row["c_rating_a"] for row in network.branches):
        return 1.0
    return float(network.base_mva) if json.loads(path.read_bytes()).get("per_unit") else 1.0


def cost_curve(cost: Row | None) -> CostCurve | None:
    """Convert powerio's cost, which may be absent."""
    if cost is None:
        return None
    values = [float(value) for value in cost["coeffs"]]
    if cost["model"] == POLYNOMIAL_COST:
        return CostCurve(polynomial=tuple(values))
    return CostCurve(points=tuple(zip(values[0::2], values[1::2], strict=False)))


def floats(rows: Iterable[Row], key: str) -> Floats:
    """Return a column of numbers; powerio spells infinity out."""
    return np.array([float(row[key]) for row in rows], dtype=float)


def ints(rows: Iterable[Row], key: str) -> Ints:
    """Return a column of whole numbers."""
    return np.array([row[key] for row in rows], dtype=np.int64)


def bools(rows: Iterable[Row], key: str) -> Bools:
    """Return a column of flags."""
    return np.array([row[key] for row in rows], dtype=bool)


def _rating(value: float | str | None) -> float:
    """A rating of 0 is none."""
    return float(value or np.inf)
