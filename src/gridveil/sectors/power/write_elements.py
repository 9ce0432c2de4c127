"""Rows of DC lines, storage and costs for powerio's writers, and the tables that those leave out."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gridveil.sectors.power.matpower_tables import COLUMN_MARK, COMPENSATORS, CURRENTS
from gridveil.sectors.power.read_elements import stated_limit
from gridveil.sectors.power.tables import (
    BranchTable,
    CompensatorTable,
    CostCurve,
    DcLineTable,
    GeneratorTable,
    StorageTable,
)

DIGITS = 12  # significant digits written, so that a change of unit and back leaves no trace

Row = dict[str, Any]


def number(value: float) -> float | str:
    """Round away the noise of unit conversions; the document spells infinity out, as JSON has none."""
    if np.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return float(f"{value:.{DIGITS}g}")


def cost_row(curve: CostCurve | None) -> Row | None:
    """Convert a cost to powerio's."""
    if curve is None:
        return None
    values = [v for point in curve.points for v in point] if curve.points else list(curve.polynomial)
    return {
        "model": 1 if curve.points else 2,
        "startup": 0.0,
        "shutdown": 0.0,
        "ncost": len(curve.points) or len(curve.polynomial),
        "coeffs": [number(value) for value in values],
    }


def dc_line_rows(line: DcLineTable) -> list[Row]:
    """Convert DC lines; what they carry is a result, so it gets a neutral value within the limits."""
    p_min = stated_limit(line.p_min, line.loss_0, line.loss_1)
    p_max = stated_limit(line.p_max, line.loss_0, line.loss_1)
    priced = any(_costs_something(curve) for curve in line.cost)
    return [
        {
            "from": int(line.from_id[i]),
            "to": int(line.to_id[i]),
            "in_service": bool(line.in_service[i]),
            "pf": 0.0,
            "pt": 0.0,
            "qf": 0.0,
            "qt": 0.0,
            "vf": 1.0,
            "vt": 1.0,
            "pmin": number(p_min[i]),
            "pmax": number(p_max[i]),
            "qminf": number(line.q_from_min[i]),
            "qmaxf": number(line.q_from_max[i]),
            "qmint": number(line.q_to_min[i]),
            "qmaxt": number(line.q_to_max[i]),
            "loss0": number(line.loss_0[i]),
            "loss1": number(line.loss_1[i]),
            "cost": cost_row(line.cost[i]) if priced else None,
            "uid": f"dcline-{i + 1}",
            "extras": {},
        }
        for i in range(len(line.from_id))
    ]


def storage_rows(unit: StorageTable) -> list[Row]:
    """Convert storage units: their power limits; neutral values for energy, efficiency and losses."""
    return [
        {
            "bus": int(unit.bus_id[i]),
            "ps": 0.0,
            "qs": 0.0,
            "energy": 0.0,
            "energy_rating": 0.0,
            "charge_rating": number(-unit.p_min[i]),
            "discharge_rating": number(unit.p_max[i]),
            "charge_efficiency": 1.0,
            "discharge_efficiency": 1.0,
            "thermal_rating": number(max(-unit.p_min[i], unit.p_max[i])),
            "current_rating": None,
            "qmin": number(unit.q_min[i]),
            "qmax": number(unit.q_max[i]),
            "r": 0.0,
            "x": 0.0,
            "p_loss": 0.0,
            "q_loss": 0.0,
            "in_service": bool(unit.in_service[i]),
            "uid": f"storage-{i + 1}",
            "extras": {},
        }
        for i in range(len(unit.bus_id))
    ]


def with_matpower_tables(
    text: str, branch: BranchTable, generator: GeneratorTable, compensator: CompensatorTable
) -> str:
    """Add what powerio leaves out of a MATPOWER file: reactive costs, limits on currents, compensators."""
    if any(_costs_something(curve) for curve in generator.reactive_cost):
        text = _with_reactive_costs(text, generator.reactive_cost)
    if np.any(branch.current != 0):
        text += _extension(CURRENTS, ("c_rating_a",), [[number(value)] for value in branch.current])
    if len(compensator.bus_id):
        rows = zip(compensator.bus_id, compensator.b_min, compensator.b_max, compensator.in_service, strict=True)
        written = [[int(bus), number(low), number(high), int(on)] for bus, low, high, on in rows]
        text += _extension(COMPENSATORS, ("bus", "b_min", "b_max", "status"), written)
    return text


def _with_reactive_costs(text: str, curves: Sequence[CostCurve | None]) -> str:
    """Put a second half below the rows of gencost; all rows of a table are of one length."""
    table = re.search(r"mpc\.gencost = \[\n(.*?)\];", text, re.DOTALL)
    if table is None:
        raise ValueError("a MATPOWER file without generator costs was written")
    rows = [line.strip(" \t;").split() for line in table.group(1).splitlines() if line.strip()]
    for curve in curves:
        cost = cost_row(curve) or {"model": 2, "ncost": 1, "coeffs": [0.0]}
        rows.append([str(value) for value in (cost["model"], 0, 0, cost["ncost"], *cost["coeffs"])])
    width = max(len(row) for row in rows)
    body = "".join("\t" + "\t".join([*row, *["0"] * (width - len(row))]) + ";\n" for row in rows)
    return text[: table.start(1)] + body + text[table.end(1) :]


def _extension(name: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    body = "".join("\t" + "\t".join(str(value) for value in row) + ";\n" for row in rows)
    return f"\n{COLUMN_MARK}\t" + "\t".join(columns) + f"\nmpc.{name} = [\n{body}];\n"


def write_links(path: Path, line: DcLineTable) -> None:
    """Write PyPSA's table of links, if there are any; a link out of service has no capacity."""
    if len(line.from_id) == 0:
        return
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["name", "bus0", "bus1", "p_nom", "efficiency", "p_min_pu", "p_max_pu", "marginal_cost"])
        for i in range(len(line.from_id)):
            rating = max(abs(line.p_min[i]), abs(line.p_max[i])) if line.in_service[i] else 0.0
            shares = (line.p_min[i] / rating, line.p_max[i] / rating) if rating else (0.0, 0.0)
            curve = line.cost[i]
            slope = curve.polynomial[-2] if curve is not None and len(curve.polynomial) > 1 else 0.0
            values = (rating, 1 - line.loss_1[i], *shares, slope)
            ends = (int(line.from_id[i]), int(line.to_id[i]))
            writer.writerow([f"link-{i + 1}", *ends, *(number(value) for value in values)])


def _costs_something(curve: CostCurve | None) -> bool:
    return curve is not None and bool(curve.points or any(curve.polynomial))
