"""Connected parts of a graph, without a graph library: its import takes longer than most networks do."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def components(n: int, start: Ints, end: Ints) -> Ints:
    """Number the connected parts of a graph of n nodes, in the order of their first nodes: the part of each node.

    Every node takes the smallest number among its neighbours and then that number's own, so that chains shorten by half.
    """
    lowest = np.arange(n)
    while True:
        before = lowest.copy()
        least = np.minimum(lowest[start], lowest[end])
        # The roots of both ends are joined, not only the ends: each round halves the number of roots at least.
        for side in (start, end):
            np.minimum.at(lowest, before[side], least)
            np.minimum.at(lowest, side, least)
        lowest = _flattened(lowest)
        if np.array_equal(lowest, before):
            return np.unique(lowest, return_inverse=True)[1].astype(np.int64)


def _flattened(parent: Ints) -> Ints:
    """Follow every chain of parents to its end."""
    while True:
        further = parent[parent]
        if np.array_equal(further, parent):
            return parent
        parent = further
