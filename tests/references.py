"""Published optima: PGLib's BASELINE.md and the table beside the NESTA files. Read where they are, never copied."""

from __future__ import annotations

import itertools
import re
from functools import cache

from conftest import data_folder
from gridveil.sectors.builtin import pglib_folder


@cache
def pglib_baseline() -> dict[str, tuple[int, float | None, float, float]]:
    """Case name → (buses, DC optimum or None, AC optimum, SOC gap in %)."""
    folder = pglib_folder()
    assert folder is not None
    rows = {}
    for line in (folder / "BASELINE.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("| \n").split("|")]
        if cells[0].startswith("pglib_opf_"):
            dc = float(cells[3]) if re.match(r"[\d.]+e", cells[3]) else None
            rows[cells[0].removeprefix("pglib_opf_")] = (int(cells[1]), dc, float(cells[4]), float(cells[6]))
    return rows


@cache
def nesta_optima() -> dict[str, float]:
    """NESTA network → AC optimum in $/h."""
    readme = data_folder() / "README.md"
    if not readme.exists():
        return {}
    cells = [
        cell.strip() for line in readme.read_text().splitlines() if line.startswith("|") for cell in line.split("|")
    ]
    pairs = itertools.pairwise(cells)
    return {f"case{name}": float(value) for name, value in pairs if re.match(r"\d+\w*_\w+$", name) and _number(value)}


def _number(text: str) -> bool:
    return re.fullmatch(r"[\d.]+", text) is not None
