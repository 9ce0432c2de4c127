"""The same solves by the structured solver, which knows the network; whatever it does not solve goes to Ipopt."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gridveil.core.band import CostTarget
from gridveil.programs import Follower, FollowerSolution, NlpSolution, ParametricProgram, Status, Trust
from gridveil.sectors.power.arrays import structured_arrays
from gridveil.sectors.power.network import PowerNetwork
from gridveil.solvers.ipopt import Engine
from gridveil.solvers.joint import HalfSpace, JointSolution
from gridveil.solvers.structured import Cut, DemandBox, Dispatch, Nearest, Push, Solution, StructuredSolver, Task

if TYPE_CHECKING:
    from gridveil.solvers.structured.warm import WarmStart

Vector = NDArray[np.float64]

BY_STRUCTURE = "structured solver"
# Room, per unit, that joint problems leave at every limit of the network. Demands that can only just be served have a follower with
# huge prices, which anybody's solver finds hard; this much costs about 0.2 % of δ where noise is large.
INTERIOR = 1e-4
# Demands that all moved by less than this, per unit, since the last follower have nearly its optimum.
NEARBY = 0.03


@dataclass(frozen=True, eq=False)
class StructuredPoint(NlpSolution):
    """A point of the structured solver. Its multipliers are in ``warm``; Ipopt has no use for them and starts from x."""

    warm: WarmStart | None = None


class StructuredFollower(Follower):
    """O(d) by the structured solver, cold or warm; by Ipopt from the same start where that fails."""

    def __init__(self, program: ParametricProgram, network: PowerNetwork, *, verbose: bool = False) -> None:
        super().__init__(program, verbose=verbose)
        self._network = network

    @cached_property
    def build_seconds(self) -> float:
        """Prepare what solves of the structured solver share; Ipopt's part is made when it is first needed."""
        clock = time.perf_counter()
        self._structured.prepare()
        return time.perf_counter() - clock

    @cached_property
    def _structured(self) -> StructuredSolver:
        return StructuredSolver(structured_arrays(self._network))

    def solve(
        self,
        d: Vector,
        *,
        start: Vector | None = None,
        warm: FollowerSolution | None = None,
        trust: Trust = Trust.ROUGH,
    ) -> FollowerSolution:
        """Solve for d, cold or warm. A given ``start`` must be kept to, which only Ipopt can: it has no multipliers to go by.

        A brief or warm solve stays with the structured solver, for Ipopt's would take longer than what its caller tries next.
        """
        if start is not None:
            return super().solve(d, start=start, trust=trust)
        thorough = trust is Trust.ROUGH and warm is None
        solution = self._structured.solve(_dispatch(d), warm=_warm_of(warm), thorough=thorough)
        if solution.converged or trust is Trust.BRIEF or warm is not None:
            return self._as_follower(solution)
        return super().solve(d, trust=trust)

    def solve_near(self, d: Vector, x: Vector, point: NlpSolution) -> FollowerSolution:
        """Solve for d from the x of a point, without its multipliers."""
        known = point.warm if isinstance(point, StructuredPoint) else None
        solution = self._structured.solve_near(_dispatch(d), known or start_from(self._structured, x, d))
        return self._as_follower(solution) if solution.converged else super().solve_near(d, x, point)

    def _as_follower(self, solution: Solution) -> FollowerSolution:
        point = structured_point(self._network, solution, solution.cost)
        return FollowerSolution(
            status=point.status,
            cost=solution.cost,
            x=point.x,
            prices=np.concatenate([solution.site_price_p, solution.site_price_q]),
            iterations=solution.iterations,
            seconds=solution.seconds,
            detail=BY_STRUCTURE,
            point=point,
        )


class StructuredEngine(Engine):
    """O, HPR, O↑ and price cuts of one power network by the structured solver, with Ipopt behind each of them."""

    def __init__(self, program: ParametricProgram, network: PowerNetwork, *, verbose: bool = False) -> None:
        super().__init__(program, verbose=verbose)
        self._network = network

    @cached_property
    def follower(self) -> Follower:
        """O(d)."""
        return StructuredFollower(self.program, self._network, verbose=self._verbose)

    @cached_property
    def _joint_solver(self) -> StructuredSolver:
        return StructuredSolver(structured_arrays(self._network, INTERIOR))

    @cached_property
    def _box(self) -> DemandBox | None:
        program = self.program
        if np.all(np.isinf(program.d_lower)) and np.all(np.isinf(program.d_upper)):
            return None
        (p_low, q_low), (p_high, q_high) = _halves(program.d_lower), _halves(program.d_upper)
        return DemandBox(p_low=p_low, p_high=p_high, q_low=q_low, q_high=q_high)

    def highpoint(self, noisy: Vector, band: CostTarget) -> JointSolution:
        """HPR."""
        return self._joint(self._nearest(noisy, band, None), noisy, None) or super().highpoint(noisy, band)

    def nearest_feasible(self, d: Vector) -> JointSolution:
        """HPR without its band."""
        p, q = _halves(d)
        task = Nearest(target_p=p, target_q=q, cost_low=-np.inf, cost_high=np.inf, box=self._box)
        return self._joint(task, d, None) or super().nearest_feasible(d)

    def push(self, noisy: Vector, band: CostTarget, delta: float, starts: list[JointSolution]) -> JointSolution:
        """O↑(δ), warm from the last point."""
        p, q = _halves(noisy)
        task = Push(target_p=p, target_q=q, cost_low=band.lower, cost_high=band.upper, delta=delta, box=self._box)
        with_multipliers = [warm for warm in map(_warm_of, starts) if warm is not None]
        found = self._joint(task, noisy, with_multipliers[-1] if with_multipliers else self._start(starts[-1]))
        return found or super().push(noisy, band, delta, starts[-1:])

    def cut(
        self, noisy: Vector, band: CostTarget, cut: HalfSpace, start: JointSolution, warm: JointSolution | None
    ) -> JointSolution:
        """HPR with a price cut, warm from the last point."""
        weight_p, weight_q = _halves(cut.normal)
        row = Cut(weight_p=weight_p, weight_q=weight_q, least=cut.offset)
        found = self._joint(self._nearest(noisy, band, row), noisy, self._start(warm or start))
        return found or super().cut(noisy, band, cut, start, None)

    def follow(self, joint: JointSolution, previous: FollowerSolution | None) -> FollowerSolution:
        """O(d) warm from the joint point's own multipliers; Ipopt from its x if that fails or ends above f(x).

        Where the band is slack these say nothing about prices, and those of the last follower serve instead; where the
        demands have hardly moved, the last follower is the better start altogether.
        """
        return super().follow(joint, _as_previous(joint, _warm_of(previous)) or previous)

    def _start(self, joint: JointSolution) -> WarmStart:
        """A joint point as a start: with its multipliers, or without if Ipopt found it."""
        return _warm_of(joint) or start_from(self._joint_solver, joint.x, joint.d)

    def _nearest(self, noisy: Vector, band: CostTarget, cut: Cut | None) -> Nearest:
        p, q = _halves(noisy)
        return Nearest(target_p=p, target_q=q, cost_low=band.lower, cost_high=band.upper, cut=cut, box=self._box)

    def _joint(self, task: Task, noisy: Vector, warm: WarmStart | None) -> JointSolution | None:
        solution = self._joint_solver.solve(task, warm=warm, thorough=False)
        if not solution.converged:
            return None
        d = np.concatenate([solution.demand_p, solution.demand_q])
        point = structured_point(self._network, solution, solution.objective)
        return JointSolution(
            status=Status.CONVERGED,
            x=point.x,
            d=d,
            delta=float(np.sum((d - noisy) ** 2)),
            proxy=float(solution.demand_p.sum()),
            cost=solution.cost,
            iterations=solution.iterations,
            seconds=solution.seconds,
            detail=BY_STRUCTURE,
            point=point,
        )


def structured_point(network: PowerNetwork, solution: Solution, objective: float) -> StructuredPoint:
    """Give a solution as the program's x: angles, magnitudes, generation, and the level of piecewise-linear costs."""
    cost = network.grid.generator.cost
    level = np.full(len(cost.piecewise), -np.inf)
    lines = cost.line_slope * solution.pg[cost.line_generator] + cost.line_intercept
    np.maximum.at(level, np.searchsorted(cost.piecewise, cost.line_generator), lines)
    return StructuredPoint(
        status=Status.CONVERGED if solution.converged else Status.FAILED,
        x=np.concatenate([solution.va, solution.vm, solution.pg, solution.qg, level]),
        objective=objective,
        bound_multipliers=np.zeros(0),
        row_multipliers=np.zeros(0),
        iterations=solution.iterations,
        seconds=solution.seconds,
        detail=BY_STRUCTURE,
        warm=solution.warm,
    )


def start_from(solver: StructuredSolver, x: Vector, d: Vector) -> WarmStart:
    """Give a program's x (angles, magnitudes, generation, and what else there is) at d as a start without multipliers."""
    n_bus, n_gen = solver.arrays.n_bus, len(solver.arrays.gen_bus)
    va, vm, pg, qg, _ = np.split(x, np.cumsum([n_bus, n_bus, n_gen, n_gen]))
    demand_p, demand_q = _halves(d)
    return solver.start_from(va=va, vm=vm, pg=pg, qg=qg, demand_p=demand_p, demand_q=demand_q)


def _halves(d: Vector) -> tuple[Vector, Vector]:
    """Active and reactive demands."""
    return d[: len(d) // 2], d[len(d) // 2 :]


def _dispatch(d: Vector) -> Dispatch:
    p, q = _halves(d)
    return Dispatch(demand_p=p, demand_q=q)


def _warm_of(known: JointSolution | FollowerSolution | None) -> WarmStart | None:
    point = known.point if known is not None else None
    return point.warm if isinstance(point, StructuredPoint) else None


def _as_previous(joint: JointSolution, last: WarmStart | None) -> FollowerSolution | None:
    """The joint point as the follower's warm start, if the structured solver found it."""
    own = _warm_of(joint)
    if own is None or not isinstance(joint.point, StructuredPoint):
        return None
    warm = own
    if last is not None and np.max(np.abs(joint.d - last.target), initial=0.0) < NEARBY:
        warm = last
    elif last is not None and last.priced and not own.priced:
        warm = last.at(own)
    return FollowerSolution(
        status=joint.status,
        cost=joint.cost,
        x=joint.x,
        prices=np.zeros(len(joint.d)),
        iterations=0,
        seconds=0.0,
        detail=joint.detail,
        point=replace(joint.point, warm=warm),
    )
