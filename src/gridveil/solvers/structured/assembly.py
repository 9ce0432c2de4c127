"""The Newton system: one 4×4 block (θ, v, price of P, price of Q) per bus, and the bordered rows.

``assemble`` builds blocks and Lagrangian gradient, ``condense`` eliminates the local variables under a given shift of the
Hessian. Each branch is oriented so that its from end is eliminated after its to end.
"""

from math import inf

import numpy as np
from numpy.typing import NDArray

from gridveil.programs.bus_order import Pattern
from gridveil.programs.kernel import compiled
from gridveil.solvers.structured.branch_flows import flow_hessian, flow_value, from_gradient, to_gradient
from gridveil.solvers.structured.layout import GridData, Iterate, LocalData, Problem, System, Values, copy_blocks
from gridveil.solvers.structured.settings import DELTA_C, DENSE_SOFTNESS, FEW_ROWS, LEAST_PIVOT

Floats = NDArray[np.float64]

Weight = tuple[float, float, float, float]
Gradients = tuple[float, float, float, float, float, float]


@compiled
def assemble(problem: Problem, point: Iterate, values: Values, system: System) -> None:
    """Fill the matrix before condensation and the gradient of the Lagrangian (without bounds) at ``point``."""
    grid = problem.grid
    system.diag[:] = 0.0
    system.upper[:] = 0.0
    system.gradient_x[:] = 0.0
    _add_branches(grid, point, values, system)
    _add_buses(grid, point, system)
    _add_tied(grid, problem.local, point, system)
    _clear_fixed(grid, problem.pattern, system)
    _fill_local(problem.local, point, system)


@compiled
def _add_branches(grid: GridData, point: Iterate, values: Values, system: System) -> None:  # noqa: PLR0915
    """Add all branches in one loop: a call per branch would pass every array each time."""
    n_branch = len(grid.branch_from)
    price, limit, slack = point.price, point.limit, point.slack
    stiff, least = system.stiffness, system.least_softness
    for b in range(n_branch):
        i, j = grid.branch_from[b], grid.branch_to[b]
        cos, sin = values.trig[b, 0], values.trig[b, 1]
        vf, vt = point.x[i, 1], point.x[j, 1]
        flow, product, scale, current = grid.flow[b], vf * vt, grid.flow_scale[b], grid.current_squared[b]
        pf = flow_value(flow, 0, vf, product, cos, sin)
        qf = flow_value(flow, 1, vf, product, cos, sin)
        pt = flow_value(flow, 2, vt, product, cos, sin)
        qt = flow_value(flow, 3, vt, product, cos, sin)
        pf_a, pf_f, pf_t = from_gradient(flow, 0, vf, vt, cos, sin)
        qf_a, qf_f, qf_t = from_gradient(flow, 1, vf, vt, cos, sin)
        pt_a, pt_f, pt_t = to_gradient(flow, 2, vf, vt, cos, sin)
        qt_a, qt_f, qt_t = to_gradient(flow, 3, vf, vt, cos, sin)
        # Gradients of the two flow limits.
        lf_a, lf_f, lf_t = (
            2.0 * scale * (pf * pf_a + qf * qf_a),
            2.0 * scale * (pf * pf_f + qf * qf_f - current * vf),
            2.0 * scale * (pf * pf_t + qf * qf_t),
        )
        lt_a, lt_f, lt_t = (
            2.0 * scale * (pt * pt_a + qt * qt_a),
            2.0 * scale * (pt * pt_f + qt * qt_f),
            2.0 * scale * (pt * pt_t + qt * qt_t - current * vt),
        )
        stored = system.limit_gradient[b]
        stored[0, 0], stored[0, 1], stored[0, 2] = lf_a, lf_f, lf_t
        stored[1, 0], stored[1, 1], stored[1, 2] = lt_a, lt_f, lt_t
        at_from, at_to = b, n_branch + b
        above, below = 2 * n_branch + b, 3 * n_branch + b
        # Curvature: the balances and the products inside |S|², the squares inside |S|² and |V|², the barrier of the limits.
        twice_from, twice_to = 2.0 * scale * limit[at_from], 2.0 * scale * limit[at_to]
        flow_weights = (
            price[i, 0] + twice_from * pf,
            price[i, 1] + twice_from * qf,
            price[j, 0] + twice_to * pt,
            price[j, 1] + twice_to * qt,
        )
        h_aa, h_af, h_at, h_ff, h_ft, h_tt = flow_hessian(flow, flow_weights, vf, vt, cos, sin)
        admittance = grid.branch_admittance[b]
        square_from, square_to = lf_a * lf_a + lf_f * lf_f + lf_t * lf_t, lt_a * lt_a + lt_f * lt_f + lt_t * lt_t
        stiff[at_from] = _capped(limit[at_from], slack[at_from], least[at_from] * square_from / admittance)
        stiff[at_to] = _capped(limit[at_to], slack[at_to], least[at_to] * square_to / admittance)
        stiff[above] = _capped(limit[above], slack[above], least[above] / admittance)
        stiff[below] = _capped(limit[below], slack[below], least[below] / admittance)
        stiff_from, stiff_to, stiff_angle = stiff[at_from], stiff[at_to], stiff[above] + stiff[below]
        # Entries of the six gradients (flows, then limits) by variable, so that h += gradientᵀ · weight · gradient.
        weight = (twice_from, twice_to, stiff_from, stiff_to)
        by_a = (pf_a, qf_a, pt_a, qt_a, lf_a, lt_a)
        by_f = (pf_f, qf_f, pt_f, qt_f, lf_f, lt_f)
        by_t = (pf_t, qf_t, pt_t, qt_t, lf_t, lt_t)
        h_aa += _congruence(weight, by_a, by_a) + stiff_angle
        h_af += _congruence(weight, by_a, by_f)
        h_at += _congruence(weight, by_a, by_t)
        h_ff += _congruence(weight, by_f, by_f) - twice_from * current
        h_ft += _congruence(weight, by_f, by_t)
        h_tt += _congruence(weight, by_t, by_t) - twice_to * current
        block = system.diag[i]
        block[0, 0] += h_aa
        block[1, 0] += h_af
        block[1, 1] += h_ff
        block[2, 0] += pf_a
        block[2, 1] += pf_f
        block[3, 0] += qf_a
        block[3, 1] += qf_f
        block = system.diag[j]
        block[0, 0] += h_aa
        block[1, 0] -= h_at
        block[1, 1] += h_tt
        block[2, 0] -= pt_a
        block[2, 1] += pt_t
        block[3, 0] -= qt_a
        block[3, 1] += qt_t
        block = system.upper[grid.branch_block[b]]
        block[0, 0] -= h_aa
        block[1, 0] += h_at
        block[0, 1] -= h_af
        block[1, 1] += h_ft
        block[0, 2] -= pf_a
        block[1, 2] += pf_t
        block[0, 3] -= qf_a
        block[1, 3] += qf_t
        block[2, 0] += pt_a
        block[3, 0] += qt_a
        block[2, 1] += pt_f
        block[3, 1] += qt_f
        # Gradient of the Lagrangian.
        g_a = price[i, 0] * pf_a + price[i, 1] * qf_a + price[j, 0] * pt_a + price[j, 1] * qt_a
        g_f = price[i, 0] * pf_f + price[i, 1] * qf_f + price[j, 0] * pt_f + price[j, 1] * qt_f
        g_t = price[i, 0] * pf_t + price[i, 1] * qf_t + price[j, 0] * pt_t + price[j, 1] * qt_t
        g_a += limit[at_from] * lf_a + limit[at_to] * lt_a + limit[above] - limit[below]
        system.gradient_x[i, 0] += g_a
        system.gradient_x[j, 0] -= g_a
        system.gradient_x[i, 1] += g_f + limit[at_from] * lf_f + limit[at_to] * lt_f
        system.gradient_x[j, 1] += g_t + limit[at_from] * lf_t + limit[at_to] * lt_t


@compiled
def _congruence(weight: Weight, first: Gradients, second: Gradients) -> float:
    """One entry of gradientᵀ · weight · gradient: both flows of an end share a weight, each limit has its own."""
    twice_from, twice_to, stiff_from, stiff_to = weight
    return (
        twice_from * (first[0] * second[0] + first[1] * second[1])
        + twice_to * (first[2] * second[2] + first[3] * second[3])
        + stiff_from * first[4] * second[4]
        + stiff_to * first[5] * second[5]
    )


@compiled
def _capped(multiplier: float, slack: float, least_softness: float) -> float:
    """Stiffness λ/s of a limit in series with a spring of the given softness."""
    return multiplier / (slack + least_softness * multiplier)


@compiled
def _add_buses(grid: GridData, point: Iterate, system: System) -> None:
    n_bus, n_branch = len(point.x), len(grid.branch_from)
    for i in range(n_bus):
        v = point.x[i, 1]
        block = system.diag[i]
        above, below = 4 * n_branch + i, 4 * n_branch + n_bus + i
        for limit in (above, below):
            softness = system.least_softness[limit] / grid.bus_admittance[i]
            system.stiffness[limit] = _capped(point.limit[limit], point.slack[limit], softness)
        curvature = 2.0 * (grid.shunt[i, 0] * point.price[i, 0] + grid.shunt[i, 1] * point.price[i, 1])
        system.gradient_x[i, 1] += curvature * v + point.limit[above] - point.limit[below]
        block[1, 1] += curvature + system.stiffness[above] + system.stiffness[below]
        block[2, 1] += 2.0 * grid.shunt[i, 0] * v
        block[3, 1] += 2.0 * grid.shunt[i, 1] * v
        block[0, 1] = block[1, 0]
        for c in range(2):
            block[c, 2], block[c, 3] = block[2, c], block[3, c]


@compiled
def _add_tied(grid: GridData, local: LocalData, point: Iterate, system: System) -> None:
    """Entries of S of tied variables, and what a compensator's b v² adds to the block of its bus."""
    for t in range(len(local.tied)):
        sign = system.tied_sign[t]
        if local.tied_block[t] >= 0:
            sign[0], sign[1] = local.tied_gain[t, 0], local.tied_gain[t, 1]
            continue
        bus, susceptance = local.tied_bus[t, 0], point.u[local.tied[t]]
        v, price, block = point.x[bus, 1], point.price[bus, 1], system.diag[bus]
        sign[0], sign[1] = v * v, 0.0 if grid.fixed[bus, 1] else 2.0 * price * v
        system.gradient_x[bus, 1] -= 2.0 * price * susceptance * v
        block[1, 1] -= 2.0 * price * susceptance
        block[1, 3] -= 2.0 * susceptance * v
        block[3, 1] -= 2.0 * susceptance * v


@compiled
def _clear_fixed(grid: GridData, pattern: Pattern, system: System) -> None:
    """Make row and column of each fixed variable those of the identity."""
    for i in range(len(grid.fixed)):
        for c in range(2):
            if grid.fixed[i, c]:
                system.gradient_x[i, c] = 0.0
                for k in range(4):
                    system.diag[i, c, k] = 0.0
                    system.diag[i, k, c] = 0.0
                system.diag[i, c, c] = 1.0
    for a in range(len(pattern.row)):
        i, j = pattern.row[a], pattern.col[a]
        for c in range(2):
            if grid.fixed[i, c]:
                for k in range(4):
                    system.upper[a, k, c] = 0.0
            if grid.fixed[j, c]:
                for k in range(4):
                    system.upper[a, c, k] = 0.0


@compiled
def _fill_local(local: LocalData, point: Iterate, system: System) -> None:
    """Gradient and curvature of the local variables, gradients of the dense rows."""
    u = point.u
    n_rows = len(local.row_low)
    for k in range(len(u)):
        system.gradient_u[k] = (
            local.quadratic[k] * u[k] + local.linear[k] - local.sign[k] * point.price[local.bus[k], local.row[k]]
        )
        curvature = local.quadratic[k]
        if local.low[k] > -inf:
            curvature += point.u_bound[k, 0] / (u[k] - local.low[k])
        if local.high[k] < inf:
            curvature += point.u_bound[k, 1] / (local.high[k] - u[k])
        system.curvature_u[k] = curvature
    for t in range(len(local.tied)):
        k, first, second = local.tied[t], local.tied_bus[t, 0], local.tied_bus[t, 1]
        if local.tied_block[t] >= 0:
            fed = local.tied_gain[t, 0] * point.price[first, 0] + local.tied_gain[t, 1] * point.price[second, 0]
        else:
            fed = point.price[first, 1] * point.x[first, 1] * point.x[first, 1]
        system.gradient_u[k] -= fed
    for r in range(n_rows):
        above = len(point.limit) - 2 * n_rows + r
        below = above + n_rows
        system.stiffness[above] = _capped(point.limit[above], point.slack[above], DENSE_SOFTNESS)
        system.stiffness[below] = _capped(point.limit[below], point.slack[below], DENSE_SOFTNESS)
        system.softness[r] = 1.0 / (system.stiffness[above] + system.stiffness[below])
        weight = point.limit[above] - point.limit[below]
        if n_rows > FEW_ROWS:
            _fill_row_entries(local, u, system, r, weight)
            continue
        for k in range(len(u)):
            gradient = local.row_quadratic[r, k] * u[k] + local.row_linear[r, k]
            system.row_gradient[r, k] = gradient
            system.gradient_u[k] += weight * gradient
            system.curvature_u[k] += weight * local.row_quadratic[r, k]


@compiled
def _fill_row_entries(local: LocalData, u: Floats, system: System, r: int, weight: float) -> None:
    """The gradient of one of many rows, which depends on few variables."""
    for i in range(system.row_start[r], system.row_start[r + 1]):
        k = system.row_entry[i]
        gradient = local.row_quadratic[r, k] * u[k] + local.row_linear[r, k]
        system.row_gradient[r, k] = gradient
        system.gradient_u[k] += weight * gradient
        system.curvature_u[k] += weight * local.row_quadratic[r, k]


@compiled
def local_pivot(curvature: float, shift: float) -> float:
    """Pivot of a local variable, kept away from zero: without bounds and curvature it would have none at all."""
    pivot = curvature + shift
    if abs(pivot) < LEAST_PIVOT:
        return LEAST_PIVOT
    return pivot


@compiled
def _eliminate_tied(local: LocalData, system: System, t: int, pivot: float) -> None:
    """Subtract the rank-one matrix that a tied variable leaves: over two buses, or within the block of one."""
    diag, sign = system.pivots, system.tied_sign[t]
    first, second = local.tied_bus[t, 0], local.tied_bus[t, 1]
    a, b = local.tied_row[t, 0], local.tied_row[t, 1]
    diag[first, a, a] -= sign[0] * sign[0] / pivot
    diag[second, b, b] -= sign[1] * sign[1] / pivot
    cross = sign[0] * sign[1] / pivot
    if local.tied_block[t] >= 0:
        system.work_upper[local.tied_block[t], a, b] -= cross
    else:
        diag[first, a, b] -= cross
        diag[first, b, a] -= cross


@compiled
def condense(grid: GridData, local: LocalData, system: System, shift: float) -> int:
    """Eliminate the local variables into ``pivots``, ``work_upper``, ``border`` and ``corner``; return their negative pivots."""
    diag = system.pivots
    copy_blocks(system.diag, diag)
    copy_blocks(system.upper, system.work_upper)
    for i in range(len(diag)):
        for c in range(2):
            if not grid.fixed[i, c]:
                diag[i, c, c] += shift
            diag[i, 2 + c, 2 + c] -= DELTA_C
    negative = 0
    for k in range(len(local.bus)):
        pivot = local_pivot(system.curvature_u[k], shift)
        negative += pivot < 0.0
        diag[local.bus[k], 2 + local.row[k], 2 + local.row[k]] -= local.sign[k] * local.sign[k] / pivot
    for t in range(len(local.tied)):
        _eliminate_tied(local, system, t, local_pivot(system.curvature_u[local.tied[t]], shift))
    n_rows = len(local.row_low)
    if n_rows > FEW_ROWS:
        _condense_many_rows(local, system, shift)
        return negative
    system.border[:] = 0.0
    for r in range(n_rows):
        for q in range(r + 1):
            total = system.softness[r] if q == r else 0.0
            for k in range(len(local.bus)):
                pivot = local_pivot(system.curvature_u[k], shift)
                total += system.row_gradient[r, k] * system.row_gradient[q, k] / pivot
            system.corner[r, q] = total
            system.corner[q, r] = total
        for k in range(len(local.bus)):
            pivot = local_pivot(system.curvature_u[k], shift)
            system.border[r, local.bus[k], 2 + local.row[k]] += local.sign[k] * system.row_gradient[r, k] / pivot
        for t in range(len(local.tied)):
            k = local.tied[t]
            share = system.row_gradient[r, k] / local_pivot(system.curvature_u[k], shift)
            for end in range(2):
                system.border[r, local.tied_bus[t, end], local.tied_row[t, end]] += system.tied_sign[t, end] * share
    return negative


@compiled
def _condense_many_rows(local: LocalData, system: System, shift: float) -> None:
    """Corner and border of many rows with few entries each; the border goes to ``half``, to be solved for in place."""
    n_rows, half, touched = len(local.row_low), system.half, system.touched
    half[:] = 0.0
    touched[:] = False
    inverse = np.empty(len(local.bus))
    for k in range(len(inverse)):
        inverse[k] = 1.0 / local_pivot(system.curvature_u[k], shift)
    for r in range(n_rows):
        first, end = system.row_start[r], system.row_start[r + 1]
        for q in range(r + 1):
            total = system.softness[r] if q == r else 0.0
            for i in range(first, end):
                k = system.row_entry[i]
                total += system.row_gradient[r, k] * system.row_gradient[q, k] * inverse[k]
            system.corner[r, q] = total
            system.corner[q, r] = total
        for i in range(first, end):
            k = system.row_entry[i]
            if local.sign[k] != 0.0:
                half[local.bus[k] * n_rows + r, 2 + local.row[k]] += (
                    local.sign[k] * system.row_gradient[r, k] * inverse[k]
                )
                touched[local.bus[k], r] = True
        for t in range(len(local.tied)):
            k = local.tied[t]
            share = system.row_gradient[r, k] * inverse[k]
            if share != 0.0:
                for end_of_line in range(2):
                    bus = local.tied_bus[t, end_of_line]
                    half[bus * n_rows + r, local.tied_row[t, end_of_line]] += system.tied_sign[t, end_of_line] * share
                    touched[bus, r] = True
