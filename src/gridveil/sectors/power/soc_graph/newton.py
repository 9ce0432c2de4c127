"""Solves with the factored Newton matrix, and their refinement on the full system."""

import numpy as np
from numpy.typing import NDArray

from gridveil.programs.bus_order import Pattern
from gridveil.programs.kernel import compiled
from gridveil.sectors.power.soc_graph.blocks import substitute
from gridveil.sectors.power.soc_graph.cones import apply_power
from gridveil.sectors.power.soc_graph.layout import ConeGraph, ConePoint, ConeSystem, Scaling
from gridveil.sectors.power.soc_graph.maps import add_transposed_balances, add_transposed_cone_rows, balances, cone_rows

Floats = NDArray[np.float64]

REFINEMENTS = 5
ACCURACY = 1e-10
"""Relative residual at which refinement ends. At 1e-7 large networks stall."""


@compiled
def _times_move(
    graph: ConeGraph, scaling: Scaling, k: int, r0: float, r1: float, r2: float
) -> tuple[float, float, float]:
    """W² r of the k-th move. Its rows of G are −1, so its Hessian is W⁻²."""
    c = graph.first_move_cone + k
    e1, e2 = scaling.unit[graph.cone[c] + 1], scaling.unit[graph.cone[c] + 2]
    square, g = scaling.powers[2, c, 0], scaling.powers[2, c, 1]
    along = e1 * r1 + e2 * r2
    stretched, squeezed = 0.5 * (r0 + along) * g, 0.5 * (r0 - along) / g
    shift = stretched - squeezed - along
    return square * (stretched + squeezed), square * (r1 + e1 * shift), square * (r2 + e2 * shift)


@compiled
def _condense(graph: ConeGraph, scaling: Scaling, system: ConeSystem, x: Floats, y: Floats) -> None:
    """Fill ``work`` with the right-hand side on the buses; pairs keep R⁻ᵀ times theirs."""
    n_bus, work = len(graph.shunt), system.work
    local = n_bus + 2 * len(graph.pair_i)
    move = local + len(graph.local_bus)
    for b in range(n_bus):
        work[b, 0], work[b, 1], work[b, 2] = x[b], y[b, 0], y[b, 1]
    for k in range(len(graph.local_bus)):
        work[graph.local_bus[k], 1 + graph.local_row[k]] += x[local + k] / system.local[k]
    for k in range(len(graph.move_bus)):
        at = move + 3 * k
        _, p, q = _times_move(graph, scaling, k, x[at], x[at + 1], x[at + 2])
        work[graph.move_bus[k], 1] -= p
        work[graph.move_bus[k], 2] -= q
    for e in range(len(graph.pair_i)):
        i, j, at = graph.pair_i[e], graph.pair_j[e], n_bus + 2 * e
        f, t = system.pair_factor[e], system.pair_rows[e]
        first = int(f[3])
        t0 = x[at + first] / f[0]
        t1 = (x[at + 1 - first] - f[1] * t0) / f[2]
        for p in range(3):
            work[i, p] -= t[0, p] * t0 + t[1, p] * t1
            work[j, p] -= t[0, 3 + p] * t0 + t[1, 3 + p] * t1
        x[at], x[at + 1] = t0, t1


@compiled
def _expand(graph: ConeGraph, scaling: Scaling, system: ConeSystem, x: Floats, y: Floats) -> None:
    """Find pair variables, local variables and moves from the solution on the buses in ``work``."""
    n_bus, work = len(graph.shunt), system.work
    local = n_bus + 2 * len(graph.pair_i)
    move = local + len(graph.local_bus)
    for b in range(n_bus):
        x[b], y[b, 0], y[b, 1] = work[b, 0], work[b, 1], work[b, 2]
    for k in range(len(graph.local_bus)):
        x[local + k] = (x[local + k] + y[graph.local_bus[k], graph.local_row[k]]) / system.local[k]
    for k in range(len(graph.move_bus)):
        at, bus = move + 3 * k, graph.move_bus[k]
        x[at], x[at + 1], x[at + 2] = _times_move(
            graph, scaling, k, x[at], x[at + 1] - y[bus, 0], x[at + 2] - y[bus, 1]
        )
    for e in range(len(graph.pair_i)):
        i, j, at = graph.pair_i[e], graph.pair_j[e], n_bus + 2 * e
        f, t = system.pair_factor[e], system.pair_rows[e]
        t0, t1 = x[at], x[at + 1]
        for p in range(3):
            t0 -= t[0, p] * work[i, p] + t[0, 3 + p] * work[j, p]
            t1 -= t[1, p] * work[i, p] + t[1, 3 + p] * work[j, p]
        first = int(f[3])
        later = t1 / f[2]
        x[at + first] = (t0 - f[1] * later) / f[0]
        x[at + 1 - first] = later


@compiled
def _solve_once(graph: ConeGraph, pattern: Pattern, scaling: Scaling, system: ConeSystem, right: ConePoint) -> None:
    """Overwrite (x, y, z) of ``right`` with the solution of [H Aᵀ Gᵀ; A 0 0; G 0 −W²]; s is not used."""
    rows = system.cone_rows
    apply_power(graph.cone, scaling.powers[3], scaling.unit, right.z, rows)
    add_transposed_cone_rows(graph, rows, right.x)
    _condense(graph, scaling, system, right.x, right.y)
    substitute(pattern, system.diagonal, system.factor, system.work)
    _expand(graph, scaling, system, right.x, right.y)
    cone_rows(graph, right.x, rows)
    for r in range(len(rows)):
        rows[r] -= right.z[r]
    apply_power(graph.cone, scaling.powers[3], scaling.unit, rows, right.z)


@compiled
def largest(v: Floats) -> float:
    """The largest absolute entry; NaN counts as infinite."""
    most = 0.0
    for value in v.reshape(-1):
        if not abs(value) <= most:
            most = abs(value) if abs(value) < np.inf else np.inf
    return most


@compiled
def _residual(
    graph: ConeGraph, scaling: Scaling, system: ConeSystem, right: ConePoint, found: ConePoint, left: ConePoint
) -> float:
    """What ``found`` leaves of ``right``, and its size."""
    for k in range(len(left.x)):
        left.x[k] = graph.quadratic[k] * found.x[k] - right.x[k]
    add_transposed_balances(graph, found.y, left.x)
    add_transposed_cone_rows(graph, found.z, left.x)
    balances(graph, found.x, left.y)
    cone_rows(graph, found.x, left.z)
    apply_power(graph.cone, scaling.powers[2], scaling.unit, found.z, system.cone_rows)
    for k in range(len(left.x)):
        left.x[k] = -left.x[k]
    for b in range(len(left.y)):
        left.y[b, 0] = right.y[b, 0] - left.y[b, 0]
        left.y[b, 1] = right.y[b, 1] - left.y[b, 1]
    for r in range(len(left.z)):
        left.z[r] = right.z[r] - left.z[r] + system.cone_rows[r]
    return max(largest(left.x), largest(left.y), largest(left.z))


@compiled
def solve(
    graph: ConeGraph,
    pattern: Pattern,
    scaling: Scaling,
    system: ConeSystem,
    right: ConePoint,
    found: ConePoint,
    left: ConePoint,
    refined: bool,
) -> float:
    """Solve for ``found``; return the relative residual, or 0 where it was not asked to look. ``left`` is room."""
    found.x[:] = right.x
    found.y[:] = right.y
    found.z[:] = right.z
    _solve_once(graph, pattern, scaling, system, found)
    if not refined:
        return 0.0
    size = max(largest(right.x), largest(right.y), largest(right.z))
    error = _residual(graph, scaling, system, right, found, left) / size
    for _ in range(REFINEMENTS):
        if error < ACCURACY or not error < np.inf:
            break
        _solve_once(graph, pattern, scaling, system, left)
        found.x[:] += left.x
        found.y[:] += left.y
        found.z[:] += left.z
        error = _residual(graph, scaling, system, right, found, left) / size
    return error
