"""Tables I–VI from the outcomes of a study: each cell with its standard error, the paper's number and a verdict."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gridveil.core.errors import InputError
from gridveil.study.paper_numbers import EPSILON, PublishedNumber, published_networks, published_number
from gridveil.study.tables_compare import Verdict, compare
from gridveil.study.tables_layout import COSTS, LAYOUTS, Layout, Quantity, Values

if TYPE_CHECKING:
    from pandas import DataFrame

PAPER_SETTING = {"alpha": 0.1, "beta": 0.01}  # what the paper keeps fixed while the other one varies
SYMBOLS = {"alpha": "α", "beta": "β", "epsilon": "ε"}
ROUNDING = 1e-9  # relative; a cost this near outside the band is on its edge


@dataclass(frozen=True, kw_only=True)
class Cell:
    """Our runs of one network and setting, and the paper's mean; ``n`` numbers of ``runs`` runs are averaged."""

    mean: float
    standard_error: float
    n: int
    runs: int
    failures: int
    violations: int | None
    """Runs whose cost lies outside the band; None where the table is not about cost."""
    violates: bool
    """Whether the mean lies outside the band: bold, as in the paper."""
    published: PublishedNumber | None
    verdict: Verdict
    standard_errors: float
    """How far our mean lies above the paper's, in standard errors of both; NaN where nothing was compared."""


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column: a quantity at one value of α or β."""

    quantity: Quantity
    value: float
    setting: str
    """As printed: ``α = 0.1`` or ``β = 1 %``."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """One table; ``cells[i][j]`` is None where the store has no run of row i and column j."""

    layout: Layout
    method: str
    fixed: str
    rows: tuple[str, ...]
    columns: tuple[Column, ...]
    cells: tuple[tuple[Cell | None, ...], ...]
    missing_networks: tuple[str, ...]
    """Networks of the paper's table of which the store has no run; empty where it has none of them."""

    @property
    def title(self) -> str:
        """Title of the table."""
        return f"Table {self.layout.number}, {self.layout.kind}: {self.layout.subject} ({self.fixed}, {self.method})"

    @property
    def filled(self) -> list[tuple[str, Column, Cell]]:
        """Every cell that has runs, row by row."""
        return [
            (row, column, cell)
            for row, cells in zip(self.rows, self.cells, strict=True)
            for column, cell in zip(self.columns, cells, strict=True)
            if cell is not None
        ]

    @property
    def verdicts(self) -> Counter[Verdict]:
        """Number of cells per verdict."""
        return Counter(cell.verdict for _, _, cell in self.filled)


def available_methods(frame: DataFrame) -> list[str]:
    """List the methods in a store, the paper's first."""
    return sorted(frame["method"].unique(), key=lambda method: (method != "bisection", method))


def build_tables(
    frame: DataFrame,
    numbers: Sequence[str] = tuple(LAYOUTS),
    method: str | None = None,
    *,
    not_in_paper: Collection[str] = (),
) -> list[Table]:
    """Build the tables that the store has runs for, in the order requested; by default for the paper's method, if present.

    ``not_in_paper`` are networks that share a name with one of the paper's, but are not it: they are not compared.
    """
    if unknown := [number for number in numbers if number not in LAYOUTS]:
        raise InputError(f"there is no table {unknown[0]}; choose from {', '.join(LAYOUTS)} or all")
    methods = available_methods(frame)
    method = method or methods[0]
    if method not in methods:
        raise InputError(f"the store has no run of method {method}; it has {', '.join(methods)}")
    of_method = frame[frame["method"] == method]
    tables = [
        build_table(of_method[of_method["kind"] == layout.kind], layout, method, not_in_paper)
        for layout in map(LAYOUTS.__getitem__, numbers)
        if layout.kind in set(of_method["kind"])
    ]
    return tables


def build_table(frame: DataFrame, layout: Layout, method: str, not_in_paper: Collection[str] = ()) -> Table:
    """Fill one table from the outcomes (one or more) of one kind of network and one method."""
    fixed = "alpha" if layout.varies == "beta" else "beta"
    value = _fixed_value(frame, fixed, layout.varies)
    frame = frame[frame[fixed] == value]
    keys = _row_keys(frame, layout)
    settings = sorted(frame[layout.varies].unique(), reverse=layout.varies == "beta")
    columns = tuple(
        Column(quantity=quantity, value=float(setting), setting=setting_text(layout.varies, float(setting)))
        for quantity in layout.quantities
        for setting in settings
    )
    groups = dict(list(frame.groupby(["network", "epsilon", "solver", layout.varies])))
    as_paper = {key for key in keys if key.network not in not_in_paper and _same(key.epsilon, EPSILON)}
    if not _same(value, PAPER_SETTING[fixed]):
        as_paper = set()

    def cell(key: RowKey, column: Column) -> Cell | None:
        runs = groups.get((*key, column.value))
        return (
            None if runs is None else _cell(runs, column, _published(layout, key, column) if key in as_paper else None)
        )

    papers, ours = published_networks(layout.number), {key.network for key in as_paper}
    return Table(
        layout=layout,
        method=method,
        fixed=setting_text(fixed, value),
        rows=_row_labels(keys),
        columns=columns,
        cells=tuple(tuple(cell(key, column) for column in columns) for key in keys),
        missing_networks=tuple(name for name in papers if name not in ours) if ours & set(papers) else (),
    )


def setting_text(name: str, value: float) -> str:
    """Format a setting: ``α = 0.1``, ``β = 1 %``."""
    return f"{SYMBOLS[name]} = {100 * value:g} %" if name == "beta" else f"{SYMBOLS[name]} = {value:g}"


def count_violations(frame: DataFrame) -> dict[str, tuple[int, int]]:
    """Over all runs at every α and β: method → (runs whose cost lies outside the band, runs that have a cost)."""
    band = 100 * frame["beta"].to_numpy(dtype=float)
    values = {quantity.method: quantity.values(frame) for quantity in COSTS}
    return {
        method: (int(_outside(costs, band).sum()), int(np.isfinite(costs).sum())) for method, costs in values.items()
    }


def _same(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=ROUNDING)


def _fixed_value(frame: DataFrame, fixed: str, varies: str) -> float:
    """The paper's value if the store has it; else the one with the most values of the other setting, or the smallest."""
    found = frame.groupby(fixed)[varies].nunique()
    papers = [float(value) for value in found.index if _same(value, PAPER_SETTING[fixed])]
    return papers[0] if papers else float(found.idxmax())


class RowKey(NamedTuple):
    """Key of runs that may be averaged together."""

    network: str
    epsilon: float
    solver: str


def _row_keys(frame: DataFrame, layout: Layout) -> list[RowKey]:
    """The paper's networks in its order, then others by size."""
    order = {name: place for place, name in enumerate(published_networks(layout.number))}
    sizes = frame.groupby("network")["buses"].max()
    found = frame[["network", "epsilon", "solver"]].drop_duplicates().itertuples(index=False, name=None)
    return sorted(
        (RowKey(*key) for key in found),
        key=lambda key: (order.get(key.network, len(order)), float(sizes[key.network]), key),
    )


def _row_labels(keys: list[RowKey]) -> tuple[str, ...]:
    epsilons, solvers = {key.epsilon for key in keys}, {key.solver for key in keys}
    return tuple(
        key.network
        + (f", ε = {key.epsilon:g}" if len(epsilons) > 1 else "")
        + (f", {key.solver}" if len(solvers) > 1 else "")
        for key in keys
    )


def _cell(frame: DataFrame, column: Column, published: PublishedNumber | None) -> Cell:
    quantity = column.quantity
    every, failed = quantity.values(frame), quantity.failed(frame)
    values = every[np.isfinite(every)]
    about_cost = quantity.name == "cost_difference"
    band = 100 * column.value if about_cost else math.inf
    mean = float(values.mean()) if len(values) else math.nan
    comparison = compare(every, failed, published, goal=quantity.goal, spread=quantity.spread, band=band)
    return Cell(
        mean=mean,
        standard_error=float(values.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else math.nan,
        n=len(values),
        runs=len(frame),
        failures=int(failed.sum()),
        violations=int(_outside(values, band).sum()) if about_cost else None,
        violates=bool(_outside(np.array([mean]), band)[0]),
        published=published,
        verdict=comparison.verdict,
        standard_errors=comparison.standard_errors,
    )


def _published(layout: Layout, key: RowKey, column: Column) -> PublishedNumber | None:
    quantity, setting = column.quantity, f"{layout.varies}={column.value:g}"
    return published_number(layout.number, key.network, quantity.method, setting, quantity.name)


def _outside(differences: Values, band: float | Values) -> np.ndarray:
    return np.abs(differences) > np.asarray(band) * (1 + ROUNDING)
