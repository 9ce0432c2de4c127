"""Areas of a large network: groups of connected nodes, drawn as discs that open into their nodes.

A drawing of thousands of nodes is black wherever it is interesting. So the graph is cut into about √n areas (nodes nearest
to one of as many centres), the areas are laid out as a small graph of their own, and every area's nodes inside its disc.
The result is the same every time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from gridveil.report.drawn_graph import DrawnGraph
from gridveil.report.layout import graph_layout, rough_layout

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FEWEST, MOST = 20, 110  # areas
SPACING = 0.8  # radius of a disc over √(its nodes): room for a node each
GAP = 2.0  # between discs, in the same unit
ROUNDS = 300  # of pushing discs apart
LARGEST = 2.5  # nodes of an area over the mean: larger ones are halved
FILL = 0.86  # of a disc's radius that its nodes may use
PIVOTS_INSIDE, STEPS_INSIDE = 24, 12  # of the layout within a disc: a rough one is enough


@dataclass(frozen=True, eq=False, kw_only=True)
class Areas:
    """The area of each node (n,), positions of nodes (n × 2), and centre (k × 2) and radius (k,) of each area's disc."""

    member: Ints
    position: Floats
    centre: Floats
    radius: Floats

    def __len__(self) -> int:
        return len(self.radius)


def find_areas(n: int, start: Ints, end: Ints, position: Floats | None = None) -> Areas:
    """Cut a network into areas and lay it out; with ``position`` (n × 2), nodes stay there and discs stand at their means."""
    if position is None:
        return _laid_out(n, start.astype(np.int64).tobytes(), end.astype(np.int64).tobytes())
    graph = DrawnGraph.of(n, start, end)
    member, radius = _parted(graph)
    centre = np.column_stack([np.bincount(member, side) for side in position.T]) / np.bincount(member)[:, None]
    return Areas(member=member, position=position, centre=centre, radius=_fitting(centre, radius))


@lru_cache(maxsize=1)  # so that it can be asked for ahead
def _laid_out(n: int, starts: bytes, ends: bytes) -> Areas:
    start, end = np.frombuffer(starts, np.int64), np.frombuffer(ends, np.int64)
    graph = DrawnGraph.of(n, start, end)
    member, radius = _parted(graph)
    ties = member[start] != member[end]
    tie_start, tie_end = member[start[ties]], member[end[ties]]
    centre = _apart(graph_layout(len(radius), tie_start, tie_end), tie_start, tie_end, radius)
    placed = np.empty((n, 2))
    for area in range(len(radius)):
        nodes = np.flatnonzero(member == area)
        inside = rough_layout(graph.among(nodes), PIVOTS_INSIDE, STEPS_INSIDE)
        turned = _facing(inside, _pulls(graph, nodes, member, centre))
        reach = float(np.max(np.hypot(*turned.T), initial=0.0)) or 1.0
        placed[nodes] = centre[area] + turned * (FILL * radius[area] / reach)
    return Areas(member=member, position=placed, centre=centre, radius=radius)


def _parted(graph: DrawnGraph) -> tuple[Ints, Floats]:
    """The area of each node, and the radius of each area's disc."""
    member = _partition(graph, int(np.clip(round(math.sqrt(len(graph))), FEWEST, MOST)))
    return member, SPACING * np.sqrt(np.bincount(member)) + 1.0


def _partition(graph: DrawnGraph, count: int) -> Ints:
    """Give every node the nearest of ``count`` centres; a part without a centre of its own becomes one area."""
    seeds = _spread_seeds(graph, count)
    member, distance = _nearest(graph, seeds)
    seeds = np.array([_middle(graph, np.flatnonzero(member == area)) for area in range(len(seeds))])
    member, distance = _nearest(graph, seeds)
    while np.isinf(distance).any():
        seeds = np.append(seeds, np.flatnonzero(np.isinf(distance))[0])
        member, distance = _nearest(graph, seeds)
    size = np.bincount(member)
    for area in np.flatnonzero(size > LARGEST * size.mean()):
        nodes = np.flatnonzero(member == area)
        inside = graph.among(nodes)
        half, _ = _nearest(inside, _spread_seeds(inside, 2))
        member[nodes[half == 1]] = member.max() + 1
    return member


def _spread_seeds(graph: DrawnGraph, count: int) -> Ints:
    """Nodes far from each other: each is the one farthest from those before it."""
    seeds = [int(np.argmax(graph.degree))]
    nearest = graph.hops(seeds[0])
    while len(seeds) < count and nearest.max() > 1:
        seeds.append(int(np.argmax(nearest)))
        nearest = np.minimum(nearest, graph.hops(seeds[-1]))
    return np.array(seeds)


def _nearest(graph: DrawnGraph, seeds: Ints) -> tuple[Ints, Floats]:
    """The seed (by its place in the list) nearest to each node, and its distance."""
    distance, place, _ = graph.walk(seeds)
    return np.maximum(place, 0), distance


def _middle(graph: DrawnGraph, nodes: Ints) -> int:
    """A node from which no other of its area is far, found by two walks to the farthest one and half of the way back."""
    inside = graph.among(nodes)
    first = int(np.argmax(np.nan_to_num(inside.hops(0), posinf=-1)))
    distance, _, before = inside.walk(np.array([first]))
    at = int(np.argmax(np.nan_to_num(distance, posinf=-1)))
    for _ in range(int(distance[at] / 2)):
        at = int(before[at])
    return int(nodes[at])


def _apart(centre: Floats, start: Ints, end: Ints, radius: Floats) -> Floats:
    """Scale the layout of areas so that neighbours just touch, then push apart discs that still overlap."""
    length = np.hypot(*(centre[start] - centre[end]).T)
    touching = radius[start] + radius[end] + GAP
    scale = float(np.median(touching / np.maximum(length, 1e-9))) if len(length) else float(radius.max())
    centre = centre * scale
    least = radius[:, None] + radius[None, :] + GAP
    angle = 2.399963 * np.arange(len(centre))
    nudge = 1e-3 * np.column_stack([np.cos(angle), np.sin(angle)])
    for _ in range(ROUNDS):
        gap = centre[:, None] - centre[None] + nudge[:, None] - nudge[None]
        distance = np.sqrt(np.einsum("ijk,ijk->ij", gap, gap))
        np.fill_diagonal(distance, np.inf)
        overlap = np.maximum(least - distance, 0)
        if not overlap.any():
            break
        centre = centre + 0.35 * np.einsum("ij,ijk->ik", overlap / np.maximum(distance, 1e-9), gap)
    return centre


def _fitting(centre: Floats, radius: Floats) -> Floats:
    """Radii in the unit of given coordinates: as large as leaves few discs overlapping."""
    gap = np.hypot(*(centre[:, None] - centre[None]).transpose(2, 0, 1))
    np.fill_diagonal(gap, np.inf)
    return np.asarray(radius * float(np.quantile(gap.min(axis=1) / (2 * radius), 0.3)))


def _pulls(graph: DrawnGraph, nodes: Ints, member: Ints, centre: Floats) -> Floats:
    """Where the lines to other areas pull each node of an area: sums of unit vectors (m × 2)."""
    mine = np.isin(graph.row, nodes)
    row, other = np.searchsorted(nodes, graph.row[mine]), member[graph.other[mine]]
    here = member[nodes[0]]
    away = centre[other] - centre[here]
    length = np.hypot(*away.T)
    unit = np.where(length[:, None] > 0, away / np.maximum(length, 1e-9)[:, None], 0.0)
    return np.column_stack([np.bincount(row, side, len(nodes)) for side in unit.T])


def _facing(inside: Floats, pull: Floats) -> Floats:
    """Turn and mirror an area about its middle so that its nodes face what they are connected to (Procrustes in the plane)."""
    centred = inside - (inside.max(axis=0) + inside.min(axis=0)) / 2
    best, most = centred, -math.inf
    for mirror in (1.0, -1.0):
        flipped = centred * (1.0, mirror)
        along = float(np.sum(flipped * pull))
        across = float(np.sum(flipped[:, 0] * pull[:, 1] - flipped[:, 1] * pull[:, 0]))
        if math.hypot(along, across) > most:
            most, angle = math.hypot(along, across), math.atan2(across, along)
            turn = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
            best = flipped @ turn
    return np.asarray(best)
