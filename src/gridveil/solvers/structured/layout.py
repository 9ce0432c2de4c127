"""The arrays that the compiled code works on, as named tuples (buses stand in elimination order throughout).

Sizes: N buses, L branches, n local variables, T of them tied (see ``LocalData``), m dense rows, nnz blocks
below the diagonal of the factor, M = 4 L + 2 N + 2 m one-sided limits. Limits are stacked as flow at the from end (L), flow
at the to end (L), angle above (L), angle below (L), magnitude above (N), magnitude below (N), dense row above (m), dense row
below (m).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridveil.programs.bus_order import Pattern
from gridveil.programs.kernel import compiled
from gridveil.solvers.structured.settings import FEW_ROWS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class GridData(NamedTuple):
    """What does not change between the problems of one network; per unit and radians."""

    branch_from: Ints
    """(L,) bus at the from end of each branch, the one eliminated later."""
    branch_to: Ints
    """(L,) bus at its to end."""
    branch_block: Ints
    """(L,) which block of the pattern couples the two."""
    flow: Floats
    """(L, 4, 3) coefficients (own, cos, sin) of the flows Pf, Qf, Pt, Qt, see branch_flows."""
    rate_squared: Floats
    """(L,) limit on |S|² − current² v² at either end, infinite where there is none, 0 for a limit on the current."""
    current_squared: Floats
    """(L,) limit on |I|² at either end where that is limited, 0 elsewhere."""
    flow_scale: Floats
    """(L,) factor on the limited difference, so that a limit row measures apparent power rather than its square."""
    angle_low: Floats
    """(L,) least θ_from − θ_to."""
    angle_high: Floats
    """(L,) largest θ_from − θ_to."""
    shunt: Floats
    """(N, 2) active and reactive power that the shunt draws per |V|²."""
    v_low: Floats
    """(N,) least magnitude."""
    v_high: Floats
    """(N,) largest magnitude."""
    branch_admittance: Floats
    """(L,) size against which the stiffness of a branch's limits is capped."""
    bus_admittance: Floats
    """(N,) the same for the limits on a magnitude."""
    fixed: Bools
    """(N, 2) whether the angle, the magnitude of a bus stays at its starting value."""


class LocalData(NamedTuple):
    """The local variables u (generators, loads), objective and dense rows, all separable in u, of one problem.

    A *tied* variable has a sign of 0 and enters two rows of the Newton system instead of one balance: the power of a DC
    line the active balances of two buses; a compensator's susceptance b, which feeds b v², the reactive balance and the
    derivative with respect to v of its bus.
    """

    bus: Ints
    """(n,) bus whose balance the variable enters."""
    row: Ints
    """(n,) which balance of that bus: 0 for active, 1 for reactive power."""
    sign: Floats
    """(n,) +1 feeds the bus, −1 draws from it, 0 for tied variables: the entries of S."""
    tied: Ints
    """(T,) which variables are tied."""
    tied_bus: Ints
    """(T, 2) the two buses of each, which are the same for a compensator."""
    tied_row: Ints
    """(T, 2) the two rows of those buses' blocks: 2, 2 (prices of P) or 3, 1 (price of Q, v)."""
    tied_gain: Floats
    """(T, 2) what one unit feeds into the two balances of a DC line; zeros for a compensator."""
    tied_block: Ints
    """(T,) which block of the pattern couples the two buses, −1 for a compensator."""
    low: Floats
    """(n,) lower bound, −inf where there is none."""
    high: Floats
    """(n,) upper bound, inf where there is none."""
    linear: Floats
    """(n,) the objective is Σ quadratic/2 u² + linear u, scaled."""
    quadratic: Floats
    """(n,) its second derivative."""
    row_linear: Floats
    """(m, n) the dense rows are Σ row_quadratic/2 u² + row_linear u, scaled."""
    row_quadratic: Floats
    """(m, n) their second derivatives."""
    row_low: Floats
    """(m,) least value of each dense row."""
    row_high: Floats
    """(m,) largest value of each dense row."""
    fixed_draw: Floats
    """(N, 2) power drawn at each bus by what is not variable."""
    active: Bools
    """(M,) which limits exist."""


class Problem(NamedTuple):
    """What a run is given and never writes."""

    grid: GridData
    local: LocalData
    pattern: Pattern


class Iterate(NamedTuple):
    """Primal and dual variables; slacks and multipliers of limits and bounds are positive where they exist."""

    x: Floats
    """(N, 2) angle and magnitude."""
    u: Floats
    """(n,) local variables."""
    slack: Floats
    """(M,) s of each limit, 1 where the limit does not exist."""
    price: Floats
    """(N, 2) y, multipliers of the balances."""
    limit: Floats
    """(M,) λ, multipliers of the limits."""
    u_bound: Floats
    """(n, 2) z, multipliers of the lower, the upper bound on u."""


class Values(NamedTuple):
    """Functions at a primal point."""

    trig: Floats
    """(L, 2) cosine and sine of the angle across each branch."""
    balance: Floats
    """(N, 2) draw minus feed."""
    limit: Floats
    """(M,) limit function plus slack."""


class Unknowns(NamedTuple):
    """A vector of the Newton system: a right-hand side, a residual or a solution."""

    bus: Floats
    """(N, 4) for θ, v, price of P, price of Q of each bus."""
    u: Floats
    """(n,) for the local variables."""
    rho: Floats
    """(m,) for ρ, the multipliers (above minus below) of the dense rows."""


# Slacks and multipliers of limits and bounds are eliminated before anything is stored: a limit h leaves
# stiffness · ∇h ∇hᵀ in W and −force · ∇h on the right. What is stored first is
#
#     ┌                                ┐ ┌    ┐
#     │ W + δ_w I    Jᵀ     0      0   │ │ Δx │          W, J  diag, upper
#     │     J      −δ_c I  −S      0   │ │ Δy │          S     LocalData.sign
#     │     0       −Sᵀ     H      Gᵀ  │ │ Δu │  =  rhs  H     curvature_u + δ_w
#     │     0        0      G     −E   │ │ Δρ │          G, E  row_gradient, softness
#     └                                ┘ └    ┘
#
# (for a compensator S has an entry beside Δx, too) and, H being diagonal, what is factored is that with Δu eliminated:
#
#     ┌                                       ┐ ┌    ┐
#     │ W + δ_w I         Jᵀ             0    │ │ Δx │
#     │     J      −S H⁻¹ Sᵀ − δ_c I     B    │ │ Δy │   B = S H⁻¹ Gᵀ      border
#     │     0             Bᵀ            −C    │ │ Δρ │   C = E + G H⁻¹ Gᵀ  corner
#     └                                       ┘ └    ┘
#
# Its first two rows and columns, K, stand as one 4×4 block (θ, v, price of P, price of Q) per bus in ``pivots``, and one
# per pair of neighbours in ``work_upper``; K = L D Lᵀ in blocks. The Schur complement −C − Bᵀ K⁻¹ B is m×m.
#
# Up to FEW_ROWS rows, which is all that a task without kept totals has, B and K⁻¹ B are dense. Totals of zones are many
# rows, but each of them has few entries: then only Y = L⁻¹ B is formed, where it is not zero, and Bᵀ K⁻¹ B = Yᵀ D⁻¹ Y.
class System(NamedTuple):
    """The Newton system, printed above, before and after the local variables are eliminated."""

    limit_gradient: Floats
    """(L, 2, 3) ∇h of the two flow limits with respect to angle across, magnitude from, magnitude to."""
    row_gradient: Floats
    """(m, n) G."""
    gradient_x: Floats
    """(N, 2) gradient of the Lagrangian with respect to x, without the bounds."""
    gradient_u: Floats
    """(n,) gradient of the Lagrangian with respect to u, without the bounds."""
    tied_sign: Floats
    """(T, 2) the entries of S of tied variables in their two rows."""
    curvature_u: Floats
    """(n,) H without δ_w: second derivative of Lagrangian and barrier, the pivot of a local variable."""
    diag: Floats
    """(N, 4, 4) diagonal blocks of [W Jᵀ; J 0]."""
    upper: Floats
    """(nnz, 4, 4) transposed blocks of the pattern: rows of the bus eliminated earlier, columns of the later one."""
    pivots: Floats
    """(N, 4, 4) diagonal blocks of K, then D⁻¹."""
    work_upper: Floats
    """(nnz, 4, 4) copy of ``upper`` that the factorisation consumes."""
    factor: Floats
    """(nnz, 4, 4) Lᵀ."""
    border: Floats
    """(m, N, 4) columns of B; empty where rows are many."""
    border_solution: Floats
    """(m, N, 4) columns of K⁻¹ B; empty where rows are many."""
    half: Floats
    """(N m, 4) columns of Y, bus by bus; empty where rows are few."""
    touched: Bools
    """(N, m) where columns of Y are not zero; empty where rows are few."""
    row_start: Ints
    """(m + 1,) where each row's entries begin in ``row_entry``."""
    row_entry: Ints
    """Local variables that each dense row depends on, row by row."""
    corner: Floats
    """(m, m) C."""
    schur_inverse: Floats
    """(m, m) inverse of the Schur complement."""
    rhs: Unknowns
    """Right-hand side of the system before elimination."""
    residual: Unknowns
    """What a solution leaves of it, then the correction of that solution."""
    softness: Floats
    """(m,) E, inverse stiffness that the barrier gives to each dense row."""
    stiffness: Floats
    """(M,) curvature that the barrier gives to each limit, capped (docs/structured-solver.md, "Capped stiffness")."""
    least_softness: Floats
    """(M,) cap on the stiffness of each limit, as its inverse relative to gradient and admittance."""
    force: Floats
    """(M,) push of each limit on its variables once slack and multiplier are eliminated."""
    aim: Floats
    """(M,) product of slack and multiplier that the step aims at."""
    aim_u: Floats
    """(n, 2) the same for the lower, the upper bound on u."""


class Filter(NamedTuple):
    """Pairs (θ, φ) of infeasibility and barrier function that later points must not be worse than."""

    theta: Floats
    """(capacity,) infeasibility of each pair, its margin taken off."""
    phi: Floats
    """(capacity,) barrier function of each pair likewise."""
    n_pairs: Ints
    """(1,) how many of the entries are in use."""
    theta_max: float
    """Infeasibility that no point may exceed."""


class Workspace(NamedTuple):
    """What one run writes again and again."""

    system: System
    values: Values
    """At the present point."""
    step: Iterate
    """Newton direction."""
    corrected: Iterate
    """Direction with a second-order correction."""
    trial: Iterate
    """Primal point at the end of a step; its multipliers are not used."""
    trial_values: Values
    """At ``trial``."""
    filter: Filter


class History(NamedTuple):
    """One entry per iteration: the errors at an iterate and the step taken from it; NaN where there was none."""

    primal: Floats
    """Largest violation of balances and limits."""
    dual: Floats
    """Largest scaled gradient of the Lagrangian."""
    product: Floats
    """Mean product of distance and multiplier."""
    mu: Floats
    """Barrier parameter that the iterate was found with."""
    shift: Floats
    """δ_w."""
    primal_length: Floats
    """Primal step length, 0 where none was accepted."""
    dual_length: Floats
    """Dual step length."""
    factorisations: Floats
    """How many it took to get the inertia right."""


@compiled
def allocate_iterate(n_bus: int, n_local: int, n_limits: int) -> Iterate:
    """Allocate an iterate of zeros."""
    return Iterate(
        x=np.zeros((n_bus, 2)),
        u=np.zeros(n_local),
        slack=np.zeros(n_limits),
        price=np.zeros((n_bus, 2)),
        limit=np.zeros(n_limits),
        u_bound=np.zeros((n_local, 2)),
    )


@compiled
def allocate_values(n_bus: int, n_branch: int, n_limits: int) -> Values:
    """Allocate values of zeros."""
    return Values(trig=np.zeros((n_branch, 2)), balance=np.zeros((n_bus, 2)), limit=np.zeros(n_limits))


@compiled
def allocate_unknowns(n_bus: int, n_local: int, n_rows: int) -> Unknowns:
    """Allocate a vector of zeros."""
    return Unknowns(bus=np.zeros((n_bus, 4)), u=np.zeros(n_local), rho=np.zeros(n_rows))


@compiled
def _row_entries(local: LocalData) -> tuple[Ints, Ints]:
    """The variables that each dense row depends on."""
    n_rows, n_local = local.row_linear.shape
    start, entry = np.zeros(n_rows + 1, np.int64), np.zeros(n_rows * n_local, np.int64)
    found = 0
    for r in range(n_rows):
        for k in range(n_local):
            if local.row_linear[r, k] != 0.0 or local.row_quadratic[r, k] != 0.0:
                entry[found] = k
                found += 1
        start[r + 1] = found
    return start, entry[:found].copy()


@compiled
def allocate_system(problem: Problem) -> System:
    """Allocate a system of zeros, its limits uncapped."""
    n_bus, n_branch, n_blocks = len(problem.grid.fixed), len(problem.grid.branch_from), len(problem.pattern.row)
    n_local, n_rows, n_limits = len(problem.local.bus), len(problem.local.row_low), len(problem.local.active)
    n_dense, n_sparse = (n_rows, 0) if n_rows <= FEW_ROWS else (0, n_rows)
    row_start, row_entry = _row_entries(problem.local)
    return System(
        limit_gradient=np.zeros((n_branch, 2, 3)),
        row_gradient=np.zeros((n_rows, n_local)),
        gradient_x=np.zeros((n_bus, 2)),
        gradient_u=np.zeros(n_local),
        tied_sign=np.zeros((len(problem.local.tied), 2)),
        curvature_u=np.zeros(n_local),
        diag=np.zeros((n_bus, 4, 4)),
        upper=np.zeros((n_blocks, 4, 4)),
        pivots=np.zeros((n_bus, 4, 4)),
        work_upper=np.zeros((n_blocks, 4, 4)),
        factor=np.zeros((n_blocks, 4, 4)),
        border=np.zeros((n_dense, n_bus, 4)),
        border_solution=np.zeros((n_dense, n_bus, 4)),
        half=np.zeros((n_bus * n_sparse, 4)),
        touched=np.zeros((n_bus, n_sparse), np.bool_),
        row_start=row_start,
        row_entry=row_entry,
        corner=np.zeros((n_rows, n_rows)),
        schur_inverse=np.zeros((n_rows, n_rows)),
        rhs=allocate_unknowns(n_bus, n_local, n_rows),
        residual=allocate_unknowns(n_bus, n_local, n_rows),
        softness=np.zeros(n_rows),
        stiffness=np.zeros(n_limits),
        least_softness=np.zeros(n_limits),
        force=np.zeros(n_limits),
        aim=np.zeros(n_limits),
        aim_u=np.zeros((n_local, 2)),
    )


def allocate_history(max_iterations: int) -> History:
    """Allocate a history of a run that takes no more than the given iterations."""
    return History(*np.full((len(History._fields), max_iterations + 1), np.nan))


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
