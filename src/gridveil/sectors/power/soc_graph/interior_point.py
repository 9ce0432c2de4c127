"""The iteration: Mehrotra's predictor and corrector in Nesterov–Todd directions."""

import numpy as np
from numpy.typing import NDArray

from gridveil.programs.bus_order import Pattern
from gridveil.programs.kernel import compiled, entry
from gridveil.sectors.power.soc_graph.cones import apply_power, centre, complementarity, longest_step, scale_cones
from gridveil.sectors.power.soc_graph.elimination import assemble
from gridveil.sectors.power.soc_graph.layout import ConeGraph, ConePoint, ConeSystem, ConeWorkspace, Scaling
from gridveil.sectors.power.soc_graph.maps import add_transposed_balances, add_transposed_cone_rows, balances, cone_rows
from gridveil.sectors.power.soc_graph.newton import largest, solve

Floats = NDArray[np.float64]

RESIDUAL_TOLERANCE = 1e-8
"""Of each residual, beside the data of its rows."""
GAP_TOLERANCE = 1e-10
"""Of the gap, beside the objective, as a rule: a step or two more than slopes need, so that differences of values are slopes
as well."""
MOST_ITERATIONS = 100
FIRST_PRODUCT = 10.0
"""μ of the first iterate: s∘z = μe."""
FIRST_ROOM = 10.0
"""How far inside its cone the first iterate moves a slack that is nearer to the boundary."""
LARGEST_MOVE = 10.0
"""Size of a first move, per unit, however low its price."""
FRACTION = 0.98
"""Of the step to the boundary that is taken."""
WORST_ERROR = 1e-6
"""Relative residual of a linear solve beyond which its direction is noise."""
SHORTEST_STEP = 1e-7
LARGEST_PRICE = 1e10
"""Prices this high, in units of marginal cost, belong to demands that nothing can serve."""

MIDWAY = 1.0
"""Relative gap of the iterate that is kept for similar programs: nearer to its optimum it lies in a corner that is not theirs."""

NEAR = 1e-6
"""Error of gap and residuals at which an iterate is kept, should no later one be better."""

GOING_ON, CONVERGED, ROUNDED, DIVERGED, STUCK, SINGULAR, TOO_MANY = range(7)


@compiled
def _zeros(graph: ConeGraph) -> ConePoint:
    n, rows = len(graph.linear), len(graph.offset)
    return ConePoint(np.zeros(n), np.zeros((len(graph.shunt), 2)), np.zeros(rows), np.zeros(rows))


@compiled
def _room(graph: ConeGraph, pattern: Pattern) -> ConeWorkspace:
    n_bus, n_pair, n_block = len(graph.shunt), len(graph.pair_i), len(pattern.row)
    n_row, n_cone = len(graph.offset), len(graph.cone) - 1
    most = 1
    for e in range(n_pair):
        most = max(most, graph.pair_row[e + 1] - graph.pair_row[e])
    system = ConeSystem(
        np.zeros((n_bus, 3, 3)),
        np.zeros((n_block, 3, 3)),
        np.zeros((n_block, 3, 3)),
        np.zeros((n_pair, 4)),
        np.zeros((n_pair, 2, 6)),
        np.zeros(len(graph.local_bus)),
        np.zeros((n_bus, 3)),
        np.zeros(n_row),
        np.zeros((2 * most, 4)),  # a cone of n rows has n + 1 weighted ones
    )
    return ConeWorkspace(
        Scaling(np.ones((4, n_cone, 2)), np.zeros(n_row), np.zeros(n_row)),
        system,
        _zeros(graph),
        _zeros(graph),
        np.zeros(n_row),
        np.zeros(n_row),
        np.zeros(n_row),
        _zeros(graph),
        _zeros(graph),
    )


@compiled
def _first_moves(graph: ConeGraph, x: Floats) -> None:
    """Sizes t of the first moves such that their multipliers μ/t are the price of a move: nothing is then left of their slope."""
    first = len(x) - 3 * len(graph.move_bus)
    for k in range(len(graph.move_bus)):
        x[first + 3 * k] = min(FIRST_PRODUCT / graph.linear[first + 3 * k], LARGEST_MOVE)
        x[first + 3 * k + 1] = 0.0
        x[first + 3 * k + 2] = 0.0


@compiled
def _residuals(graph: ConeGraph, draw: Floats, at: ConePoint, out: ConePoint) -> float:
    """Fill the residuals of stationarity (x), balances (y) and cone rows (z); return sᵀz."""
    for k in range(len(at.x)):
        out.x[k] = graph.quadratic[k] * at.x[k] + graph.linear[k]
    add_transposed_balances(graph, at.y, out.x)
    add_transposed_cone_rows(graph, at.z, out.x)
    balances(graph, at.x, out.y)
    for b in range(len(draw)):
        out.y[b, 0] += draw[b, 0]
        out.y[b, 1] += draw[b, 1]
    cone_rows(graph, at.x, out.z)
    gap = 0.0
    for r in range(len(at.s)):
        out.z[r] += at.s[r] - graph.offset[r]
        gap += at.s[r] * at.z[r]
    return gap


@compiled
def _direction(
    graph: ConeGraph, pattern: Pattern, room: ConeWorkspace, target: float, keep: float, corrects: bool
) -> float:
    """Find the step that takes off ``keep`` of the residuals and brings products to ``target``; return its error.

    A step that corrects has the second-order term of the step before it, and is refined.
    """
    scaling, missing, right = room.scaling, room.missing, room.right
    second = 1.0 if corrects else 0.0
    complementarity(graph.cone, scaling.point, room.scaled_s, room.scaled_z, target, second, room.wanted)
    apply_power(graph.cone, scaling.powers[0], scaling.unit, room.wanted, right.z)
    for r in range(len(right.z)):
        right.z[r] -= keep * missing.z[r]
    for k in range(len(right.x)):
        right.x[k] = -keep * missing.x[k]
    for b in range(len(right.y)):
        right.y[b, 0] = -keep * missing.y[b, 0]
        right.y[b, 1] = -keep * missing.y[b, 1]
    error = solve(graph, pattern, scaling, room.system, right, room.step, room.left, corrects)
    apply_power(graph.cone, scaling.powers[0], scaling.unit, room.step.z, room.scaled_z)
    for r in range(len(room.wanted)):
        room.scaled_s[r] = -room.wanted[r] - room.scaled_z[r]
    apply_power(graph.cone, scaling.powers[0], scaling.unit, room.scaled_s, room.step.s)
    return error


@compiled
def _copy(source: ConePoint, target: ConePoint) -> None:
    target.x[:] = source.x
    target.y[:] = source.y
    target.s[:] = source.s
    target.z[:] = source.z


@compiled
def _start(graph: ConeGraph, at: ConePoint) -> None:
    _first_moves(graph, at.x)
    cone_rows(graph, at.x, at.s)
    for r in range(len(at.s)):
        at.s[r] = graph.offset[r] - at.s[r]
    centre(graph.cone[: graph.first_move_cone + 1], at.s, at.z, FIRST_PRODUCT, FIRST_ROOM)
    centre(graph.cone[graph.first_move_cone :], at.s, at.z, FIRST_PRODUCT, 0.0)


@compiled
def _step(graph: ConeGraph, pattern: Pattern, room: ConeWorkspace, at: ConePoint, gap: float) -> int:
    """Predict, correct and advance; return GOING_ON, or why it cannot."""
    cone, step, n_cone = graph.cone, room.step, len(graph.cone) - 1
    scale_cones(cone, at.s, at.z, room.scaling)
    if not assemble(graph, pattern, room.scaling, room.system):
        return SINGULAR
    _direction(graph, pattern, room, 0.0, 1.0, False)
    length = min(longest_step(cone, at.s, step.s, 1.0), longest_step(cone, at.z, step.z, 1.0))
    sigma = (1.0 - length) ** 3
    # of the residuals it takes off a share between Mehrotra's 1 and 1 − σ
    error = _direction(graph, pattern, room, sigma * gap / n_cone, 1.0 - 0.5 * sigma, True)
    if not error <= WORST_ERROR:
        return ROUNDED
    most = 1.0 / FRACTION
    length = FRACTION * min(longest_step(cone, at.s, step.s, most), longest_step(cone, at.z, step.z, most))
    if not length >= SHORTEST_STEP:
        return STUCK
    at.x[:] += length * step.x
    at.y[:] += length * step.y
    at.s[:] += length * step.s
    at.z[:] += length * step.z
    return GOING_ON


@entry
def run(
    graph: ConeGraph,
    pattern: Pattern,
    draw: Floats,
    at: ConePoint,
    is_inside: bool,
    gap_tolerance: float,
    midway: ConePoint,
    figures: Floats,
) -> tuple[int, int, bool]:
    """Solve from ``at``, or from its x and y alone if its s and z are not inside; return ending, iterations, and if midway.

    ``at`` receives the last iterate, or the best one if an iteration that did not converge came near an optimum and rounding
    then led it away. ``figures`` receives its objective, sᵀz, and its largest residual relative to the data of its rows.
    ``midway`` receives the first iterate whose gap is MIDWAY, if there is one.
    """
    room, best, best_figures = _room(graph, pattern), _zeros(graph), np.zeros(3)
    missing, has_midway = room.missing, False
    if not is_inside:
        _start(graph, at)
    size_x, size_y, size_z = max(1.0, largest(graph.linear)), max(1.0, largest(draw)), max(1.0, largest(graph.offset))
    ending, iteration, least = GOING_ON, 0, NEAR
    while ending == GOING_ON:
        gap = _residuals(graph, draw, at, missing)
        objective = 0.0
        for k in range(len(at.x)):
            objective += (0.5 * graph.quadratic[k] * at.x[k] + graph.linear[k]) * at.x[k]
        residual = max(largest(missing.x) / size_x, largest(missing.y) / size_y, largest(missing.z) / size_z)
        figures[0], figures[1], figures[2] = objective, gap, residual
        relative_gap = gap / max(1.0, abs(objective))
        error = max(residual, relative_gap)
        if relative_gap < MIDWAY and not has_midway:
            has_midway = True
            _copy(at, midway)
        if error < least:
            least = error
            _copy(at, best)
            best_figures[:] = figures
        if residual <= max(RESIDUAL_TOLERANCE, 1e-2 * gap_tolerance) and relative_gap <= gap_tolerance:
            ending = CONVERGED
        elif not (gap < np.inf and residual < np.inf and largest(at.y) < LARGEST_PRICE):
            ending = DIVERGED
        elif iteration == MOST_ITERATIONS:
            ending = TOO_MANY
        else:
            ending = _step(graph, pattern, room, at, gap)
            iteration += 1
    if ending != CONVERGED and least < NEAR:
        _copy(best, at)
        figures[:] = best_figures
    return ending, iteration, has_midway
