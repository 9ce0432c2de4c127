"""The global optimum of (BL) for the DC optimal power flow of small networks: the reference for every other method.

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
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from gridveil.bilevel.exact_dc_programs import QuadraticFollower, solve_optimality_conditions
from gridveil.core.band import CostTarget
from gridveil.core.errors import InputError
from gridveil.sectors.power.dcopf import dc_opf
from gridveil.sectors.power.network import PowerNetwork
from gridveil.solvers.backend import Answer
from gridveil.solvers.ipopt import IpoptBackend
from gridveil.solvers.solves import Solves

Vector = NDArray[np.float64]

PROVEN_GAP = 1e-4  # relative gap up to which a point is called optimal
PROVEN_DISTANCE = 1e-9  # the same in δ itself, where δ is so small that the follower's rounding rules
EDGE = 1e-6  # share of β by which the point is aimed inside the edge of the band, so that rounding leaves it inside
UPPER_EDGES = (EDGE, 10 * EDGE, 100 * EDGE, 1000 * EDGE)  # tried in turn: where prices are huge, rounding is, too
# The rows' reach is taken over a set that is larger than it has to be, so that no rounding can cut off the answer:
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


class _Search:
    """The steps of the proof, with the best verified point and the best bound so far."""

    def __init__(self, network: PowerNetwork, noisy: Vector, target: CostTarget, deadline: float) -> None:
        program = dc_opf(network)
        if noisy.shape != (program.n_d,):
            raise InputError(f"the noisy demands have shape {noisy.shape}, but {program.n_d} load sites are served")
        polynomial = network.grid.active_cost.polynomial
        if np.any(polynomial[3:] != 0) or np.any(polynomial[2] < 0):
            raise InputError(
                "the exact baseline needs linear, convex quadratic or piecewise-linear costs; change the costs"
            )
        self.solves = Solves(IpoptBackend(program))
        self.noisy, self.target, self.deadline = noisy, target, deadline
        self.follower = QuadraticFollower.of(program, noisy)
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

    def evaluate(self, d: Vector) -> Answer:
        """O(d), from public starts."""
        return self.solves.afresh(d)

    def consider(self, d: Vector, solution: Answer | None = None) -> bool:
        """Verify that d is in the band; keep it if no nearer point is known."""
        solution = solution or self.evaluate(d)
        if not (solution.converged and self.target.contains(solution.cost)):
            return False
        delta = float(np.sum((d - self.noisy) ** 2))
        if self.best is None or delta < self.best.delta:
            self.best = _Point(d, delta, solution.cost)
        return True

    def search_globally(self, at_nearest: Answer) -> None:
        """Steps 2 to 4: in the ball of a known point or, as long as none is known, in balls of growing radius."""
        missing, prices = self.target.lower - at_nearest.cost, _prices(at_nearest)
        self.descend(prices, self.nearest, at_nearest.cost)
        radius = 2 * (np.sqrt(self.bound) + missing / max(float(np.linalg.norm(prices)), missing))
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
        answer = solve_optimality_conditions(self.follower, low, high, self.target.lower, radius, seconds)
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
                prices, delta = _prices(solution), float(np.sum((d - self.noisy) ** 2))
                if delta >= (1 - NEGLIGIBLE) * before:
                    return
                before = delta

    def into_band(self, d: Vector) -> tuple[Vector, Answer]:
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


def _prices(dispatch: Answer) -> Vector:
    if dispatch.prices is None:
        raise TypeError("only a dispatch has prices")
    return dispatch.prices
