"""Layout of a network without coordinates: distances in the drawing approximate distances in the graph.

The stress Σ w (‖x_i − x_j‖ − d_ij)², w = 1/d_ij², is lowered by majorization (Gansner, Koren and North 2004), over all pairs
of a small network, and over near pairs and pivots of a large one (Ortmann, Klimenta and Brandes 2016). The result is the
same every time.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components, dijkstra
from scipy.spatial import cKDTree

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ALL_PAIRS = 400  # nodes up to which every pair counts
PIVOTS = 60
NEAR_HOPS = 3
ROWS_AT_ONCE = 512  # keeps memory small
ITERATIONS = 80
STEP = 0.8
POWER_ITERATIONS = 25
LEAST_DISTANCE = 0.55  # in edge lengths: nearer nodes are pushed apart
GAP = 1.5  # between islands, in edge lengths


def graph_layout(n: int, start: Ints, end: Ints) -> Floats:
    """Compute positions (n × 2) in units of about one edge length, in landscape format, islands side by side."""
    adjacency = adjacency_of(n, start, end)
    count, island = connected_components(adjacency, directed=False)
    members = [np.flatnonzero(island == k) for k in range(count)]
    members.sort(key=lambda nodes: (-len(nodes), nodes[0]))
    return _pack(n, members, [island_layout(adjacency[nodes][:, nodes].tocsr()) for nodes in members])


def fill_missing(position: Floats, start: Ints, end: Ints) -> Floats:
    """Put nodes without a position (NaN) at the mean of their neighbours, or at the mean of all where they have none."""
    known = np.asarray(np.isfinite(position).all(axis=1))
    filled = np.where(known[:, None], position, position[known].mean(axis=0))
    adjacency = adjacency_of(len(position), start, end)
    degree = np.maximum(adjacency.sum(axis=1), 1)[:, None]
    for _ in range(50):
        filled = np.where(known[:, None], position, (adjacency @ filled) / degree)
    return filled


def spread(position: Floats, least: float, rounds: int = 30) -> Floats:
    """Push apart nodes that are nearer than ``least``, a little at a time; those on one spot leave it in a fixed direction."""
    position = np.array(position)
    angle = 2.399963 * np.arange(len(position))  # the golden angle: no two nodes leave in the same direction
    nudge = 1e-3 * least * np.column_stack([np.cos(angle), np.sin(angle)])
    for _ in range(rounds):
        pairs = cKDTree(position).query_pairs(least, output_type="ndarray")
        if not len(pairs):
            break
        i, j = pairs.T
        gap = position[i] - position[j] + nudge[i] - nudge[j]
        length = np.linalg.norm(gap, axis=1)
        push = (0.5 * np.maximum(least - length, 0) / np.maximum(length, 1e-12))[:, None] * gap
        np.add.at(position, i, 0.5 * push)
        np.add.at(position, j, -0.5 * push)
    return position


def adjacency_of(n: int, start: Ints, end: Ints) -> csr_array:
    """The graph as a symmetric matrix of ones, without loops."""
    ends = np.concatenate([start, end]), np.concatenate([end, start])
    graph = coo_array((np.ones(len(ends[0])), ends), shape=(n, n)).tocsr()
    graph.data[:] = 1.0
    graph.setdiag(0)
    graph.eliminate_zeros()
    return graph


def island_layout(adjacency: csr_array) -> Floats:
    """Positions (n × 2) of a connected graph."""
    n = adjacency.shape[0]
    if n <= 2:
        return np.column_stack([np.arange(n, dtype=float), np.zeros(n)])
    lengths = _edge_lengths(adjacency)
    pivots, distance = _pivots(lengths, n if n <= ALL_PAIRS else PIVOTS)
    near = _near(lengths) if len(pivots) < n else csr_array((n, n))
    return _lay_across(spread(_lower_stress(pivots, distance, near, ITERATIONS), LEAST_DISTANCE))


def rough_layout(adjacency: csr_array, pivots: int, iterations: int) -> Floats:
    """Positions (n × 2) of a small connected graph, by distances to a few pivots alone: a tenth of the work."""
    n = adjacency.shape[0]
    if n <= 2:
        return np.column_stack([np.arange(n, dtype=float), np.zeros(n)])
    chosen, distance = _pivots(adjacency, min(n, pivots))
    return spread(_lower_stress(chosen, distance, csr_array((n, n)), iterations), LEAST_DISTANCE)


def _edge_lengths(adjacency: csr_array) -> csr_array:
    """Lengthen edges at nodes with many neighbours to make room: √ of the number of neighbours that the ends do not share."""
    lengths = adjacency.tocoo()
    degree = adjacency.sum(axis=1)
    shared = np.asarray((adjacency @ adjacency).tocsr()[lengths.row, lengths.col]).ravel()
    apart = degree[lengths.row] + degree[lengths.col] - 2 * shared
    return csr_array((np.sqrt(np.maximum(apart, 1) / 2), (lengths.row, lengths.col)), shape=adjacency.shape)


def _pivots(lengths: csr_array, count: int) -> tuple[Ints, Floats]:
    """Choose nodes far from each other, and return them with the distance of every node to each (n × count)."""
    n = lengths.shape[0]
    if count >= n:
        return np.arange(n), np.asarray(dijkstra(lengths))
    chosen = [int(np.argmax(dijkstra(lengths, indices=0)))]
    columns = [dijkstra(lengths, indices=chosen[0])]
    nearest = columns[0]
    while len(chosen) < count:
        chosen.append(int(np.argmax(nearest)))
        columns.append(dijkstra(lengths, indices=chosen[-1]))
        nearest = np.minimum(nearest, columns[-1])
    return np.array(chosen), np.column_stack(columns)


def _near(lengths: csr_array) -> csr_array:
    """Compute the distances of all pairs up to NEAR_HOPS edges apart."""
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
    return csr_array((found, (pairs.row, pairs.col)), shape=lengths.shape)


def _start(distance: Floats) -> Floats:
    """Classical scaling on the pivots' columns (Brandes and Pich 2007), with a jitter that parts nodes of the same place."""
    squared = distance**2
    centred = -0.5 * (squared - squared.mean(axis=0) - squared.mean(axis=1, keepdims=True) + squared.mean())
    position = np.einsum("ij,jk->ik", centred, _main_axes(centred))
    size = np.sqrt(np.mean(position**2)) or 1.0
    typical = np.sqrt(np.mean((distance - distance.mean(axis=0)) ** 2)) or 1.0
    angle = 2.399963 * np.arange(len(distance))
    return np.asarray(position * typical / size + 0.1 * np.column_stack([np.cos(angle), np.sin(angle)]))


def _main_axes(centred: Floats) -> Floats:
    """Approximate the two principal directions (k × 2) of an n × k matrix by power iteration: enough for an initial layout.

    Sums instead of a linear algebra library: its threads would make a small network slow on a busy machine.
    """
    angle = 2.399963 * np.arange(centred.shape[1])
    axes = np.column_stack([np.cos(angle), np.sin(angle)])
    for _ in range(POWER_ITERATIONS):
        axes = np.einsum("ij,ik->jk", centred, np.einsum("ij,jk->ik", centred, axes))
        axes[:, 0] /= np.sqrt(np.sum(axes[:, 0] ** 2)) or 1.0
        axes[:, 1] -= np.sum(axes[:, 0] * axes[:, 1]) * axes[:, 0]
        axes[:, 1] /= np.sqrt(np.sum(axes[:, 1] ** 2)) or 1.0
    return axes


def _pivot_weights(distance: Floats) -> Floats:
    """A pivot stands for the nodes nearest to it, as far as these lie within half the distance."""
    region = np.argmin(distance, axis=1)
    stands_for = np.empty_like(distance)
    for column in range(distance.shape[1]):
        radii = np.sort(distance[region == column, column])
        stands_for[:, column] = np.searchsorted(radii, distance[:, column] / 2, side="right")
    return np.divide(np.maximum(stands_for, 1), distance**2, out=np.zeros_like(distance), where=distance > 0)


def _lower_stress(pivots: Ints, distance: Floats, near: csr_array, iterations: int) -> Floats:
    """Move every node to where its pivots and its near nodes want it, again and again."""
    position, weight = _start(distance), _pivot_weights(distance)
    row = np.repeat(np.arange(len(distance)), np.diff(near.indptr))
    near_weight = 1 / near.data**2
    total = (weight.sum(axis=1) + np.bincount(row, near_weight, len(distance)))[:, None]
    pull, near_pull = weight * distance, near_weight * near.data
    close = csr_array((near_weight, near.indices, near.indptr), shape=near.shape)
    for _ in range(iterations):
        gap = position[:, None, :] - position[None, pivots, :]
        ratio = pull / np.maximum(np.sqrt(np.einsum("ijk,ijk->ij", gap, gap)), 1e-9)
        wanted = np.einsum("ij,jk->ik", weight, position[pivots]) + np.einsum("ij,ijk->ik", ratio, gap)
        near_gap = position[row] - position[near.indices]
        near_ratio = near_pull / np.maximum(np.sqrt(np.einsum("ij,ij->i", near_gap, near_gap)), 1e-9)
        tension = csr_array((near_ratio, near.indices, near.indptr), shape=near.shape)
        wanted += close @ position + tension.sum(axis=1)[:, None] * position - tension @ position
        position += STEP * (wanted / total - position)
    return position


def _lay_across(position: Floats) -> Floats:
    """Turn the drawing so that its longest direction lies across, and fix which of the four ways round it is."""
    centred = position - position.mean(axis=0)
    _, axes = np.linalg.eigh(np.einsum("ij,ik->jk", centred, centred))
    turned = np.einsum("ij,jk->ik", centred, axes[:, ::-1])
    signs = np.where(np.sum(turned**3, axis=0) < 0, -1.0, 1.0)
    return np.asarray(turned * signs)


def _pack(n: int, members: list[Ints], drawings: list[Floats]) -> Floats:
    """Put islands on shelves from left to right, the largest first; the first one sets how wide a shelf is."""
    position = np.zeros((n, 2))
    width = max(float(np.ptp(drawings[0][:, 0])), 2 * np.sqrt(n))
    x = y = shelf = 0.0
    for nodes, drawing in zip(members, drawings, strict=True):
        size = np.ptp(drawing, axis=0)
        if x > 0 and x + size[0] > width:
            x, y, shelf = 0.0, y + shelf + GAP, 0.0
        position[nodes] = drawing - drawing.min(axis=0) + [x, y]
        x, shelf = x + float(size[0]) + GAP, max(shelf, float(size[1]))
    return position
