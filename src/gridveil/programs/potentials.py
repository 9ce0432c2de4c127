"""Potentials of buses fitted to the differences that branches ask for: a sparse system in the elimination order of the graph."""

import numpy as np
from numpy.typing import NDArray

from gridveil.programs.bus_order import BusOrder, Pattern
from gridveil.programs.kernel import entry

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def fit_potentials(
    order: BusOrder, start: Ints, end: Ints, *, weight: Floats, difference: Floats, pull: Floats
) -> Floats:
    """Find φ (N) that minimises Σ weight·(φ_start − φ_end − difference)² over branches + Σ pull·φ² over buses; pull > 0.

    Ends are positions in the elimination order, and so is φ; the order may have further branches behind these. A branch
    that joins a bus to itself asks for nothing.
    """
    n, proper = len(order.bus_at), start != end
    weight = np.where(proper, weight, 0.0)
    diagonal = pull + np.bincount(start, weight, n) + np.bincount(end, weight, n)
    below = np.zeros(len(order.pattern.row))
    np.subtract.at(below, order.branch_block[: len(start)][proper], weight[proper])
    right = np.zeros(n)
    np.add.at(right, start, weight * difference)
    np.subtract.at(right, end, weight * difference)
    return _solve(order.pattern, diagonal, below, right)


@entry
def _solve(pattern: Pattern, diagonal: Floats, below: Floats, right: Floats) -> Floats:
    """Solve a positive definite system by L·D·Lᵀ; its lower triangle lies in the blocks of the pattern and is overwritten."""
    n, pair = len(diagonal), 0
    for j in range(n):
        first, last = pattern.col_ptr[j], pattern.col_ptr[j + 1]
        for a in range(first, last):
            share = below[a] / diagonal[j]
            diagonal[pattern.row[a]] -= share * below[a]
            right[pattern.row[a]] -= share * right[j]
            for b in range(a + 1, last):
                below[pattern.target[pair]] -= share * below[b]
                pair += 1
    for j in range(n - 1, -1, -1):
        for a in range(pattern.col_ptr[j], pattern.col_ptr[j + 1]):
            right[j] -= below[a] * right[pattern.row[a]]
        right[j] /= diagonal[j]
    return right
