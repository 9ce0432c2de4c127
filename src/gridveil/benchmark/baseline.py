"""Published optima: PGLib's BASELINE.md, read where it is installed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gridveil.sectors.builtin import PGLIB_PREFIX, pglib_folder


@dataclass(frozen=True, kw_only=True)
class Published:
    """Number of buses, and the AC optimum in $/h to five digits."""

    buses: int
    cost: float


@cache
def pglib_baseline() -> dict[str, Published]:
    """PGLib case (without prefix) → what is published about it; empty where PGLib is not installed."""
    folder = pglib_folder()
    if folder is None:
        return {}
    found = {}
    for line in (folder / "BASELINE.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("| \n").split("|")]
        if cells[0].startswith(PGLIB_PREFIX) and re.fullmatch(r"[\d.]+e[+-]?\d+", cells[4]):
            found[cells[0].removeprefix(PGLIB_PREFIX)] = Published(buses=int(cells[1]), cost=float(cells[4]))
    return found


def published_cost(path: Path) -> float | None:
    """The published optimum of a file of PGLib's, or None for any other file."""
    folder = pglib_folder()
    if folder is None or folder not in path.parents:
        return None
    published = pglib_baseline().get(path.stem.removeprefix(PGLIB_PREFIX))
    return published.cost if published else None
