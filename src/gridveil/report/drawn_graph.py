"""The graph of a drawing: who is whose neighbour. In NumPy alone, as scipy takes longer to import than a small network to draw."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class DrawnGraph:
    """Neighbours of node i are ``other[first[i]:first[i + 1]]``, each once, in order, and never i itself."""

    first: Ints
    """(n + 1,)"""
    other: Ints

    @staticmethod
    def of(n: int, start: Ints, end: Ints) -> DrawnGraph:
        """The graph of these edges, in both directions."""
        pairs = np.unique(np.concatenate([start * n + end, end * n + start]).astype(np.int64))
        row, other = np.divmod(pairs, max(n, 1))
        apart = row != other
        return DrawnGraph(np.searchsorted(row[apart], np.arange(n + 1)), other[apart])

    def __len__(self) -> int:
        return len(self.first) - 1

    @cached_property
    def row(self) -> Ints:
        """The node to which each entry of ``other`` is a neighbour."""
        return np.repeat(np.arange(len(self)), self.degree)

    @property
    def degree(self) -> Ints:
        """How many neighbours each node has."""
        return np.diff(self.first)

    def among(self, nodes: Ints) -> DrawnGraph:
        """The graph of some nodes, in ascending order, and the edges between them."""
        place = np.full(len(self), -1)
        place[nodes] = np.arange(len(nodes))
        row, other = place[self.row], place[self.other]
        inside = (row >= 0) & (other >= 0)
        return DrawnGraph(np.searchsorted(row[inside], np.arange(len(nodes) + 1)), other[inside])

    def islands(self) -> list[Ints]:
        """Nodes that are connected with each other, the largest island first."""
        label = np.arange(len(self))
        while True:
            lowest = label.copy()
            np.minimum.at(lowest, self.row, label[self.other])
            lowest = lowest[lowest]  # a label's own label is as low as its island is known to be
            if np.array_equal(lowest, label):
                break
            label = lowest
        members = [np.flatnonzero(label == k) for k in np.unique(label)]
        return sorted(members, key=lambda nodes: (-len(nodes), nodes[0]))

    def hops(self, *sources: int) -> Floats:
        """How many edges each node is away from the nearest of the sources; infinity where no way leads."""
        return self.walk(np.array(sources))[0]

    def walk(self, sources: Ints) -> tuple[Floats, Ints, Ints]:
        """The same, with the place of the nearest source in the list and the node before on the way, −1 where there is none."""
        from gridveil.programs.graph_walk import walk  # compiled code, which small drawings do without

        distance, nearest, before = walk(self.first, self.other, sources)
        return np.where(distance < 0, np.inf, distance), nearest, before
