"""What the curator's report shows of a network before and after: the parts that power and gas have in common."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from gridveil.report.network_map import NetworkView
from gridveil.report.page import fixed, number

Floats = NDArray[np.float64]
Cell = str | float | None | tuple[float, str]

MOST_ROWS = 2000


@dataclass(frozen=True, eq=False, kw_only=True)
class Table:
    """A table of a page; ``note`` says what was left out."""

    id: str
    headings: Sequence[str]
    rows: list[list[Cell]]
    note: str = ""


@dataclass(frozen=True, eq=False, kw_only=True)
class Tab:
    """One tab: a figure with its caption, and the numbers behind it."""

    name: str
    figure: Markup
    caption: str
    table: Table


@dataclass(frozen=True, eq=False, kw_only=True)
class Sites:
    """Demands of all sites in MW + j MVAr, or in kg/s, with how a page calls each of them. Contains true demands."""

    names: Sequence[str]
    true: NDArray[Any]
    noisy: NDArray[Any]
    released: NDArray[Any]

    @property
    def change(self) -> NDArray[Any]:
        """Released less true."""
        return np.asarray(self.released - self.true)


@dataclass(frozen=True, eq=False, kw_only=True)
class BeforeAndAfter:
    """The network at the true and at the released demands."""

    facts: list[tuple[str, str]]
    tabs: list[Tab]
    view: NetworkView


def largest_first(table_id: str, columns: Mapping[str, Any], change: Floats) -> Table:
    """Give a table from arrays by heading, with the largest changes on top, and at most MOST_ROWS of them."""
    order = np.argsort(-np.nan_to_num(np.abs(change)), kind="stable")[:MOST_ROWS]
    cells = [_cells(column, order) for column in columns.values()]
    note = f"The {MOST_ROWS} largest changes of {len(change)}." if len(change) > MOST_ROWS else ""
    return Table(id=table_id, headings=list(columns), rows=[list(row) for row in zip(*cells, strict=True)], note=note)


def limits_words(low: float, high: float) -> str:
    """Write a range on one line."""
    return f"{number(low)} to {number(high)}".replace(" ", "\u00a0")


def _cells(column: Any, order: NDArray[np.int64]) -> list[Cell]:
    """Give texts as they are, and numbers with one decimal, or so many that the largest of the column has four digits."""
    if len(column) == 0 or isinstance(column[0], str):
        return [column[k] for k in order]
    values = np.asarray(column, dtype=float)
    largest = float(np.max(np.abs(values[np.isfinite(values)]), initial=0.0))
    decimals = max(1, 3 - math.floor(math.log10(largest))) if largest > 0 else 0
    return [(float(values[k]), fixed(float(values[k]), decimals)) if np.isfinite(values[k]) else None for k in order]
