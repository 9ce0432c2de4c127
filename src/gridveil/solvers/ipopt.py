"""The solves that Algorithm 1 is made of, for one program: O, HPR and O↑, with the starts and retries of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from gridveil.core.band import CostTarget
from gridveil.programs import Follower, FollowerSolution, ParametricProgram, Status, Trust
from gridveil.solvers.joint import Elastic, HalfSpace, HighPoint, JointSolution, PriceCut, Push

Vector = NDArray[np.float64]

RELAXED_BAND = 10.0  # how much wider the band is that gives HPR a last start
WORSE_THAN_START = 1e-6  # relative: a follower that ends above the x it started from went to a worse optimum


class Engine:
    """Compiled problems of one program, reused for any noisy data and any band."""

    def __init__(self, program: ParametricProgram, *, verbose: bool = False) -> None:
        self.program = program
        self._verbose = verbose

    @cached_property
    def follower(self) -> Follower:
        """O(d)."""
        return Follower(self.program, verbose=self._verbose)

    @cached_property
    def _highpoint(self) -> HighPoint:
        return HighPoint(self.program, verbose=self._verbose)

    @cached_property
    def _push(self) -> Push:
        return Push(self.program, verbose=self._verbose)

    @cached_property
    def _price_cut(self) -> PriceCut:
        return PriceCut(self.program, verbose=self._verbose)

    @cached_property
    def _elastic(self) -> Elastic:
        return Elastic(self.program, verbose=self._verbose)

    def highpoint(self, noisy: Vector, band: CostTarget) -> JointSolution:
        """HPR from one start after another until it converges; all of them use public data, d̃ and the band alone."""
        inside = np.clip(noisy, self.program.d_lower, self.program.d_upper)
        starts = []
        for x, d in self._highpoint_starts(noisy, inside, band):
            starts.append((x, d))
            solution = self._highpoint.solve(noisy, band, x=x, d=d)
            if solution.status is Status.ACCEPTABLE:
                solution = self._highpoint.solve(noisy, band, x=solution.x, d=solution.d)
            if solution.converged:
                return solution
        for x, d in starts if self.program.adaptive_barrier else ():
            solution = self._highpoint.solve(noisy, band, x=x, d=d, trust=Trust.PROBED)
            if solution.converged:
                break
        return solution

    def _highpoint_starts(self, noisy: Vector, inside: Vector, band: CostTarget) -> Iterator[tuple[Vector, Vector]]:
        yield self.program.x_start, inside
        for make_start in self.program.more_starts:
            yield make_start(inside), inside
        relaxed = replace(band, beta=RELAXED_BAND * band.beta)
        near = self._highpoint.solve(noisy, relaxed, x=self.program.x_start, d=inside)
        yield near.x, near.d
        feasible = self._elastic.solve(inside)
        yield feasible.x, feasible.d

    def solve_afresh(self, d: Vector) -> FollowerSolution:
        """O(d) from public starts: the flat one, the x of the nearest feasible data, the program's others."""
        return self._from_public_starts(d, self.follower.solve(d))

    def solve_released(self, d: Vector) -> FollowerSolution:
        """O(d) from public starts for data that may sit at the edge of feasibility.

        There a flat start can crawl for hundreds of slow iterations, so it is given up early.
        """
        return self._from_public_starts(d, self.follower.solve(d, trust=Trust.BRIEF))

    def _from_public_starts(self, d: Vector, solution: FollowerSolution) -> FollowerSolution:
        if not solution.converged:
            nearest = self.nearest_feasible(d)
            solution = self.follower.solve_near(d, nearest.x, nearest.point)
        for make_start in self.program.more_starts:
            if solution.converged:
                break
            solution = self.follower.solve(d, start=make_start(d))
        return solution

    def nearest_feasible(self, d: Vector) -> JointSolution:
        """HPR without its band: the data nearest to d that have any feasible x at all."""
        return self._elastic.solve(d)

    def push(self, noisy: Vector, band: CostTarget, delta: float, starts: list[JointSolution]) -> JointSolution:
        """O↑(δ), warm from the last push, then cold from the last and the first point, then by another barrier rule."""
        last = starts[-1]
        if len(starts) > 1:
            solution = self._push.solve(noisy, band, delta, start=last, warm=True)
            if solution.converged:
                return solution
        for start in dict.fromkeys([last, starts[0]]):
            solution = self._push.solve(noisy, band, delta, start=start, warm=False)
            if solution.converged:
                return solution
        if self.program.adaptive_barrier:
            return self._push.solve(noisy, band, delta, start=last, warm=False, trust=Trust.PROBED)
        return solution

    def cut(
        self, noisy: Vector, band: CostTarget, cut: HalfSpace, start: JointSolution, warm: JointSolution | None
    ) -> JointSolution:
        """HPR with a price cut, warm from the last such solve if there is one, then cold from ``start``."""
        if warm is not None:
            solution = self._price_cut.solve(noisy, band, cut, start=warm, warm=True)
            if solution.converged:
                return solution
        return self._price_cut.solve(noisy, band, cut, start=start, warm=False)

    def proxy_direction(self, d: Vector) -> Vector:
        """The direction in which the proxy m grows fastest, of length one: where O↑ goes first."""
        gradient = np.asarray(self._proxy_gradient(d), dtype=float).ravel()
        return gradient / float(np.linalg.norm(gradient))

    @cached_property
    def _proxy_gradient(self) -> ca.Function:
        return ca.Function("gradient", [self.program.d], [ca.densify(ca.gradient(self.program.proxy, self.program.d))])

    def follow(self, joint: JointSolution, previous: FollowerSolution | None) -> FollowerSolution:
        """O(d) from the x in hand, so that a local solver cannot return a worse point than that x.

        Multipliers of an earlier follower solve make it quick; if that fails, or ends above f(x), it starts again without.
        """
        if previous is not None:
            warm = replace(previous, point=replace(previous.point, x=joint.x))
            solution = self.follower.solve(joint.d, warm=warm)
            if solution.converged and solution.cost <= _just_above(joint.cost):
                return solution
        return self.follower.solve_near(joint.d, joint.x, joint.point)

    def verify(self, joint: JointSolution, known: FollowerSolution, band: CostTarget) -> FollowerSolution:
        """Solve O(d) afresh: from the flat start, or, where that leads nowhere soon, from the joint x without multipliers.

        If the fresh solve leaves the band, other public starts are tried too. O(d) is the lowest cost that converged.
        """
        solutions = [known, self.follower.solve(joint.d, trust=Trust.BRIEF)]
        if not solutions[-1].converged:
            # The joint x has a little room at every limit; the follower's own optimum has none.
            solutions.append(self.follower.solve_near(joint.d, joint.x, joint.point))
        if not (solutions[-1].converged and band.contains(solutions[-1].cost)):
            solutions.append(self._from_public_starts(joint.d, solutions[1]))
        return min((s for s in solutions if s.converged), key=lambda s: s.cost, default=known)


def _just_above(cost: float) -> float:
    return cost + WORSE_THAN_START * max(1.0, abs(cost))
