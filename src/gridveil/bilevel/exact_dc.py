"""The global optimum of (BL) for the DC optimal power flow of small networks: the yardstick for every other method.

(BL) is min ‖d − d̃‖² subject to L ≤ O(d) ≤ U, L = f̃ − β and U = f̃ + β, where O(d) is the optimum of a linear or convex
quadratic program whose right-hand side moves with d. So O is convex, and continuous on its domain (the d that have any
feasible dispatch), which is a polyhedron. Only the lower side is hard. Why the answer is exact:

1. Let p be the projection of d̃ on the convex set {O ≤ U} = {d : some feasible x costs ≤ U}, a convex program. Nothing
   in the band is nearer than p. If O(p) ≥ L, then p is the answer.
2. Otherwise O(p) < L < U. Let d be the answer. If O(d) > L, then a step from d towards p keeps O ≥ L (continuity) and
   O ≤ U (convexity) and comes strictly nearer to d̃ (p is a projection and d ≠ p). So **O(d) = L**.
3. O(d) = L holds iff some x and multipliers satisfy the Karush-Kuhn-Tucker conditions and f(x) = L (rows are linear, so no
   constraint qualification is needed). Complementarity is stated as special ordered sets: no bound on a multiplier is
   assumed, so none can be wrong. SCIP solves this by branch and bound and proves a lower bound on the distance.
4. What keeps it small: for any dispatchable d' with O(d') ≥ L, the segment from p to d' crosses O = L no farther away
   than d', so the answer lies in the ball around d̃ through d'. Convex programs maximise and minimise each row over this
   ball and f(x) ≤ L (and a little more, for rounding); a side that cannot be reached is never active at
   the answer, and its multiplier is zero. A tangent of O at a point gives such a d': by convexity O ≥ L wherever the
   tangent is.

"Proven" means by floating-point solvers at tolerances of 1e-7 and less. The point itself is always verified by the follower.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from types import ModuleType
from typing import TYPE_CHECKING

import casadi as ca
import clarabel
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gridveil.core.band import CostTarget
from gridveil.core.errors import InputError
from gridveil.programs import FollowerSolution, ParametricProgram
from gridveil.sectors.power.dcopf import dc_opf
from gridveil.sectors.power.network import PowerNetwork
from gridveil.solvers.ipopt import Engine

if TYPE_CHECKING:
    from pyscipopt import Expr, Model, Variable

Vector = NDArray[np.float64]

PROVEN_GAP = 1e-4  # relative gap up to which a point is called optimal
PROVEN_DISTANCE = 1e-9  # the same in δ itself, where δ is so small that the follower's rounding rules
EDGE = 1e-6  # share of β by which the point is aimed inside the edge of the band, so that rounding leaves it inside
UPPER_EDGES = (EDGE, 10 * EDGE, 100 * EDGE, 1000 * EDGE)  # tried in turn: where prices are huge, rounding is, too
# SCIP's, in units of the radius and of the cost scale; with tolerances below 1e-8 its LP solver breaks down.
SOLVER_GAP, SOLVER_TOLERANCE = 1e-6, 1e-7
CONE_GAP, CONE_TOLERANCE = 1e-12, 1e-9  # Clarabel's: δ may be tiny, so its absolute gap must be
# The rows' reach is taken over a set that is larger than it has to be, so that no rounding can cut off the answer:
REACH_SLACK = 1e-5  # added to what a row can reach, relative
REACH_SHARE = 0.05  # of β, added to the cost ceiling; a quadratic cost makes x move by the root of a rounding error
BALL_SLACK = 1e-3  # relative, on radii; it also keeps a known point well inside the ball that is searched
DOUBLINGS = 12  # of the radius, where no point in the band is known
HALVINGS = 60  # of a segment that crosses the band
TANGENTS = 50  # steps of the descent by tangents; it ends far earlier, by gaining less than this share of δ:
NEGLIGIBLE = 1e-9


class ExactStatus(Enum):
    """How the search ended. Only the first two carry a point, and only after the follower verified it in the band."""

    OPTIMAL = "verified, and proven optimal"
    FEASIBLE = "verified, but the gap was not closed"
    INFEASIBLE = "proven: no demands have an optimum below the upper edge of the band"
    NO_POINT = "no demands in the band were found within the radius and the time that were searched"
    CONTRADICTION = "the proven bound lies above the distance of a verified point, so one of them is wrong"


@dataclass(frozen=True, eq=False, kw_only=True)
class ExactResult:
    """The nearest d with O(d) in the band (None if there is none), and the proven lower bound on δ = ‖d − d̃‖²."""

    status: ExactStatus
    d: Vector | None
    delta: float
    bound: float
    cost: float
    """O(d) of the verified point, in $/h."""
    convex: bool
    """Whether step 1 settled it, without branch and bound."""
    seconds: float

    @property
    def gap(self) -> float:
        """Proven relative gap (δ − bound)/δ; 0 for d̃ itself, NaN without a point."""
        return 0.0 if self.delta == 0 else (self.delta - self.bound) / self.delta


def exact_bilevel_dc(network: PowerNetwork, noisy: Vector, target: CostTarget, *, time_limit: float) -> ExactResult:
    """Solve (BL) to proven optimality for d̃ = ``noisy``: active power of the served load sites, per unit; no bounds on d."""
    clock = time.perf_counter()
    search = _Search(network, np.asarray(noisy, dtype=float), target, clock + time_limit)
    status, best = search.run(), search.best
    if best is not None:
        excess, enough = best.delta - search.bound, max(PROVEN_GAP * best.delta, PROVEN_DISTANCE)
        status = ExactStatus.OPTIMAL if excess <= enough else ExactStatus.FEASIBLE
        if excess < -enough:
            status, best = ExactStatus.CONTRADICTION, None
    return ExactResult(
        status=status,
        d=best.d if best else None,
        delta=best.delta if best else float("nan"),
        bound=search.bound,
        cost=best.cost if best else float("nan"),
        convex=search.convex,
        seconds=time.perf_counter() - clock,
    )


@dataclass(frozen=True, eq=False)
class _Point:
    """Demands whose cost the follower found in the band."""

    d: Vector
    delta: float
    cost: float


@dataclass(frozen=True, eq=False)
class _Nearest:
    """The nearest shift u = d − d̃ into some set (None if none was found) and the proven bound on ‖u‖², inf for no u at all.

    ``prices`` are the ∂O/∂d that the solver found along with it, in $/h per unit.
    """

    shift: Vector | None
    bound: float
    prices: Vector | None = None


class _Search:
    """The steps of the proof, with the best verified point and the best bound so far."""

    def __init__(self, network: PowerNetwork, noisy: Vector, target: CostTarget, deadline: float) -> None:
        program = dc_opf(network)
        if noisy.shape != (program.n_d,):
            raise InputError(f"the noisy demands have shape {noisy.shape}, but {program.n_d} load sites are served")
        polynomial = network.grid.generator.cost.polynomial
        if np.any(polynomial[3:] != 0) or np.any(polynomial[2] < 0):
            raise InputError(
                "the exact baseline needs linear, convex quadratic or piecewise-linear costs; change the costs"
            )
        self.engine = Engine(program)
        self.noisy, self.target, self.deadline = noisy, target, deadline
        self.follower = _Quadratic.of(program, noisy)
        self.best: _Point | None = None
        self.bound, self.convex = 0.0, True

    def run(self) -> ExactStatus:
        """Look at d̃, then at its projection p, then search globally; the status is for the case that no point was found."""
        if self.consider(self.noisy):
            return ExactStatus.OPTIMAL
        projection = self.follower.project(ceiling=self.target.upper)
        if projection.shift is None:
            return ExactStatus.INFEASIBLE if projection.bound == np.inf else ExactStatus.NO_POINT
        self.bound, self.nearest = projection.bound, self.noisy + projection.shift
        at_nearest = self.evaluate(self.nearest)
        if at_nearest.converged and at_nearest.cost < self.target.lower:
            self.convex = False
            self.search_globally(at_nearest)
        else:
            for share in UPPER_EDGES:
                inside = self.follower.project(ceiling=self.target.upper - share * self.target.beta)
                if inside.shift is not None and self.consider(self.noisy + inside.shift):
                    break
        return ExactStatus.NO_POINT

    def evaluate(self, d: Vector) -> FollowerSolution:
        """O(d), from public starts."""
        return self.engine.solve_afresh(d)

    def consider(self, d: Vector, solution: FollowerSolution | None = None) -> bool:
        """Say whether d is verified in the band, and keep it if no nearer point is known."""
        solution = solution or self.evaluate(d)
        if not (solution.converged and self.target.contains(solution.cost)):
            return False
        delta = float(np.sum((d - self.noisy) ** 2))
        if self.best is None or delta < self.best.delta:
            self.best = _Point(d, delta, solution.cost)
        return True

    def search_globally(self, at_nearest: FollowerSolution) -> None:
        """Steps 2 to 4: in the ball of a known point or, as long as none is known, in balls of growing radius."""
        missing = self.target.lower - at_nearest.cost
        self.descend(at_nearest.prices, self.nearest, at_nearest.cost)
        radius = 2 * (np.sqrt(self.bound) + missing / max(float(np.linalg.norm(at_nearest.prices)), missing))
        for _ in range(DOUBLINGS):
            if self.best is not None:
                radius = np.sqrt(self.best.delta) * (1 + BALL_SLACK)
            found = self.search_ball(radius)
            if found or self.best is not None or time.perf_counter() >= self.deadline:
                return
            radius *= 2

    def search_ball(self, radius: float) -> bool:
        """Steps 3 and 4: the nearest d with O(d) = L among those within the radius; whether there is any."""
        ceiling = self.target.lower + REACH_SHARE * self.target.beta
        low, high = self.follower.reach(ceiling=ceiling, radius=(1 + BALL_SLACK) * radius, deadline=self.deadline)
        seconds = max(self.deadline - time.perf_counter(), 0.0)
        answer = _solve_optimality_conditions(self.follower, low, high, self.target.lower, radius, seconds)
        self.bound = max(self.bound, answer.bound)
        if answer.shift is None or answer.prices is None:
            return False
        d = self.noisy + answer.shift
        solution = self.evaluate(d)
        self.descend(answer.prices, d, solution.cost if solution.converged else self.target.lower)
        return True

    def descend(self, prices: Vector, d: Vector, cost: float) -> None:
        """Project d̃ on the half-space where the tangent of O at d is ≥ L, take the tangent there, and so on.

        By convexity O ≥ L all along, and from a point with O ≥ L each step can only come nearer. Should rounding (of prices
        that are not the follower's own) leave O below L, the same half-space is moved by what is missing.
        """
        aim, before = self.target.lower + EDGE * self.target.beta, np.inf
        for _ in range(TANGENTS):
            step = self.follower.project(half_space=(prices, float(prices @ (d - self.noisy)) + aim - cost))
            if step.shift is None:
                return
            d, solution = self.into_band(self.noisy + step.shift)
            if not solution.converged:
                return
            cost = solution.cost
            if self.consider(d, solution):
                prices, delta = solution.prices, float(np.sum((d - self.noisy) ** 2))
                if delta >= (1 - NEGLIGIBLE) * before:
                    return
                before = delta

    def into_band(self, d: Vector) -> tuple[Vector, FollowerSolution]:
        """Where O(d) is above the band, the segment from p to d crosses it: halve until inside."""
        end, solution, low, high = d, self.evaluate(d), 0.0, 1.0
        if solution.cost <= self.target.upper:
            return d, solution
        for _ in range(HALVINGS):
            if not solution.converged or self.target.contains(solution.cost):
                break
            share = (low + high) / 2
            d = self.nearest + share * (end - self.nearest)
            solution = self.evaluate(d)
            low, high = (low, share) if solution.cost > self.target.upper else (share, high)
        return d, solution


@dataclass(frozen=True, eq=False, kw_only=True)
class _Quadratic:
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
    def of(cls, program: ParametricProgram, noisy: Vector) -> _Quadratic:
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

    def project(self, *, ceiling: float | None = None, half_space: tuple[Vector, float] | None = None) -> _Nearest:
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
            return _Nearest(np.array(solution.x)[self.n_x :], max(solution.obj_val_dual, 0.0))
        return _Nearest(None, np.inf if solution.status == clarabel.SolverStatus.PrimalInfeasible else 0.0)

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


def _solve_optimality_conditions(
    follower: _Quadratic, low: Vector, high: Vector, level: float, radius: float, seconds: float
) -> _Nearest:
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
        return _Nearest(None, bound)
    best = model.getBestSol()
    at_rows = np.array([model.getSolVal(best, multiplier) for multiplier in multipliers])
    prices = -follower.scale * (follower.rows[:, follower.n_x :].T @ at_rows)
    return _Nearest(radius * np.array([model.getSolVal(best, v) for v in u]), bound, prices)


def _multiplier(model: Model, value: Expr, lower: float, upper: float, low: float, high: float) -> Expr:
    """State one row and give its multiplier: positive only at the lower limit, negative only at the upper, if in reach."""
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
    """Give a multiplier ≥ 0 that may differ from zero only where the slack is zero."""
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
    try:
        import pyscipopt
    except ImportError:
        raise InputError("the exact baseline needs the solver SCIP; install the package pyscipopt") from None
    return pyscipopt
