"""Plain data that a sector provides for reports and notebooks; independent of plotting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

Frames = dict[str, "pd.DataFrame"]


@dataclass(frozen=True, kw_only=True)
class ValuePart:
    """The real or imaginary part of a value, in physical units."""

    name: str
    """In words: ``active power``."""
    symbol: str
    """One letter: ``P``."""
    unit: str
    column: str
    """Name of its column in frames, with the unit: ``p_mw``."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Graph:
    """Nodes in file order, both ends of the edges in use, the nodes that are supplied, and the node of each participant."""

    n: int
    start: Ints
    end: Ints
    supplied: Ints
    place: Ints


@dataclass(frozen=True, eq=False, kw_only=True)
class Sites:
    """Values of all participants in physical units, with how a page calls each of them. Contains true values."""

    names: Sequence[str]
    true: NDArray[Any]
    noisy: NDArray[Any]
    released: NDArray[Any]

    @property
    def change(self) -> NDArray[Any]:
        """Released less true."""
        return np.asarray(self.released - self.true)


@dataclass(frozen=True, eq=False, kw_only=True)
class BarsBeforeAndAfter:
    """A figure with one line per item from before to after, over its range of limits (NaN: none)."""

    title: str
    labels: Sequence[str]
    before: Floats
    after: Floats
    limits: tuple[Floats, Floats]
    axis: str


@dataclass(frozen=True, eq=False, kw_only=True)
class SortedValues:
    """A figure with two curves, before and after: the values from the largest to the smallest."""

    title: str
    before: Floats
    after: Floats
    axis: str
    limit: float | None = None


Figure = BarsBeforeAndAfter | SortedValues


@dataclass(frozen=True, eq=False, kw_only=True)
class ChangeTable:
    """Columns (texts or numbers) by heading, and the change by which rows are ordered."""

    id: str
    columns: Mapping[str, Any]
    change: Floats


@dataclass(frozen=True, eq=False, kw_only=True)
class Tab:
    """One family of quantities before and after: a figure with its caption, and the numbers behind it."""

    name: str
    figure: Figure
    caption: str
    table: ChangeTable


@dataclass(frozen=True, eq=False, kw_only=True)
class Changes:
    """A change of every node or edge (NaN: none) that the drawing shows in colour."""

    name: str
    unit: str
    of_edges: bool
    values: Floats
    adds_up: bool = False
    """Whether the sum over an area means something, as for demands; otherwise an area has their mean."""


@dataclass(frozen=True, eq=False, kw_only=True)
class NetworkView:
    """What is drawn: nodes with ids, sizes (any unit, 0 for nothing there) and details, edges, and what they are coloured by."""

    ids: Sequence[str]
    weight: Floats
    supplied: Bools
    """Nodes where something is fed in; drawn with a ring."""
    start: Ints
    end: Ints
    marked: Bools
    """Edges drawn as stations."""
    marked_words: str
    """What these stations are, in the plural; empty where the sector has none."""
    edge_titles: Sequence[str]
    details: Sequence[Sequence[tuple[str, str]]]
    """What the side box says of each node."""
    changes: Sequence[Changes]
    """The first one must be of nodes: it is what the drawing shows at first."""


@dataclass(frozen=True, eq=False, kw_only=True)
class BeforeAndAfter:
    """The network at the true and at the released values."""

    facts: Sequence[tuple[str, str]]
    tabs: Sequence[Tab]
    view: NetworkView


def value_columns(parts: Sequence[ValuePart], values: NDArray[Any], base: float) -> dict[str, Floats]:
    """Convert values (per unit) to physical units, keyed by the parts' column names."""
    return {part.column: base * half for part, half in zip(parts, (values.real, values.imag), strict=False)}
