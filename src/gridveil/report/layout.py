"""Layout of a network without coordinates: distances in the drawing approximate distances in the graph.

The stress Σ w (‖x_i − x_j‖ − d_ij)², w = 1/d_ij², is lowered by majorization (Gansner, Koren and North 2004), over all pairs
of a small network, and over near pairs and pivots of a large one (Ortmann, Klimenta and Brandes 2016). The result is the
same every time.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gridveil.report.drawn_graph import DrawnGraph

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ALL_PAIRS = 400  # nodes up to which every pair counts
PIVOTS = 60
ITERATIONS = 80
STEP = 0.8
POWER_ITERATIONS = 25
LEAST_DISTANCE = 0.55  # in edge lengths: nearer nodes are pushed apart
GAP = 1.5  # between islands, in edge lengths


def graph_layout(n: int, start: Ints, end: Ints) -> Floats:
    """Compute positions (n × 2) in units of about one edge length, in landscape format, islands side by side."""
    graph = DrawnGraph.of(n, start, end)
    members = graph.islands()
    return _pack(n, members, [island_layout(graph.among(nodes)) for nodes in members])


def fill_missing(position: Floats, start: Ints, end: Ints) -> Floats:
    """Put nodes without a position (NaN) at the mean of their neighbours, or at the mean of all where they have none."""
    known = np.asarray(np.isfinite(position).all(axis=1))
    filled = np.where(known[:, None], position, position[known].mean(axis=0))
    graph = DrawnGraph.of(len(position), start, end)
    degree = np.maximum(graph.degree, 1)[:, None]
    for _ in range(50):
        filled = np.where(known[:, None], position, _sums(graph.row, filled[graph.other], len(filled)) / degree)
    return filled


def spread(position: Floats, least: float, rounds: int = 30) -> Floats:
    """Push apart nodes that are nearer than ``least``, a little at a time; those on one spot leave it in a fixed direction."""
    position = np.array(position)
    angle = 2.399963 * np.arange(len(position))  # the golden angle: no two nodes leave in the same direction
    nudge = 1e-3 * least * np.column_stack([np.cos(angle), np.sin(angle)])
    for _ in range(rounds):
        i, j = _nearer_than(position, least)
        if not len(i):
            break
        gap = position[i] - position[j] + nudge[i] - nudge[j]
        length = np.linalg.norm(gap, axis=1)
        push = (0.5 * np.maximum(least - length, 0) / np.maximum(length, 1e-12))[:, None] * gap
        np.add.at(position, i, 0.5 * push)
        np.add.at(position, j, -0.5 * push)
    return position


def _nearer_than(position: Floats, least: float) -> tuple[Ints, Ints]:
    """All pairs of nodes that are no farther apart than ``least``, by a sweep from left to right."""
    order = np.argsort(position[:, 0], kind="stable")
    x, y = position[order].T
    last = np.searchsorted(x, x + least, side="right")  # nodes up to here are near enough from left to right
    count = last - np.arange(1, len(x) + 1)
    i = np.repeat(np.arange(len(x)), count)
    j = np.arange(len(i)) - np.repeat(np.cumsum(count) - count, count) + i + 1
    near = np.hypot(x[i] - x[j], y[i] - y[j]) <= least
    return order[i[near]], order[j[near]]


def island_layout(graph: DrawnGraph) -> Floats:
    """Positions (n × 2) of a connected graph."""
    n = len(graph)
    if n <= 2:
        return np.column_stack([np.arange(n, dtype=float), np.zeros(n)])
    length = _edge_lengths(graph)
    if n <= ALL_PAIRS:
        lowered = _lower_stress(np.arange(n), _all_distances(graph, length), ITERATIONS)
    else:
        from gridveil.report.large_layout import edge_matrix, far_pivots, near_pairs

        lengths = edge_matrix(graph, length)
        lowered = _lower_stress(*far_pivots(lengths, PIVOTS), ITERATIONS, near_pairs(lengths))
    return _lay_across(spread(lowered, LEAST_DISTANCE))


def rough_layout(graph: DrawnGraph, pivots: int, iterations: int) -> Floats:
    """Positions (n × 2) of a small connected graph, by distances to a few pivots alone: a tenth of the work."""
    n = len(graph)
    if n <= 2:
        return np.column_stack([np.arange(n, dtype=float), np.zeros(n)])
    return spread(_lower_stress(*_pivots(graph, min(n, pivots)), iterations), LEAST_DISTANCE)


def _edge_lengths(graph: DrawnGraph) -> Floats:
    """Lengthen edges at nodes with many neighbours to make room: √ of the number of neighbours that the ends do not share."""
    n, degree = len(graph), graph.degree
    known = graph.row * n + graph.other  # ascending
    # each neighbour of the second end, edge by edge: is it one of the first end as well?
    count = degree[graph.other]
    edge = np.repeat(np.arange(len(known)), count)
    third = graph.other[np.arange(len(edge)) + np.repeat(graph.first[graph.other] - (np.cumsum(count) - count), count)]
    asked = graph.row[edge] * n + third
    found = known[np.minimum(np.searchsorted(known, asked), len(known) - 1)] == asked
    shared = np.bincount(edge[found], minlength=len(known))
    apart = degree[graph.row] + degree[graph.other] - 2 * shared
    return np.asarray(np.sqrt(np.maximum(apart, 1) / 2))


def _all_distances(graph: DrawnGraph, length: Floats) -> Floats:
    """Distances of all pairs of a small graph (Floyd and Warshall)."""
    n = len(graph)
    distance = np.full((n, n), np.inf)
    distance[graph.row, graph.other] = length
    np.fill_diagonal(distance, 0.0)
    for via in range(n):
        np.minimum(distance, distance[:, via, None] + distance[None, via], out=distance)
    return distance


def _pivots(graph: DrawnGraph, count: int) -> tuple[Ints, Floats]:
    """Choose nodes far from each other, and return them with the hops of every node to each (n × count)."""
    if count >= len(graph):
        return np.arange(len(graph)), np.column_stack([graph.hops(node) for node in range(len(graph))])
    chosen = [int(np.argmax(graph.hops(0)))]
    columns = [graph.hops(chosen[0])]
    nearest = columns[0]
    while len(chosen) < count:
        chosen.append(int(np.argmax(nearest)))
        columns.append(graph.hops(chosen[-1]))
        nearest = np.minimum(nearest, columns[-1])
    return np.array(chosen), np.column_stack(columns)


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


def _lower_stress(
    pivots: Ints, distance: Floats, iterations: int, near: tuple[Ints, Ints, Floats] | None = None
) -> Floats:
    """Move every node to where its pivots and its near nodes want it, again and again.

    ``near``: pairs of near nodes in both directions, and their distances; none where every node is a pivot.
    """
    position, weight, n = _start(distance), _pivot_weights(distance), len(distance)
    row, other, length = near or (np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))
    near_weight = 1 / length**2
    total = (weight.sum(axis=1) + np.bincount(row, near_weight, n))[:, None]
    pull, near_pull = weight * distance, near_weight * length
    for _ in range(iterations):
        gap = position[:, None, :] - position[None, pivots, :]
        ratio = pull / np.maximum(np.sqrt(np.einsum("ijk,ijk->ij", gap, gap)), 1e-9)
        wanted = np.einsum("ij,jk->ik", weight, position[pivots]) + np.einsum("ij,ijk->ik", ratio, gap)
        if near is not None:
            near_gap = position[row] - position[other]
            tension = near_pull / np.maximum(np.sqrt(np.einsum("ij,ij->i", near_gap, near_gap)), 1e-9)
            wanted += _sums(row, near_weight[:, None] * position[other] + tension[:, None] * near_gap, n)
        position += STEP * (wanted / total - position)
    return position


def _sums(row: Ints, values: Floats, n: int) -> Floats:
    """Sums of the values (k × 2) of each row."""
    return np.column_stack([np.bincount(row, side, n) for side in values.T])


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
