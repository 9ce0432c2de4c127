"""The arrays that the compiled code works on, as named tuples (buses stand in elimination order throughout).

Sizes: N buses, L branches, n local variables, m dense rows (at most 3), M = 4 L + 2 N + 2 m one-sided limits.
Limits are stacked as flow at the from end (L), flow at the to end (L), angle above (L), angle below (L), magnitude above (N),
magnitude below (N), dense row above (m), dense row below (m).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridveil.solvers.structured.kernel import compiled

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class GridData(NamedTuple):
    """What does not change between the problems of one network."""

    branch_from: Ints
    branch_to: Ints
    branch_block: Ints
    flow: Floats
    """(L, 4, 3) coefficients (own, cos, sin) of the flows Pf, Qf, Pt, Qt, see branch_flows."""
    rate_squared: Floats
    flow_scale: Floats
    """Factor on |S|² − rate², so that a limit row measures apparent power rather than its square."""
    angle_low: Floats
    angle_high: Floats
    shunt: Floats
    """(N, 2) active and reactive power that the shunt draws per |V|²."""
    v_low: Floats
    v_high: Floats
    branch_admittance: Floats
    bus_admittance: Floats
    """Sizes against which the stiffness of limits is capped."""
    fixed: Bools
    """(N, 2) whether the angle, the magnitude of a bus stays at its starting value."""


class LocalData(NamedTuple):
    """The local variables u (generators, loads), objective and dense rows, all separable in u, of one problem."""

    bus: Ints
    row: Ints
    """0 for active, 1 for reactive power."""
    sign: Floats
    """+1 feeds the bus, −1 draws from it."""
    low: Floats
    high: Floats
    linear: Floats
    quadratic: Floats
    """The objective is Σ quadratic/2 u² + linear u."""
    row_linear: Floats
    row_quadratic: Floats
    """(m, n), the dense rows likewise."""
    row_low: Floats
    row_high: Floats
    fixed_draw: Floats
    """(N, 2) power drawn at each bus by what is not variable."""
    active: Bools
    """(M,) which limits exist."""


class Iterate(NamedTuple):
    """Primal and dual variables; slacks and multipliers of limits and bounds are positive where they exist."""

    x: Floats
    """(N, 2) angle and magnitude."""
    u: Floats
    slack: Floats
    price: Floats
    """(N, 2) multipliers of the balances."""
    limit: Floats
    """(M,) multipliers of the limits."""
    u_bound: Floats
    """(n, 2) multipliers of the lower, the upper bound on u."""


class Values(NamedTuple):
    """Functions at a primal point."""

    trig: Floats
    """(L, 2) cosine and sine of the angle across each branch."""
    balance: Floats
    """(N, 2) draw minus feed."""
    limit: Floats
    """(M,) limit function plus slack."""


class System(NamedTuple):
    """The Newton system before and after the local variables are eliminated."""

    limit_gradient: Floats
    """(L, 2, 3) of the two flow limits with respect to angle across, magnitude from, magnitude to."""
    row_gradient: Floats
    """(m, n)"""
    gradient_x: Floats
    """(N, 2) of the Lagrangian without the bounds."""
    gradient_u: Floats
    curvature_u: Floats
    """(n,) second derivative of Lagrangian and barrier; the pivot of a local variable."""
    diag: Floats
    upper: Floats
    """(nnz, 4, 4) transposed blocks of the pattern: rows of the bus eliminated earlier, columns of the later one."""
    pivots: Floats
    work_upper: Floats
    factor: Floats
    border: Floats
    """(m, N, 4)"""
    border_solution: Floats
    corner: Floats
    """(m, m), positive: the lower right corner of the bordered matrix is minus this."""
    schur_inverse: Floats
    rhs: Floats
    residual: Floats
    corner_rhs: Floats
    corner_residual: Floats
    rhs_u: Floats
    residual_u: Floats
    softness: Floats
    """(m,) inverse stiffness that the barrier gives to each dense row."""
    stiffness: Floats
    """(M,) curvature that the barrier gives to each limit, capped (docs/structured-solver.md, "Capped stiffness")."""
    least_softness: Floats
    """(M,) cap on the stiffness of each limit, as its inverse relative to gradient and admittance."""
    force: Floats
    """(M,) right-hand side that each limit leaves behind."""
    aim: Floats
    """(M,) product of slack and multiplier that the step aims at."""
    aim_u: Floats
    """(n, 2) the same for the lower, the upper bound on u."""


@compiled
def allocate_iterate(n_bus: int, n_local: int, n_limits: int) -> Iterate:
    """Give an iterate of zeros."""
    return Iterate(
        np.zeros((n_bus, 2)),
        np.zeros(n_local),
        np.zeros(n_limits),
        np.zeros((n_bus, 2)),
        np.zeros(n_limits),
        np.zeros((n_local, 2)),
    )


@compiled
def allocate_values(n_bus: int, n_branch: int, n_limits: int) -> Values:
    """Give values of zeros."""
    return Values(np.zeros((n_branch, 2)), np.zeros((n_bus, 2)), np.zeros(n_limits))


@compiled
def allocate_system(n_bus: int, n_branch: int, n_blocks: int, n_local: int, n_rows: int) -> System:
    """Give a system of zeros."""
    return System(
        np.zeros((n_branch, 2, 3)),
        np.zeros((n_rows, n_local)),
        np.zeros((n_bus, 2)),
        np.zeros(n_local),
        np.zeros(n_local),
        np.zeros((n_bus, 4, 4)),
        np.zeros((n_blocks, 4, 4)),
        np.zeros((n_bus, 4, 4)),
        np.zeros((n_blocks, 4, 4)),
        np.zeros((n_blocks, 4, 4)),
        np.zeros((n_rows, n_bus, 4)),
        np.zeros((n_rows, n_bus, 4)),
        np.zeros((n_rows, n_rows)),
        np.zeros((n_rows, n_rows)),
        np.zeros((n_bus, 4)),
        np.zeros((n_bus, 4)),
        np.zeros(n_rows),
        np.zeros(n_rows),
        np.zeros(n_local),
        np.zeros(n_local),
        np.zeros(n_rows),
        np.zeros(4 * n_branch + 2 * n_bus + 2 * n_rows),
        np.zeros(4 * n_branch + 2 * n_bus + 2 * n_rows),
        np.zeros(4 * n_branch + 2 * n_bus + 2 * n_rows),
        np.zeros(4 * n_branch + 2 * n_bus + 2 * n_rows),
        np.zeros((n_local, 2)),
    )


@compiled
def copy_iterate(source: Iterate, target: Iterate) -> None:
    """Copy every array of ``source`` into ``target``."""
    target.x[:] = source.x
    target.u[:] = source.u
    target.slack[:] = source.slack
    target.price[:] = source.price
    target.limit[:] = source.limit
    target.u_bound[:] = source.u_bound


@compiled
def copy_blocks(source: Floats, target: Floats) -> None:
    """Copy an array of blocks or rows entry by entry, in a quarter of the time of an assignment to a slice."""
    entries, copied = source.reshape(-1), target.reshape(-1)
    for i in range(len(entries)):
        copied[i] = entries[i]
