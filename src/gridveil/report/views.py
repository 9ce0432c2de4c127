"""Tabs and tables of the curator's report, built from a sector's comparison of a network before and after."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from gridveil.core.text import fixed
from gridveil.report.charts import before_and_after
from gridveil.sectors.view import ChangeTable, Tab

CellValue = str | float | None | tuple[float, str]

MOST_ROWS = 500


@dataclass(frozen=True, eq=False, kw_only=True)
class PageTable:
    """A table of a page; ``note`` says what was left out."""

    id: str
    headings: Sequence[str]
    rows: list[list[CellValue]]
    note: str = ""


@dataclass(frozen=True, eq=False, kw_only=True)
class DrawnTab:
    """One tab of a page: a figure with its caption, and the numbers behind it."""

    name: str
    figure: Markup
    caption: str
    table: PageTable


def draw_tab(tab: Tab) -> DrawnTab:
    """Draw the figure of a tab, and set its table."""
    return DrawnTab(
        name=tab.name, figure=before_and_after(tab.figure), caption=tab.caption, table=largest_first(tab.table)
    )


def largest_first(table: ChangeTable) -> PageTable:
    """Set a table with the largest changes on top, and at most MOST_ROWS of them."""
    columns, change = table.columns, table.change
    order = np.argsort(-np.nan_to_num(np.abs(change)), kind="stable")[:MOST_ROWS]
    cells = [_cells(column, order) for column in columns.values()]
    note = f"The {MOST_ROWS} largest changes of {len(change)}." if len(change) > MOST_ROWS else ""
    return PageTable(
        id=table.id, headings=list(columns), rows=[list(row) for row in zip(*cells, strict=True)], note=note
    )


def _cells(column: Any, order: NDArray[np.int64]) -> list[CellValue]:
    """Keep texts as they are, and write numbers with one decimal, or so many that the largest of the column has four digits."""
    if len(column) == 0 or isinstance(column[0], str):
        return [column[k] for k in order]
    values = np.asarray(column, dtype=float)
    largest = float(np.max(np.abs(values[np.isfinite(values)]), initial=0.0))
    decimals = max(1, 3 - math.floor(math.log10(largest))) if largest > 0 else 0
    return [(float(values[k]), fixed(float(values[k]), decimals)) if np.isfinite(values[k]) else None for k in order]
