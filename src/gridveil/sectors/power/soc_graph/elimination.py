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
    """Fill ``out`` (rows, 4) with W⁻¹G of one pair up to a rotation; return how many rows there are.

    Each value of W⁻¹ gets rows of its own: stiff along (1, −e), weak along (1, e), and 1/β on the rest.
    """
    powers, unit, rows = scaling.powers, scaling.unit, graph.rows
    n = 0
    half = math.sqrt(0.5)
    for c in range(graph.pair_cone[e], graph.pair_cone[e + 1]):
        head, end = graph.cone[c], graph.cone[c + 1]
        middle = powers[1, c, 0]
        if end - head == 1:
            for k in range(4):
                out[n, k] = rows[head, k] * middle
            n += 1
        else:
            stiff, weak = middle * powers[0, c, 1] * half, middle * powers[1, c, 1] * half
            a0, a1, a2, a3 = 0.0, 0.0, 0.0, 0.0
            for r in range(head + 1, end):
                a0 += unit[r] * rows[r, 0]
                a1 += unit[r] * rows[r, 1]
                a2 += unit[r] * rows[r, 2]
                a3 += unit[r] * rows[r, 3]
            for r in range(head + 1, end):
                at = n + 1 + r - head
                out[at, 0] = middle * (rows[r, 0] - unit[r] * a0)
                out[at, 1] = middle * (rows[r, 1] - unit[r] * a1)
                out[at, 2] = middle * (rows[r, 2] - unit[r] * a2)
                out[at, 3] = middle * (rows[r, 3] - unit[r] * a3)
            for k, along in enumerate((a0, a1, a2, a3)):
                out[n, k] = stiff * (rows[head, k] - along)
                out[n + 1, k] = weak * (rows[head, k] + along)
            n += 1 + end - head
    return n


@compiled
def _reflect(rows: Floats, column: int, step: int, n: int) -> None:
    """Reflect all columns so that nothing is left of one below row ``step``, its largest row on top."""
    top, size = step, 0.0
    for r in range(step, n):
        size += rows[r, column] * rows[r, column]
        if abs(rows[r, column]) > abs(rows[top, column]):
            top = r
    if top != step:
        for k in range(4):
            rows[step, k], rows[top, k] = rows[top, k], rows[step, k]
    size = math.sqrt(size)
    sign = 1.0 if rows[step, column] >= 0.0 else -1.0
    head = rows[step, column] + sign * size
    factor = 1.0 / (size * abs(head))
    i0, i1, i2, i3 = head * rows[step, 0], head * rows[step, 1], head * rows[step, 2], head * rows[step, 3]
    for r in range(step + 1, n):
        v = rows[r, column]
        i0 += v * rows[r, 0]
        i1 += v * rows[r, 1]
        i2 += v * rows[r, 2]
        i3 += v * rows[r, 3]
    i0, i1, i2, i3 = factor * i0, factor * i1, factor * i2, factor * i3
    for r in range(step + 1, n):
        v = rows[r, column]
        rows[r, 0] -= v * i0
        rows[r, 1] -= v * i1
        rows[r, 2] -= v * i2
        rows[r, 3] -= v * i3
    rows[step, 0] -= head * i0
    rows[step, 1] -= head * i1
    rows[step, 2] -= head * i2
    rows[step, 3] -= head * i3
    rows[step, column] = -sign * size


@compiled
def eliminate_two(rows: Floats, n: int) -> int:
    """Reflect until the columns of α and ω are a triangle, the longer one first; return that one."""
    difference = 0.0
    for r in range(n):
        difference += rows[r, 0] * rows[r, 0] - rows[r, 1] * rows[r, 1]
    first = 0 if difference >= 0.0 else 1
    _reflect(rows, first, 0, n)
    _reflect(rows, 1 - first, 1, n)
    return first


@compiled
def _add_pair(graph: ConeGraph, e: int, first: int, n: int, system: ConeSystem, left: Floats) -> None:
    """Keep the triangle of a pair, and add what it leaves behind, built in ``left`` (6, 6), to the blocks of its buses."""
    rows, second = system.weighted, 1 - first
    balance, t = graph.balance[e], system.pair_rows[e]
    r00, r01, r11 = rows[0, first], rows[0, second], rows[1, second]
    kept = system.pair_factor[e]
    kept[0], kept[1], kept[2], kept[3] = r00, r01, r11, first
    t[0, 0], t[0, 3], t[1, 0], t[1, 3] = rows[0, 2], rows[0, 3], rows[1, 2], rows[1, 3]
    for p in range(4):
        at = 1 + p if p < 2 else 2 + p
        t[0, at] = balance[p, first] / r00
        t[1, at] = (balance[p, second] - r01 * t[0, at]) / r11
    for p in range(6):
        for q in range(6):
            left[p, q] = -(t[0, p] * t[0, q] + t[1, p] * t[1, q])
    left[0, 0], left[0, 3], left[3, 3] = 0.0, 0.0, 0.0
    for r in range(2, n):
        left[0, 0] += rows[r, 2] * rows[r, 2]
        left[0, 3] += rows[r, 2] * rows[r, 3]
        left[3, 3] += rows[r, 3] * rows[r, 3]
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
