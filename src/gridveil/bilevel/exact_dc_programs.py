"""Convex and complementarity programs over the DC follower: the two kinds that the exact search is made of.

Both see the follower as a quadratic program around d̃. Clarabel solves the convex ones (projections, reach of rows); SCIP
solves the optimality conditions by branch and bound, with complementarity stated as special ordered sets.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING

import casadi as ca
import clarabel
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gridveil.core.extras import optional_package
from gridveil.programs import ParametricProgram

if TYPE_CHECKING:
    from pyscipopt import Expr, Model, Variable

Vector = NDArray[np.float64]

# SCIP's, in units of the radius and of the cost scale; with tolerances below 1e-8 its LP solver breaks down.
SOLVER_GAP, SOLVER_TOLERANCE = 1e-6, 1e-7
CONE_GAP, CONE_TOLERANCE = 1e-12, 1e-9  # Clarabel's: δ may be tiny, so its absolute gap must be
REACH_SLACK = 1e-5  # added to what a row can reach, relative, so that no rounding can cut off the answer


@dataclass(frozen=True, eq=False)
class NearestShift:
    """The nearest shift u = d − d̃ into some set (None if none was found) and the proven bound on ‖u‖², inf for no u at all.

    ``prices`` are the ∂O/∂d that the solver found along with it, in $/h per unit.
    """

    shift: Vector | None
    bound: float
    prices: Vector | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class QuadraticFollower:
    """The follower around d̃: min ½ Σ curvature x² + slopeᵀx + constant, lower ≤ rows·(x, u) ≤ upper, with u = d − d̃.

    Bounds on x are rows like any other. Costs are divided by ``scale``, so that prices are near one.
    """

    rows: sparse.csr_array
    lower: Vector
    upper: Vector
    curvature: Vector
    slope: Vector
    constant: float
    scale: float

    @classmethod
    def of(cls, program: ParametricProgram, noisy: Vector) -> QuadraticFollower:
        """Read the matrices off a program with linear rows and a separable quadratic cost."""
        x, d, at_zero = program.x, program.d, np.zeros(program.n_x)
        hessian, gradient = ca.hessian(program.cost, x)
        parts = [ca.jacobian(program.g, ca.vertcat(x, d)), program.g, ca.diag(hessian), gradient, program.cost]
        jacobian, *others = ca.Function("parts", [x, d], parts)(at_zero, noisy)
        offset, curvature, slope, constant = (np.asarray(part, dtype=float).ravel() for part in others)
        bounds = sparse.eye_array(program.n_x, program.n_x + program.n_d)
        rows = sparse.csr_array(sparse.vstack([sparse.csr_array(jacobian.sparse()), bounds]))
        levels = (
            (slope != 0) & np.isinf(program.x_lower) & np.isinf(program.x_upper)
        )  # costs of piecewise-linear curves
        of_levels = np.asarray(abs(rows)[:, np.flatnonzero(levels)].sum(axis=1)).ravel() > 0
        scale = max(np.max(np.abs([curvature, slope])), abs(rows[of_levels]).max() if levels.any() else 0.0) or 1.0
        # Levels are costs, so they and their rows are measured in the scale, too; all other units stay per unit.
        units, row_units = np.where(levels, scale, 1.0), np.where(of_levels, scale, 1.0)
        columns = np.concatenate([units, np.ones(program.n_d)])
        return cls(
            rows=sparse.csr_array(sparse.diags_array(1 / row_units) @ rows @ sparse.diags_array(columns)),
            lower=np.concatenate([program.g_lower - offset, program.x_lower]) / row_units,
            upper=np.concatenate([program.g_upper - offset, program.x_upper]) / row_units,
            curvature=curvature / scale,
            slope=slope * units / scale,
            constant=float(constant[0]) / scale,
            scale=float(scale),
        )

    @property
    def n_x(self) -> int:
        """Number of decision variables."""
        return len(self.slope)

    @property
    def n_d(self) -> int:
        """Number of demands."""
        return int(self.rows.shape[1]) - self.n_x

    def project(self, *, ceiling: float | None = None, half_space: tuple[Vector, float] | None = None) -> NearestShift:
        """Nearest u with a feasible x: one that costs at most ``ceiling``, or with normalᵀu ≥ offset."""
        blocks = self._polyhedron()
        if ceiling is not None:
            blocks.append(self._cost_at_most(ceiling / self.scale))
        if half_space is not None:
            normal, offset = half_space
            size = float(np.linalg.norm(normal)) or 1.0
            row = np.concatenate([np.zeros(self.n_x), -normal / size])
            blocks.append(_Block(clarabel.NonnegativeConeT, row[None], np.array([-offset / size])))
        squares = np.concatenate([np.zeros(self.n_x), np.full(self.n_d, 2.0)])
        solution = _cone_solver(sparse.diags_array(squares), blocks).solve()
        if solution.status == clarabel.SolverStatus.Solved:
            return NearestShift(np.array(solution.x)[self.n_x :], max(solution.obj_val_dual, 0.0))
        return NearestShift(None, np.inf if solution.status == clarabel.SolverStatus.PrimalInfeasible else 0.0)

    def reach(self, *, ceiling: float, radius: float, deadline: float) -> tuple[Vector, Vector]:
        """Least and largest value of each row over feasible (x, u) with f(x) ≤ ceiling and ‖u‖ ≤ radius; ∓inf if not known."""
        n = self.n_x + self.n_d
        ball = _Block(
            clarabel.SecondOrderConeT,
            sparse.vstack([sparse.csr_array((1, n)), -sparse.eye_array(self.n_d, n, k=self.n_x)]),
            np.concatenate([[radius], np.zeros(self.n_d)]),
        )
        blocks = [*self._polyhedron(), self._cost_at_most(ceiling / self.scale), ball]
        solver = _cone_solver(sparse.csc_array((n, n)), blocks)
        wanted = (np.isfinite(self.lower) | np.isfinite(self.upper)) & (self.lower < self.upper)
        wanted[-self.n_x :] |= self.curvature > 0  # SCIP wants bounds on what is squared
        ends = np.full((2, len(self.lower)), np.inf)
        for k in np.flatnonzero(wanted):
            row = self.rows[[k]].toarray().ravel()
            for side, sign in enumerate((1.0, -1.0)):
                if time.perf_counter() >= deadline:
                    break
                solver.update(q=sign * row)
                solution = solver.solve()
                if solution.status == clarabel.SolverStatus.Solved:
                    ends[side, k] = -solution.obj_val_dual + REACH_SLACK * (1 + abs(solution.obj_val_dual))
        return -ends[0], ends[1]

    def _polyhedron(self) -> list[_Block]:
        equal = self.lower == self.upper
        above, below = np.isfinite(self.upper) & ~equal, np.isfinite(self.lower) & ~equal
        return [
            _Block(clarabel.ZeroConeT, self.rows[equal], self.lower[equal]),
            _Block(clarabel.NonnegativeConeT, self.rows[above], self.upper[above]),
            _Block(clarabel.NonnegativeConeT, -self.rows[below], -self.lower[below]),
        ]

    def _cost_at_most(self, ceiling: float) -> _Block:
        """f(x) ≤ ceiling: a row if f is linear, else Σ curvature x² ≤ t as ‖(t − 1, 2 √curvature x)‖ ≤ t + 1."""
        slope = np.concatenate([self.slope, np.zeros(self.n_d)])[None]
        left, curved = ceiling - self.constant, np.flatnonzero(self.curvature)
        if not curved.size:
            return _Block(clarabel.NonnegativeConeT, slope, np.array([left]))
        roots = np.zeros((len(curved), slope.shape[1]))
        roots[np.arange(len(curved)), curved] = -2 * np.sqrt(self.curvature[curved])
        right = np.concatenate([[2 * left + 1, 2 * left - 1], np.zeros(len(curved))])
        return _Block(clarabel.SecondOrderConeT, np.vstack([2 * slope, 2 * slope, roots]), right)


@dataclass(frozen=True, eq=False)
class _Block:
    """right − rows·(x, u) lies in a cone of this kind."""

    cone: Callable[[int], object]
    rows: sparse.csr_array | Vector
    right: Vector


def _cone_solver(squares: sparse.sparray, blocks: list[_Block]) -> clarabel.DefaultSolver:
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.presolve_enable = False  # it would forbid changing the objective afterwards
    settings.tol_gap_abs, settings.tol_gap_rel, settings.tol_feas = CONE_GAP, CONE_TOLERANCE, CONE_TOLERANCE
    return clarabel.DefaultSolver(
        sparse.csc_matrix(squares),
        np.zeros(squares.shape[0]),
        sparse.csc_matrix(sparse.vstack([sparse.csr_array(block.rows) for block in blocks])),
        np.concatenate([block.right for block in blocks]),
        [block.cone(len(block.right)) for block in blocks],
        settings,
    )


def solve_optimality_conditions(
    follower: QuadraticFollower, low: Vector, high: Vector, level: float, radius: float, seconds: float
) -> NearestShift:
    """Nearest u in the ball with a primal-dual optimal x of cost ``level``, given the reach of the rows; SCIP sees u/radius."""
    scip = _scip()
    model = scip.Model()
    model.hideOutput()
    x = [model.addVar(lb=None, ub=None) for _ in range(follower.n_x)]
    u = [model.addVar(lb=-1.0, ub=1.0) for _ in range(follower.n_d)]
    distance = model.addVar(lb=0.0, ub=1.0)
    model.addCons(scip.quicksum(v * v for v in u) <= distance)
    model.setObjective(distance)

    units = sparse.diags_array(np.concatenate([np.ones(follower.n_x), np.full(follower.n_d, radius)]))
    values = _products(follower.rows @ units, [*x, *u])
    multipliers = [
        _multiplier(model, *row) for row in zip(values, follower.lower, follower.upper, low, high, strict=True)
    ]
    forces = _products(follower.rows[:, : follower.n_x].T, multipliers)
    gradient = [q * v + c for v, q, c in zip(x, follower.curvature, follower.slope, strict=True)]
    for marginal, force in zip(gradient, forces, strict=True):
        model.addCons(marginal == force)
    twice_cost = scip.quicksum((g + c) * v for v, g, c in zip(x, gradient, follower.slope, strict=True))
    model.addCons(twice_cost == 2 * (level / follower.scale - follower.constant))

    model.setParams({"limits/time": seconds, "limits/gap": SOLVER_GAP, "numerics/feastol": SOLVER_TOLERANCE})
    model.optimize()
    bound = min(max(model.getDualbound(), 0.0), 1.0) * float(radius) ** 2  # SCIP's bound is infinite for an empty ball
    if not model.getNSols():
        return NearestShift(None, bound)
    best = model.getBestSol()
    at_rows = np.array([model.getSolVal(best, multiplier) for multiplier in multipliers])
    prices = -follower.scale * (follower.rows[:, follower.n_x :].T @ at_rows)
    return NearestShift(radius * np.array([model.getSolVal(best, v) for v in u]), bound, prices)


def _multiplier(model: Model, value: Expr, lower: float, upper: float, low: float, high: float) -> Expr:
    """Add one row and return its multiplier: positive only at the lower limit, negative only at the upper, if in reach."""
    if lower == upper:
        model.addCons(value == lower)
        return model.addVar(lb=None, ub=None)
    if max(lower, low) > -np.inf:
        model.addCons(value >= max(lower, low))
    if min(upper, high) < np.inf:
        model.addCons(value <= min(upper, high))
    signed = []
    if low <= lower > -np.inf:
        signed.append(1 * _complementary(model, value - lower, high - lower))
    if high >= upper < np.inf:
        signed.append(-1 * _complementary(model, upper - value, upper - low))
    total: Expr = _scip().quicksum(signed)
    return total


def _complementary(model: Model, slack: Expr, largest: float) -> Variable:
    """Create a multiplier ≥ 0 that may be non-zero only where the slack is zero."""
    multiplier = model.addVar(lb=0.0, ub=None)
    slack_variable = model.addVar(lb=0.0, ub=largest if np.isfinite(largest) else None)
    model.addCons(slack_variable == slack)
    model.addConsSOS1([multiplier, slack_variable])
    return multiplier


def _products(matrix: sparse.sparray, variables: Sequence[Expr]) -> list[Expr]:
    """matrix · variables, row by row."""
    entries = sparse.coo_array(matrix)
    terms: list[list[Expr]] = [[] for _ in range(entries.shape[0])]
    for i, j, entry in zip(*entries.coords, entries.data, strict=True):
        terms[i].append(float(entry) * variables[j])
    return [_scip().quicksum(row) for row in terms]


def _scip() -> ModuleType:
    return optional_package("pyscipopt")
