"""A solved case in MATPOWER's format: the network with its loads and the operating point in the columns of set-points.

It holds the loads that were solved, so it is as secret as they are.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gridveil.core.choices import Formulation
from gridveil.sectors.power.export import public_tables
from gridveil.sectors.power.frames import power_solution_frames
from gridveil.sectors.power.network import PowerNetwork
from gridveil.sectors.power.write import FALLBACK_FORMAT, write_power_network

# Columns of MATPOWER's tables, from 0.
VM, VA = 7, 8
PG, QG, VG = 1, 2, 5

Column = tuple[NDArray[np.int64], NDArray[np.float64]]
"""Rows of a table, from 0, and their values."""


def write_solved_case(
    network: PowerNetwork,
    loads: NDArray[np.complex128],
    formulation: Formulation,
    x: NDArray[np.float64],
    path: Path,
    *,
    title: str,
) -> None:
    """Write the network with these loads (per unit) and the operating point x; ``title`` becomes the function's name."""
    frames = power_solution_frames(network, formulation, x)
    bus, unit = frames["buses"], frames["generators"]
    rows, angle = bus.index.to_numpy(), bus["angle_deg"].to_numpy()
    voltage = bus["voltage_pu"].to_numpy() if "voltage_pu" in bus else np.ones(len(rows))
    at = {int(row): float(value) for row, value in zip(rows, voltage, strict=True)}
    units, power = unit.index.to_numpy(), unit["p_mw"].to_numpy()
    reactive = unit["q_mvar"].to_numpy() if "q_mvar" in unit else np.zeros(len(units))
    held = np.array([at[int(place)] for place in network.generator.bus[units]])
    with tempfile.TemporaryDirectory() as folder:
        written = write_power_network(public_tables(network, loads), Path(folder), FALLBACK_FORMAT, title=title)
        text = written.read_text()
    text = _filled(text, "bus", {VM: (rows, voltage), VA: (rows, angle)})
    text = _filled(text, "gen", {PG: (units, power), QG: (units, reactive), VG: (units, held)})
    path.write_text(text)


def _filled(text: str, table: str, columns: Mapping[int, Column]) -> str:
    """Put values into a table of a MATPOWER file, row by row as the writer left them."""
    found = re.search(rf"(mpc\.{table} = \[\n)(.*?)(\n\];)", text, re.DOTALL)
    if found is None:
        raise ValueError(f"the written file has no table mpc.{table}")
    lines = [line.rstrip(";").split("\t") for line in found[2].splitlines()]
    for column, (rows, values) in columns.items():
        for row, value in zip(rows.tolist(), values.tolist(), strict=True):
            lines[row][column + 1] = f"{value:.12g}"  # a line begins with a tab
    body = "\n".join("\t".join(line) + ";" for line in lines)
    return text[: found.start(2)] + body + text[found.end(2) :]
