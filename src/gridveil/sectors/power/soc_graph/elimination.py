"""The Newton matrix: pair variables eliminated by reflections, local variables and moves by their own blocks.

With R₁ the columns (α, ω) and R₂ the columns (w_i, w_j) of W⁻¹G of a pair, reflections Q give Q[R₁ R₂] = [R X; 0 Y]. The
Hessian is RᵀR on (α, ω), RᵀX between (α, ω) and w, and XᵀX + YᵀY on w; the balances couple (α, ω) to y by B. With T = [X, R⁻ᵀBᵀ]
over (w, y), elimination of (α, ω) takes off TᵀT. On w that is XᵀX, so YᵀY remains: it is never formed as a difference.
"""

import math

import numpy as np
from numpy.typing import NDArray

from gridveil.programs.bus_order import Pattern
from gridveil.programs.kernel import compiled
from gridveil.sectors.power.soc_graph.blocks import factorise
from gridveil.sectors.power.soc_graph.layout import ConeGraph, ConeSystem, Scaling

Floats = NDArray[np.float64]

REGULARISATION = 1e-11
"""Added to the curvature of w and u and taken from that of prices, so that every pivot exists; refinement undoes it."""


@compiled
def weighted_rows(graph: ConeGraph, e: int, scaling: Scaling, out: Floats) -> int:
    """Fill ``out`` (4, rows) with W⁻¹G of one pair up to a rotation; return how many rows there are.

    Each value of W⁻¹ gets rows of its own: stiff along (1, −e), weak along (1, e), and 1/β on the rest.
    """
    powers, unit = scaling.powers, scaling.unit
    n = 0
    half = math.sqrt(0.5)
    for c in range(graph.pair_cone[e], graph.pair_cone[e + 1]):
        head, end = graph.cone[c], graph.cone[c + 1]
        middle = powers[1, c, 0]
        if end - head == 1:
            for k in range(4):
                out[k, n] = graph.rows[head, k] * middle
            n += 1
        else:
            stiff, weak = middle * powers[0, c, 1] * half, middle * powers[1, c, 1] * half
            for k in range(4):
                along = 0.0
                for r in range(head + 1, end):
                    along += unit[r] * graph.rows[r, k]
                out[k, n] = stiff * (graph.rows[head, k] - along)
                out[k, n + 1] = weak * (graph.rows[head, k] + along)
                for r in range(head + 1, end):
                    out[k, n + 1 + r - head] = middle * (graph.rows[r, k] - unit[r] * along)
            n += 1 + end - head
    return n


@compiled
def _inner(x: Floats, y: Floats, start: int, end: int) -> float:
    total = 0.0
    for r in range(start, end):
        total += x[r] * y[r]
    return total


@compiled
def _reflect(v: Floats, first: float, factor: float, x: Floats, step: int, n: int) -> None:
    """Reflect x along the vector that is ``first`` in row ``step`` and v beyond."""
    inner = (first * x[step] + _inner(v, x, step + 1, n)) * factor
    x[step] -= inner * first
    for r in range(step + 1, n):
        x[r] -= inner * v[r]


@compiled
def eliminate_two(rows: Floats, n: int) -> int:
    """Reflect until the columns of α and ω are a triangle: the longer one first, its largest row on top; return that column."""
    first = 0 if _inner(rows[0], rows[0], 0, n) >= _inner(rows[1], rows[1], 0, n) else 1
    for step in range(2):
        v = rows[first] if step == 0 else rows[1 - first]
        top = step
        for r in range(step, n):
            if abs(v[r]) > abs(v[top]):
                top = r
        if top != step:
            for k in range(4):
                rows[k, step], rows[k, top] = rows[k, top], rows[k, step]
        size = math.sqrt(_inner(v, v, step, n))
        sign = 1.0 if v[step] >= 0.0 else -1.0
        head = v[step] + sign * size
        factor = 1.0 / (size * abs(head))
        if step == 0:
            _reflect(v, head, factor, rows[1 - first], step, n)
        _reflect(v, head, factor, rows[2], step, n)
        _reflect(v, head, factor, rows[3], step, n)
        v[step] = -sign * size
    return first


@compiled
def _add_pair(graph: ConeGraph, e: int, first: int, n: int, system: ConeSystem, left: Floats) -> None:
    """Keep the triangle of a pair, and add what it leaves behind, built in ``left`` (6, 6), to the blocks of its buses."""
    rows, second = system.weighted, 1 - first
    balance, t = graph.balance[e], system.pair_rows[e]
    r00, r01, r11 = rows[first, 0], rows[second, 0], rows[second, 1]
    kept = system.pair_factor[e]
    kept[0], kept[1], kept[2], kept[3] = r00, r01, r11, first
    t[0, 0], t[0, 3], t[1, 0], t[1, 3] = rows[2, 0], rows[3, 0], rows[2, 1], rows[3, 1]
    for p in range(4):
        at = 1 + p if p < 2 else 2 + p
        t[0, at] = balance[p, first] / r00
        t[1, at] = (balance[p, second] - r01 * t[0, at]) / r11
    for p in range(6):
        for q in range(6):
            left[p, q] = -(t[0, p] * t[0, q] + t[1, p] * t[1, q])
    left[0, 0], left[3, 3] = _inner(rows[2], rows[2], 2, n), _inner(rows[3], rows[3], 2, n)
    left[0, 3] = _inner(rows[2], rows[3], 2, n)
    for p in range(2):
        left[1 + p, 0] += balance[p, 2]
        left[1 + p, 3] += balance[p, 3]
        left[0, 4 + p] += balance[2 + p, 2]
        left[4 + p, 3] += balance[2 + p, 3]
    i, j = graph.pair_i[e], graph.pair_j[e]
    at_i, at_j, between = system.diagonal[i], system.diagonal[j], system.upper[graph.pair_block[e]]
    for p in range(3):
        for q in range(3):
            if q <= p:
                at_i[p, q] += left[p, q]
                at_j[p, q] += left[3 + p, 3 + q]
            if i < j:
                between[p, q] += left[p, 3 + q]
            else:
                between[q, p] += left[p, 3 + q]


@compiled
def _add_local(graph: ConeGraph, scaling: Scaling, system: ConeSystem) -> None:
    """Limits of w, and what local variables and moves leave behind in the balances: −1/curvature, and −W² of a move."""
    powers, unit, diagonal = scaling.powers, scaling.unit, system.diagonal
    n_bus, n_pair = len(graph.shunt), len(graph.pair_i)
    local = n_bus + 2 * n_pair
    for k in range(len(graph.local_bus)):
        system.local[k] = graph.quadratic[local + k] + REGULARISATION
    for c in range(graph.pair_cone[n_pair], graph.first_move_cone):
        at = graph.own_column[graph.cone[c] - graph.pair_row[n_pair]]
        if at < n_bus:
            diagonal[at, 0, 0] += powers[3, c, 0]
        else:
            system.local[at - local] += powers[3, c, 0]
    for k in range(len(graph.local_bus)):
        row = 1 + graph.local_row[k]
        diagonal[graph.local_bus[k], row, row] -= 1.0 / system.local[k]
    for k in range(len(graph.move_bus)):
        c = graph.first_move_cone + k
        e1, e2 = unit[graph.cone[c] + 1], unit[graph.cone[c] + 2]
        square, more = powers[2, c, 0], 0.5 * (powers[2, c, 1] + powers[3, c, 1]) - 1.0
        block = diagonal[graph.move_bus[k]]
        block[1, 1] -= square * (1.0 + more * e1 * e1)
        block[2, 2] -= square * (1.0 + more * e2 * e2)
        block[2, 1] -= square * more * e1 * e2


@compiled
def assemble(graph: ConeGraph, pattern: Pattern, scaling: Scaling, system: ConeSystem) -> bool:
    """Build and factor the matrix on the bus graph; False if it breaks down."""
    diagonal = system.diagonal
    diagonal[:] = 0.0
    system.upper[:] = 0.0
    for b in range(len(graph.shunt)):
        diagonal[b, 0, 0] = REGULARISATION
        diagonal[b, 1, 1] = -REGULARISATION
        diagonal[b, 2, 2] = -REGULARISATION
        diagonal[b, 1, 0] = graph.shunt[b, 0]
        diagonal[b, 2, 0] = graph.shunt[b, 1]
    left = np.empty((6, 6))
    for e in range(len(graph.pair_i)):
        n = weighted_rows(graph, e, scaling, system.weighted)
        first = eliminate_two(system.weighted, n)
        _add_pair(graph, e, first, n, system, left)
    _add_local(graph, scaling, system)
    for b in range(len(diagonal)):
        for p in range(3):
            for q in range(p):
                diagonal[b, q, p] = diagonal[b, p, q]
    return factorise(pattern, diagonal, system.upper, system.factor)
