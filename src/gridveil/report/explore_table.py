"""An exploration as rows for a table, and as plain values for JSON."""

from __future__ import annotations

from dataclasses import asdict

from gridveil.core.band import Tolerance
from gridveil.core.text import THIN_SPACE, number, percent
from gridveil.study.explore import Exploration, Spread

HEADINGS = ("α", "ε", "β", "posterior", "verified", "noisy", "released", "cost error", "solves", "seconds")

CellValue = float | str | tuple[float, str] | None


def table_rows(exploration: Exploration) -> list[list[CellValue]]:
    """Build one row per setting; pairs are (sort key, text), distances and errors are means over runs."""
    return [
        [
            row.alpha,
            row.epsilon,
            (Tolerance.parse(row.beta).amount, row.beta),
            (row.posterior, percent(row.posterior)),
            (row.verified / row.runs, f"{row.verified} of {row.runs}"),
            _percent(row.distance_noisy),
            _percent(row.distance_released),
            _percent(row.cost_error),
            (row.optimisations, number(row.optimisations, 2)),
            (row.seconds, number(row.seconds, 2)),
        ]
        for row in exploration.rows
    ]


def text_rows(exploration: Exploration) -> list[list[str]]:
    """Return the same rows as text."""
    return [[_text(cell) for cell in row] for row in table_rows(exploration)]


def plain_exploration(exploration: Exploration) -> dict[str, object]:
    """Convert an exploration to the plain values that ``explore --json`` prints."""
    return asdict(exploration) | {"source": exploration.source.value, "rows": [asdict(row) for row in exploration.rows]}


def _percent(value: Spread | None) -> CellValue:
    return None if value is None else (value.mean, percent(value.mean))


def _text(cell: CellValue) -> str:
    if isinstance(cell, tuple):
        return cell[1].replace(THIN_SPACE, "")
    return "–" if cell is None else cell if isinstance(cell, str) else f"{cell:g}"
