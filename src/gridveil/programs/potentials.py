"""Potentials of buses fitted to the differences that branches ask for: a sparse system in the elimination order of the graph."""

import numpy as np
from numpy.typing import NDArray

from gridveil.programs.bus_order import BusOrder, Pattern
from gridveil.programs.kernel import entry

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


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
    return np.asarray(_solve(order.pattern, diagonal, below, right[:, None])[:, 0])


def driven_potentials(
    order: BusOrder, start: Ints, end: Ints, *, weight: Floats, injection: Floats, grounded: Bools
) -> Floats:
    """Find φ (N, k), zero at grounded buses, at which Σ weight·(φ_start − φ_end) over a bus's branches is its injection (N, k).

    Buses are positions in the elimination order. Nothing is pivoted: where weights of both signs meet, check what comes out.
    """
    n, proper = len(order.bus_at), start != end
    free, weight = ~(grounded[start] | grounded[end]) & proper, np.where(proper, weight, 0.0)
    diagonal = np.bincount(start, weight, n) + np.bincount(end, weight, n)
    below = np.zeros(len(order.pattern.row))
    np.subtract.at(below, order.branch_block[: len(start)][free], weight[free])
    right = np.where(grounded[:, None], 0.0, injection)
    return _solve(order.pattern, np.where(grounded, 1.0, diagonal), below, right)


@entry
def _solve(pattern: Pattern, diagonal: Floats, below: Floats, right: Floats) -> Floats:
    """Solve a system by L·D·Lᵀ for each column of ``right``; its lower triangle lies in the blocks of the pattern.

    All but the pattern is overwritten.
    """
    n, pair = len(diagonal), 0
    for j in range(n):
        first, last = pattern.col_ptr[j], pattern.col_ptr[j + 1]
        for a in range(first, last):
            share = below[a] / diagonal[j]
            diagonal[pattern.row[a]] -= share * below[a]
            for c in range(right.shape[1]):
                right[pattern.row[a], c] -= share * right[j, c]
            for b in range(a + 1, last):
                below[pattern.target[pair]] -= share * below[b]
                pair += 1
    for j in range(n - 1, -1, -1):
        for a in range(pattern.col_ptr[j], pattern.col_ptr[j + 1]):
            for c in range(right.shape[1]):
                right[j, c] -= below[a] * right[pattern.row[a], c]
        for c in range(right.shape[1]):
            right[j, c] /= diagonal[j]
    return right
