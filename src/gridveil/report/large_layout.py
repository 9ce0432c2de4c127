"""Distances in a graph of more nodes than all pairs are looked at: to a few pivots, and between near nodes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from gridveil.report.drawn_graph import DrawnGraph

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NEAR_HOPS = 3
ROWS_AT_ONCE = 512  # keeps memory small


def edge_matrix(graph: DrawnGraph, length: Floats) -> csr_array:
    """Lengths of edges as a matrix."""
    return csr_array((length, graph.other, graph.first), shape=(len(graph), len(graph)))


def far_pivots(lengths: csr_array, count: int) -> tuple[Ints, Floats]:
    """Choose nodes far from each other, and return them with the distance of every node to each (n × count)."""
    chosen = [int(np.argmax(dijkstra(lengths, indices=0)))]
    columns = [dijkstra(lengths, indices=chosen[0])]
    nearest = columns[0]
    while len(chosen) < count:
        chosen.append(int(np.argmax(nearest)))
        columns.append(dijkstra(lengths, indices=chosen[-1]))
        nearest = np.minimum(nearest, columns[-1])
    return np.array(chosen), np.column_stack(columns)


def near_pairs(lengths: csr_array) -> tuple[Ints, Ints, Floats]:
    """All pairs up to NEAR_HOPS edges apart: both nodes, and their distance."""
    reached, frontier = lengths.copy(), lengths
    step = (lengths > 0).astype(float)
    for _ in range(NEAR_HOPS - 1):
        frontier = ((frontier > 0).astype(float) @ step).tocsr()
        reached = (reached + frontier - frontier.multiply(reached > 0)).tocsr()
    reached.setdiag(0)
    reached.eliminate_zeros()
    pairs, longest = reached.tocoo(), NEAR_HOPS * float(lengths.max())
    found = np.empty(len(pairs.row))
    for first in range(0, lengths.shape[0], ROWS_AT_ONCE):
        rows = np.arange(first, min(first + ROWS_AT_ONCE, lengths.shape[0]))
        here = (pairs.row >= first) & (pairs.row <= rows[-1])
        found[here] = dijkstra(lengths, indices=rows, limit=longest)[pairs.row[here] - first, pairs.col[here]]
    return pairs.row.astype(np.int64), pairs.col.astype(np.int64), found
