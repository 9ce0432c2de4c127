"""Second-order-cone programs with a diagonal quadratic objective: assembly by whole rows, Clarabel, and a safe lower bound.

The number that leaves this module does not rely on the solver. Every point x that the program stands for obeys
s(x) = b − Ax ∈ K and lies in a known box, so for ANY multipliers z ∈ K* = K

    f(x)  ≥  f(x) − zᵀs(x)  =  ½xᵀPx + (q + Aᵀz)ᵀx − bᵀz + constant  ≥  min over the box of the same,

and the last minimum separates into one closed form per variable. The solver's z is projected onto K first; what rounding can
do to the sums is bounded and taken off. A poor solve makes the bound loose, never wrong.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gridveil.core.lazy import lazy_module
from gridveil.programs.sparse_rows import SparseRows

if TYPE_CHECKING:
    import clarabel
    from scipy import sparse
else:
    sparse = lazy_module("scipy.sparse")
    clarabel = lazy_module("clarabel")

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SOLVER_TOLERANCE = 1e-9  # relative; a tenth of Clarabel's own, for one more iteration and a tenth of the margin
EPSILON = float(np.finfo(float).eps)


class BoundStatus(Enum):
    """How the solver ended. A value is safe whenever there is one; the status says how tight to expect it."""

    SOLVED = "solved"
    INACCURATE = "the solver stopped short of its tolerance"
    INFEASIBLE = "the relaxation has no solution, so the problem has none"
    FAILED = "the solver failed"


@dataclass(frozen=True, kw_only=True)
class SocBound:
    """A lower bound, or none.

    ``value`` is None if there is no bound, and infinite if the problem is proved to have no feasible point. ``margin`` is what
    was taken off the solver's own dual objective to make it safe (scaled like the value; NaN without a solution).
    """

    value: float | None
    status: BoundStatus
    seconds: float
    iterations: int
    margin: float


@dataclass(frozen=True, eq=False, kw_only=True)
class ConicSolution:
    """What the solver found, as it says: the dual objective, how far the primal one lies above it, and some multipliers.

    ``last_cones`` are those of the family of cones that was added last, one row per cone, head first.
    """

    value: float
    gap: float
    last_cones: Floats


@dataclass(frozen=True, eq=False)
class Affine:
    """Rows of affine expressions in the variables: matrix @ x + constant."""

    matrix: SparseRows
    """Rows × variables."""
    constant: Floats

    def __add__(self, other: Affine) -> Affine:
        return Affine(self.matrix + other.matrix, self.constant + other.constant)

    def __sub__(self, other: Affine) -> Affine:
        return Affine(self.matrix - other.matrix, self.constant - other.constant)

    def plus(self, constant: Floats | float) -> Affine:
        """Add a number to each row."""
        return Affine(self.matrix, self.constant + constant)

    def times(self, factor: Floats | float) -> Affine:
        """Multiply each row by its factor."""
        factors = np.broadcast_to(np.asarray(factor, dtype=float), self.constant.shape)
        return Affine(self.matrix.scaled(factors), factors * self.constant)

    def pick(self, rows: Ints | NDArray[np.bool_]) -> Affine:
        """Select rows, in the given order."""
        return Affine(self.matrix.pick(rows), self.constant[rows])

    def above(self, other: Affine) -> Affine:
        """Put these rows on top of others."""
        return Affine(SparseRows.stacked([self.matrix, other.matrix]), np.concatenate([self.constant, other.constant]))

    def sum_at(self, place: Ints, n_places: int) -> Affine:
        """Add up the rows that share a place."""
        constant = np.asarray(np.bincount(place, self.constant, n_places), dtype=float)
        return Affine(self.matrix.sum_at(place, n_places), constant)

    def total(self) -> Affine:
        """Add up all rows into one."""
        return self.sum_at(np.zeros(len(self.constant), dtype=np.int64), 1)


@dataclass(eq=False, kw_only=True)
class ConicProgram:
    """min ½ Σ quadratic·x² + linear·x + constant over rows in cones.

    ``lower`` and ``upper`` are a box that holds every point the program stands for; it is used by the safe bound only, so a
    limit that should also shape the solution needs its own row.
    """

    lower: Floats
    upper: Floats
    quadratic: Floats
    linear: Floats
    constant: float = 0.0
    _zero: list[Affine] = field(default_factory=list)
    _nonnegative: list[Affine] = field(default_factory=list)
    _cones: list[tuple[Affine, ...]] = field(default_factory=list)

    def add_zero(self, rows: Affine) -> None:
        """Rows that must vanish."""
        self._zero.append(rows)

    def add_nonnegative(self, rows: Affine) -> None:
        """Rows that must not be negative."""
        self._nonnegative.append(rows)

    def add_cones(self, head: Affine, *tail: Affine) -> None:
        """‖tail‖ ≤ head, row by row."""
        self._cones.append((head, *tail))

    def lower_bound(self, *, scale: float) -> SocBound:
        """Solve and bound; the solver sees the objective divided by ``scale``, so that it is of order one."""
        clock = time.perf_counter()
        rows, layout = self.stacked()
        solution = self._run(rows, layout, scale)
        return self._judge(solution, rows, layout, scale, clock)

    def solve(self, *, scale: float, stacked: tuple[Affine, ConeLayout] | None = None) -> ConicSolution | None:
        """Solve, and believe the solver; None if it did not end near an optimum.

        ``stacked`` rows, where the caller has them, spare putting them together again.
        """
        rows, layout = stacked or self.stacked()
        solution = self._run(rows, layout, scale)
        if str(solution.status) not in _ENDINGS:
            return None
        z = scale * layout.into_dual_cone(np.array(solution.z))
        count, size = layout.families[-1]
        return ConicSolution(
            value=scale * float(solution.obj_val_dual) + self.constant,
            gap=scale * abs(float(solution.obj_val) - float(solution.obj_val_dual)),
            last_cones=z[len(z) - count * size :].reshape(count, size),
        )

    def _run(self, rows: Affine, layout: ConeLayout, scale: float) -> Any:
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.tol_feas = settings.tol_gap_abs = settings.tol_gap_rel = SOLVER_TOLERANCE
        quadratic = sparse.diags_array(self.quadratic / scale, format="csc")
        return clarabel.DefaultSolver(
            sparse.csc_matrix(quadratic),
            self.linear / scale,
            sparse.csc_matrix(-rows.matrix.to_scipy()),
            rows.constant,
            layout.cones(),
            settings,
        ).solve()

    def _judge(self, solution: Any, rows: Affine, layout: ConeLayout, scale: float, clock: float) -> SocBound:
        z = np.array(solution.z)
        status, value, margin = BoundStatus.FAILED, None, math.nan
        if np.all(np.isfinite(z)):
            z = layout.into_dual_cone(z)
            if str(solution.status) in _ENDINGS:
                status = _ENDINGS[str(solution.status)]
                value = self.safe_value(rows, scale * z)
                margin = scale * float(solution.obj_val_dual) + self.constant - value
            elif solution.status == clarabel.SolverStatus.PrimalInfeasible and self.excludes(rows, z):
                status, value = BoundStatus.INFEASIBLE, math.inf
        if value == -math.inf:
            status, value, margin = BoundStatus.FAILED, None, math.nan
        return SocBound(
            value=value,
            status=status,
            seconds=time.perf_counter() - clock,
            iterations=int(solution.iterations),
            margin=margin,
        )

    def safe_value(self, rows: Affine, z: Floats) -> float:
        """The Lagrangian bound for multipliers z of stacked rows, in the dual cone; −inf if a variable without limits spoils it."""
        return self._lagrangian(rows, z, self.quadratic, self.linear, self.constant)

    def excludes(self, rows: Affine, z: Floats) -> bool:
        """Whether zᵀs(x) < 0 all over the box, which no feasible point allows: Farkas' proof, checked."""
        nothing = np.zeros(len(self.linear))
        return self._lagrangian(rows, z, nothing, nothing, 0.0) > 0

    def _lagrangian(self, rows: Affine, z: Floats, quadratic: Floats, linear: Floats, constant: float) -> float:
        matrix = rows.matrix
        reduced = linear - matrix.transposed_times(z)
        terms = matrix.terms_of_columns() + 2
        error = terms * EPSILON * (np.abs(linear) + matrix.sizes().transposed_times(np.abs(z)))
        # each minimum is concave in the slope, so over the slopes that rounding leaves open it is lowest at an end
        least = np.minimum(
            _least_in_box(quadratic, reduced - error, self.lower, self.upper),
            _least_in_box(quadratic, reduced + error, self.lower, self.upper),
        )
        if not np.all(np.isfinite(least)):
            return -math.inf
        return math.fsum([*least, *_rounded_down(-rows.constant * z), constant])

    def stacked(self) -> tuple[Affine, ConeLayout]:
        """All rows in the solver's order: zero, nonnegative, then the cones, each with its head first."""
        cones = [_interleave(cone) for cone in self._cones]
        blocks = [Affine(SparseRows.empty(0, len(self.linear)), np.zeros(0)), *self._zero, *self._nonnegative, *cones]
        layout = ConeLayout(
            n_zero=sum(len(rows.constant) for rows in self._zero),
            n_nonnegative=sum(len(rows.constant) for rows in self._nonnegative),
            families=tuple((len(cone[0].constant), len(cone)) for cone in self._cones),
        )
        matrix = SparseRows.stacked([rows.matrix for rows in blocks])
        return Affine(matrix, np.concatenate([rows.constant for rows in blocks])), layout


_ENDINGS = {
    "Solved": BoundStatus.SOLVED,
    "AlmostSolved": BoundStatus.INACCURATE,
    "InsufficientProgress": BoundStatus.INACCURATE,
    "MaxIterations": BoundStatus.INACCURATE,
}
"""By the name of Clarabel's status."""


@dataclass(frozen=True)
class ConeLayout:
    """How many rows belong to which cone; ``families`` are (count, dimension) of second-order cones."""

    n_zero: int
    n_nonnegative: int
    families: tuple[tuple[int, int], ...]

    def cones(self) -> list[Any]:
        """Clarabel's list of cones."""
        flat = [clarabel.ZeroConeT(self.n_zero), clarabel.NonnegativeConeT(self.n_nonnegative)]
        return flat + [clarabel.SecondOrderConeT(size) for count, size in self.families for _ in range(count)]

    def into_dual_cone(self, z: Floats) -> Floats:
        """Move z into the dual cone: multipliers of inequalities up to zero, heads up to the norm of their tails."""
        inside = np.array(z)
        start = self.n_zero + self.n_nonnegative
        inside[self.n_zero : start] = np.maximum(inside[self.n_zero : start], 0.0)
        for count, size in self.families:
            blocks = inside[start : start + count * size].reshape(count, size)
            norms = np.sqrt(np.sum(blocks[:, 1:] ** 2, axis=1))
            blocks[:, 0] = np.maximum(blocks[:, 0], norms * (1 + 2 * size * EPSILON))
            start += count * size
        return inside


def _interleave(cone: Sequence[Affine]) -> Affine:
    count = len(cone[0].constant)
    order = np.arange(len(cone) * count).reshape(len(cone), count).T.ravel()
    matrix = SparseRows.stacked([rows.matrix for rows in cone])
    return Affine(matrix, np.concatenate([rows.constant for rows in cone])).pick(order)


def _least_in_box(quadratic: Floats, slope: Floats, lower: Floats, upper: Floats) -> Floats:
    """min of ½·quadratic·x² + slope·x over lower ≤ x ≤ upper for each variable, rounded down."""
    with np.errstate(divide="ignore", invalid="ignore"):
        curved = np.clip(-slope / quadratic, lower, upper)
        best = np.where(quadratic > 0, curved, np.where(slope > 0, lower, upper))
        best = np.where((quadratic == 0) & (slope == 0), 0.0, best)
        square, product = 0.5 * quadratic * best**2, slope * best
        return _rounded_down(square + product, np.abs(square) + np.abs(product))


def _rounded_down(values: Floats, sizes: Floats | None = None) -> Floats:
    """Take off what a handful of roundings among numbers of these sizes can add."""
    return np.asarray(values - 8 * EPSILON * (np.abs(values) if sizes is None else sizes))
