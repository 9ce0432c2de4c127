"""The Newton direction: factorisation with the right inertia, bordered solve with refinement, recovery of the rest."""

from math import inf

import numpy as np
from numpy.typing import NDArray

from gridveil.programs.bus_order import Pattern
from gridveil.programs.kernel import compiled
from gridveil.solvers.structured.assembly import condense, local_pivot
from gridveil.solvers.structured.blocks import (
    SINGULAR,
    factorise,
    forward_border,
    invert_symmetric,
    substitute,
    substitute_bordered,
    subtract_border_squares,
    subtract_matrix_product,
)
from gridveil.solvers.structured.layout import Iterate, LocalData, Problem, System, Unknowns, Values, copy_blocks
from gridveil.solvers.structured.settings import (
    DELTA_C,
    DELTA_W_FIRST,
    DELTA_W_MAX,
    DELTA_W_MIN,
    FEW_ROWS,
    KAPPA_W_FIRST,
    KAPPA_W_GROW,
    KAPPA_W_SHRINK,
    LEFT_OVER,
    MOST_FACTORISATIONS,
    REFINED,
    SOFTNESS_MIN,
)

Floats = NDArray[np.float64]


@compiled
def factorise_with_inertia(problem: Problem, system: System, last_shift: float) -> tuple[float, int]:
    """Factor the bordered matrix, shifting the Hessian until it has 2N + m negative eigenvalues.

    Returns the shift used (infinite if none sufficed) and the number of factorisations.
    """
    wanted = 2 * len(system.diag) + len(problem.local.row_low)
    shift = 0.0
    for tries in range(1, MOST_FACTORISATIONS + 1):
        if _factorise(problem, system, shift) == wanted:
            return shift, tries
        if shift == 0.0:
            shift = DELTA_W_FIRST if last_shift == 0.0 else max(DELTA_W_MIN, last_shift / KAPPA_W_SHRINK)
        else:
            shift *= KAPPA_W_FIRST if last_shift == 0.0 else KAPPA_W_GROW
        if shift > DELTA_W_MAX:
            break
    return inf, tries


@compiled
def _factorise(problem: Problem, system: System, shift: float) -> int:
    """Factor under one shift; return the negative eigenvalues of the whole bordered matrix, or SINGULAR."""
    local, pattern = problem.local, problem.pattern
    negative = condense(problem.grid, local, system, shift)
    found = factorise(pattern, system.pivots, system.work_upper, system.factor)
    if found == SINGULAR:
        return SINGULAR
    negative += found
    n_rows = len(local.row_low)
    if n_rows == 0:
        return negative
    if n_rows > FEW_ROWS:
        forward_border(pattern, system.factor, system.half, system.touched)
        for r in range(n_rows):
            for q in range(n_rows):
                system.schur_inverse[r, q] = -system.corner[r, q]
        subtract_border_squares(system.pivots, system.half, system.touched, system.schur_inverse)
        found = invert_symmetric(system.schur_inverse, n_rows)
        return SINGULAR if found == SINGULAR else negative + found
    copy_blocks(system.border, system.border_solution)
    for r in range(n_rows):
        substitute(pattern, system.pivots, system.factor, system.border_solution[r])
    for r in range(n_rows):
        for q in range(n_rows):
            system.schur_inverse[r, q] = -system.corner[r, q] - _inner(system.border[r], system.border_solution[q])
    for r in range(n_rows):
        for q in range(r):
            mean = 0.5 * (system.schur_inverse[r, q] + system.schur_inverse[q, r])
            system.schur_inverse[r, q], system.schur_inverse[q, r] = mean, mean
    found = invert_symmetric(system.schur_inverse, n_rows)
    return SINGULAR if found == SINGULAR else negative + found


@compiled
def _inner(first: Floats, second: Floats) -> float:
    """Inner product of two arrays of one shape, without the array of products that an expression would make."""
    total = 0.0
    left, right = first.reshape(-1), second.reshape(-1)
    for i in range(len(left)):
        total += left[i] * right[i]
    return total


@compiled
def _largest(values: Floats) -> float:
    """Largest absolute value, 0 of none."""
    largest = 0.0
    for value in values.reshape(-1):
        largest = max(largest, abs(value))
    return largest


@compiled
def _add_multiple(factor: float, source: Floats, target: Floats) -> None:
    """target += factor · source for arrays (N, 4)."""
    added, total = source.reshape(-1), target.reshape(-1)
    for i in range(len(added)):
        total[i] += factor * added[i]


@compiled
def _bordered_solve(pattern: Pattern, system: System, x: Floats, rho: Floats) -> None:
    """Overwrite the right-hand side (x, rho) with the solution of the condensed bordered system."""
    substitute(pattern, system.pivots, system.factor, x)
    n_rows = len(rho)
    if n_rows > 0:
        for r in range(n_rows):
            rho[r] -= _inner(system.border[r], x)
        # Not np.dot, here and below: its library is scipy's, which takes longer to load than a small network to solve.
        reduced = rho.copy()
        for r in range(n_rows):
            rho[r] = _inner(system.schur_inverse[r], reduced)
        for r in range(n_rows):
            _add_multiple(-rho[r], system.border_solution[r], x)


@compiled
def _tied_product(local: LocalData, system: System, t: int, x: Floats) -> float:
    """Row of Sᵀ of a tied variable times a vector over the buses."""
    total = 0.0
    for end in range(2):
        total += system.tied_sign[t, end] * x[local.tied_bus[t, end], local.tied_row[t, end]]
    return total


@compiled
def _solve_once(problem: Problem, system: System, shift: float, sought: Unknowns) -> None:
    """Overwrite the right-hand side ``sought`` with the solution: condense u, solve, recover u."""
    local = problem.local
    x, u, rho = sought.bus, sought.u, sought.rho
    n_rows = len(rho)
    if n_rows > FEW_ROWS:
        _solve_many_rows(problem, system, shift, sought)
        return
    for k in range(len(u)):
        share = u[k] / local_pivot(system.curvature_u[k], shift)
        x[local.bus[k], 2 + local.row[k]] += local.sign[k] * share
        for r in range(n_rows):
            rho[r] -= system.row_gradient[r, k] * share
    for t in range(len(local.tied)):
        share = u[local.tied[t]] / local_pivot(system.curvature_u[local.tied[t]], shift)
        for end in range(2):
            x[local.tied_bus[t, end], local.tied_row[t, end]] += system.tied_sign[t, end] * share
    _bordered_solve(problem.pattern, system, x, rho)
    for t in range(len(local.tied)):
        u[local.tied[t]] += _tied_product(local, system, t, x)
    for k in range(len(u)):
        total = u[k] + local.sign[k] * x[local.bus[k], 2 + local.row[k]]
        for r in range(n_rows):
            total -= system.row_gradient[r, k] * rho[r]
        u[k] = total / local_pivot(system.curvature_u[k], shift)


@compiled
def _solve_many_rows(problem: Problem, system: System, shift: float, sought: Unknowns) -> None:
    """``_solve_once`` where rows are many and have few entries each."""
    local, start, entry = problem.local, system.row_start, system.row_entry
    x, u, rho = sought.bus, sought.u, sought.rho
    share = np.empty(len(u))
    for k in range(len(u)):
        share[k] = u[k] / local_pivot(system.curvature_u[k], shift)
        x[local.bus[k], 2 + local.row[k]] += local.sign[k] * share[k]
    for t in range(len(local.tied)):
        for end in range(2):
            x[local.tied_bus[t, end], local.tied_row[t, end]] += system.tied_sign[t, end] * share[local.tied[t]]
    for r in range(len(rho)):
        for i in range(start[r], start[r + 1]):
            rho[r] -= system.row_gradient[r, entry[i]] * share[entry[i]]
    substitute_bordered(
        problem.pattern, system.pivots, system.factor, system.half, system.touched, system.schur_inverse, x, rho
    )
    for t in range(len(local.tied)):
        u[local.tied[t]] += _tied_product(local, system, t, x)
    for k in range(len(u)):
        u[k] += local.sign[k] * x[local.bus[k], 2 + local.row[k]]
    for r in range(len(rho)):
        for i in range(start[r], start[r + 1]):
            u[entry[i]] -= system.row_gradient[r, entry[i]] * rho[r]
    for k in range(len(u)):
        u[k] /= local_pivot(system.curvature_u[k], shift)


@compiled
def _residual(problem: Problem, system: System, shift: float, solution: Unknowns) -> float:
    """Fill the residuals of the system before the local variables are condensed; return the largest."""
    grid, local, rhs = problem.grid, problem.local, system.rhs
    x, u, rho = solution.bus, solution.u, solution.rho
    n_rows = len(rho)
    residual, residual_u, residual_rho = system.residual.bus, system.residual.u, system.residual.rho
    copy_blocks(rhs.bus, residual)
    subtract_matrix_product(problem.pattern, system.diag, system.upper, x, residual)
    for i in range(len(x)):
        for c in range(2):
            if not grid.fixed[i, c]:
                residual[i, c] -= shift * x[i, c]
            residual[i, 2 + c] += DELTA_C * x[i, 2 + c]
    for r in range(n_rows):
        residual_rho[r] = rhs.rho[r] + system.softness[r] * rho[r]
    n_dense = n_rows if n_rows <= FEW_ROWS else 0
    for k in range(len(u)):
        pivot = local_pivot(system.curvature_u[k], shift)
        residual[local.bus[k], 2 + local.row[k]] += local.sign[k] * u[k]
        residual_u[k] = rhs.u[k] - pivot * u[k] + local.sign[k] * x[local.bus[k], 2 + local.row[k]]
        for r in range(n_dense):
            residual_u[k] -= system.row_gradient[r, k] * rho[r]
            residual_rho[r] -= system.row_gradient[r, k] * u[k]
    for r in range(n_dense, n_rows):
        for i in range(system.row_start[r], system.row_start[r + 1]):
            k = system.row_entry[i]
            residual_u[k] -= system.row_gradient[r, k] * rho[r]
            residual_rho[r] -= system.row_gradient[r, k] * u[k]
    for t in range(len(local.tied)):
        k = local.tied[t]
        residual_u[k] += _tied_product(local, system, t, x)
        for end in range(2):
            residual[local.tied_bus[t, end], local.tied_row[t, end]] += system.tied_sign[t, end] * u[k]
    return max(_largest(residual), _largest(residual_u))


@compiled
def _solve_refined(problem: Problem, system: System, shift: float, refinements: int, solution: Unknowns) -> None:
    """Solve for the right-hand sides in ``system`` with iterative refinement."""
    rhs, correction = system.rhs, system.residual
    copy_blocks(rhs.bus, solution.bus)
    solution.u[:] = rhs.u
    solution.rho[:] = rhs.rho
    scale = _largest(rhs.bus)
    _solve_once(problem, system, shift, solution)
    for _ in range(refinements):
        if _residual(problem, system, shift, solution) <= REFINED * scale:
            break
        _solve_once(problem, system, shift, correction)
        _add_multiple(1.0, correction.bus, solution.bus)
        solution.u[:] += correction.u
        for r in range(len(solution.rho)):
            solution.rho[r] += correction.rho[r]


@compiled
def direction(
    problem: Problem, point: Iterate, constraint: Values, system: System, shift: float, refinements: int, step: Iterate
) -> None:
    """Fill ``step`` with the Newton direction for the products aimed at and the given constraint residuals."""
    local = problem.local
    _right_hand_side(problem, point, constraint, system)
    bus = np.empty((len(point.x), 4))
    _solve_refined(problem, system, shift, refinements, Unknowns(bus=bus, u=step.u, rho=np.empty(len(local.row_low))))
    for i in range(len(bus)):
        step.x[i, 0], step.x[i, 1] = bus[i, 0], bus[i, 1]
        step.price[i, 0], step.price[i, 1] = bus[i, 2], bus[i, 3]
    _recover_limits(problem, point, constraint, system, step)
    for k in range(len(point.u)):
        if local.low[k] > -inf:
            below, z_low = point.u[k] - local.low[k], point.u_bound[k, 0]
            step.u_bound[k, 0] = (system.aim_u[k, 0] - z_low * step.u[k]) / below - z_low
        if local.high[k] < inf:
            above, z_high = local.high[k] - point.u[k], point.u_bound[k, 1]
            step.u_bound[k, 1] = (system.aim_u[k, 1] + z_high * step.u[k]) / above - z_high


@compiled
def aim_at(system: System, mu: float) -> None:
    """Aim at one product of distance and multiplier everywhere."""
    system.aim[:] = mu
    system.aim_u[:] = mu


@compiled
def aim_beyond(system: System, predictor: Iterate, mu: float, most: float) -> None:
    """Aim at ``mu`` less the product of steps that the predictor neglected, but at most ``most`` away."""
    for i in range(len(system.aim)):
        system.aim[i] = mu - _within(predictor.slack[i] * predictor.limit[i], most)
    for k in range(len(predictor.u)):
        system.aim_u[k, 0] = mu - _within(predictor.u[k] * predictor.u_bound[k, 0], most)
        system.aim_u[k, 1] = mu + _within(predictor.u[k] * predictor.u_bound[k, 1], most)


@compiled
def _within(value: float, most: float) -> float:
    return min(max(value, -most), most)


@compiled
def _right_hand_side(problem: Problem, point: Iterate, constraint: Values, system: System) -> None:
    grid, local = problem.grid, problem.local
    rhs, force = system.rhs.bus, system.force
    n_bus, n_branch, n_rows = len(rhs), len(grid.branch_from), len(local.row_low)
    # What each limit exerts on its variables when its slack and multiplier are eliminated.
    for i in range(len(force)):
        force[i] = 0.0
        if local.active[i]:
            force[i] = system.stiffness[i] * (constraint.limit[i] - point.slack[i] + system.aim[i] / point.limit[i])
    for i in range(n_bus):
        rhs[i, 0] = -system.gradient_x[i, 0]
        rhs[i, 1] = -system.gradient_x[i, 1] - force[4 * n_branch + i] + force[4 * n_branch + n_bus + i]
        rhs[i, 2] = -constraint.balance[i, 0]
        rhs[i, 3] = -constraint.balance[i, 1]
    for b in range(n_branch):
        i, j = grid.branch_from[b], grid.branch_to[b]
        across = force[2 * n_branch + b] - force[3 * n_branch + b]
        for end in range(2):
            push = force[end * n_branch + b]
            across += push * system.limit_gradient[b, end, 0]
            rhs[i, 1] -= push * system.limit_gradient[b, end, 1]
            rhs[j, 1] -= push * system.limit_gradient[b, end, 2]
        rhs[i, 0] -= across
        rhs[j, 0] += across
    for i in range(n_bus):
        for c in range(2):
            if grid.fixed[i, c]:
                rhs[i, c] = 0.0
    for r in range(n_rows):
        above = len(force) - 2 * n_rows + r
        system.rhs.rho[r] = (force[above + n_rows] - force[above]) * system.softness[r]
    for k in range(len(point.u)):
        pull = system.gradient_u[k]
        if local.low[k] > -inf:
            pull -= system.aim_u[k, 0] / (point.u[k] - local.low[k])
        if local.high[k] < inf:
            pull += system.aim_u[k, 1] / (local.high[k] - point.u[k])
        system.rhs.u[k] = -pull


@compiled
def _recover_limits(problem: Problem, point: Iterate, constraint: Values, system: System, step: Iterate) -> None:
    """Steps of limit multipliers from the step of the variables, of slacks from those of the multipliers."""
    grid, local = problem.grid, problem.local
    n_bus, n_branch, n_rows = len(point.x), len(grid.branch_from), len(local.row_low)
    change = step.limit
    for b in range(n_branch):
        i, j = grid.branch_from[b], grid.branch_to[b]
        across = step.x[i, 0] - step.x[j, 0]
        for end in range(2):
            change[end * n_branch + b] = (
                system.limit_gradient[b, end, 0] * across
                + system.limit_gradient[b, end, 1] * step.x[i, 1]
                + system.limit_gradient[b, end, 2] * step.x[j, 1]
            )
        change[2 * n_branch + b] = across
        change[3 * n_branch + b] = -across
    for i in range(n_bus):
        change[4 * n_branch + i] = step.x[i, 1]
        change[4 * n_branch + n_bus + i] = -step.x[i, 1]
    for r in range(n_rows):
        above = len(change) - 2 * n_rows + r
        change[above] = _inner(system.row_gradient[r], step.u)
        change[above + n_rows] = -change[above]
    for i in range(len(change)):
        if local.active[i]:
            wanted = system.aim[i] / point.limit[i] - point.slack[i]
            step.limit[i] = system.stiffness[i] * (change[i] + constraint.limit[i] + wanted)
            # Complementarity gives the slack: the limit itself would, as a difference of large numbers.
            step.slack[i] = wanted - point.slack[i] * step.limit[i] / point.limit[i]
        else:
            step.limit[i] = 0.0
            step.slack[i] = 0.0


@compiled
def stiffen(
    local: LocalData, point: Iterate, system: System, step: Iterate, infeasibility: float, factor: float
) -> None:
    """Multiply the softness of each limit that the step would leave violated by much of the present infeasibility."""
    for i in range(len(step.limit)):
        if local.active[i] and system.stiffness[i] > 0.0:
            left_over = (1.0 / system.stiffness[i] - point.slack[i] / point.limit[i]) * abs(step.limit[i])
            if left_over > LEFT_OVER * infeasibility:
                system.least_softness[i] = max(factor * system.least_softness[i], SOFTNESS_MIN)
