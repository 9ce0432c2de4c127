"""Walks over a graph, one edge after another from all sources at once."""

import numpy as np
from numpy.typing import NDArray

from gridveil.programs.kernel import entry

Ints = NDArray[np.int64]


@entry
def walk(first: Ints, other: Ints, sources: Ints) -> tuple[Ints, Ints, Ints]:
    """Edges to the nearest source, the place of that source in the list, and the node before; −1 for what is not reached.

    The neighbours of node i are ``other[first[i]:first[i + 1]]``. Of several nearest sources the first listed counts.
    """
    n = len(first) - 1
    distance, nearest, before = np.full(n, -1), np.full(n, -1), np.full(n, -1)
    queue, filled = np.empty(n, np.int64), 0
    for place, node in enumerate(sources):
        if distance[node] < 0:
            distance[node], nearest[node], queue[filled] = 0, place, node
            filled += 1
    at = 0
    while at < filled:
        node = queue[at]
        at += 1
        for k in range(first[node], first[node + 1]):
            if distance[other[k]] < 0:
                distance[other[k]], nearest[other[k]], before[other[k]] = distance[node] + 1, nearest[node], node
                queue[filled] = other[k]
                filled += 1
    return distance, nearest, before
