"""Disjoint groups of participants whose totals a release can keep: by labels of the file, or by a rule on the graph.

Both are public, so every reader can form the same groups from the released file.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridveil.core.errors import InputError
from gridveil.core.kept import TOTAL, ZONES
from gridveil.sectors.registry import sector_of
from gridveil.sectors.view import Graph

Ints = NDArray[np.int64]

RULE = (
    "halved again and again: nodes in the order of their distance (in edges) from the node farthest from the first, cut "
    "where both sides have their share of the participants"
)


def participant_groups(network: Any, name: str, parts: int | None) -> tuple[tuple[str, ...], Ints]:
    """Labels of the groups, and the position of each participant's group among them.

    ``name``: ``total`` (one group), ``zones`` or ``areas`` of the file, or, with ``parts``, as many zones of the graph.
    """
    sector = sector_of(network)
    graph = sector.graph(network)
    if name == TOTAL:
        return ("",), np.zeros(len(graph.place), dtype=np.int64)
    if parts is not None:
        if parts > len(graph.place):
            raise InputError(f"there are only {len(graph.place)} participants; ask for fewer zones than {parts}")
        part = graph_partition(graph, parts)[graph.place]
        return tuple(str(number + 1) for number in range(parts)), part
    labels_of = getattr(sector, "participant_labels", None)
    if labels_of is None:
        raise InputError(f"a {sector.kind} network has no {name}; ask for a number of zones instead: zones:10=1%")
    labels, position = np.unique(labels_of(network, name), return_inverse=True)
    if len(labels) < 2:
        advice = "zones:10=1%, or keep the total" if name == ZONES else "zones, or keep the total"
        raise InputError(f"the file knows a single one of its {name}; ask for a number of zones: {advice}")
    return tuple(str(label) for label in labels.tolist()), position.astype(np.int64)


def graph_partition(graph: Graph, parts: int) -> Ints:
    """Part of each node, 0 to ``parts`` − 1, each with about as many participants; deterministic (see ``RULE``)."""
    weight = np.bincount(graph.place, minlength=graph.n)
    neighbours: list[list[int]] = [[] for _ in range(graph.n)]
    for first, second in zip(graph.start.tolist(), graph.end.tolist(), strict=True):
        neighbours[first].append(second)
        neighbours[second].append(first)
    part = np.zeros(graph.n, dtype=np.int64)
    pieces = [(np.arange(graph.n), 0, parts)]
    while pieces:
        nodes, first, count = pieces.pop()
        part[nodes] = first
        if count == 1:
            continue
        order = _by_distance(neighbours, nodes)
        below = count // 2
        reached = np.cumsum(weight[order])
        cut = int(np.searchsorted(reached, reached[-1] * below / count)) + 1
        pieces += [(order[:cut], first, below), (order[cut:], first + below, count - below)]
    return part


def _by_distance(neighbours: list[list[int]], nodes: Ints) -> Ints:
    """Nodes in breadth-first order from the one farthest from the first of them; the order of nodes breaks ties."""
    members = set(nodes.tolist())
    far = _breadth_first(neighbours, int(nodes.min()), members)[-1]
    order = _breadth_first(neighbours, far, members)
    while len(order) < len(members):  # parts that are not connected follow one after the other
        rest = members.difference(order)
        order += _breadth_first(neighbours, min(rest), rest)
    return np.array(order, dtype=np.int64)


def _breadth_first(neighbours: list[list[int]], root: int, members: set[int]) -> list[int]:
    seen, order, queue = {root}, [root], deque([root])
    while queue:
        for node in sorted(neighbours[queue.popleft()]):
            if node in members and node not in seen:
                seen.add(node)
                order.append(node)
                queue.append(node)
    return order
