"""One run of a bilevel method: its data, its solves so far and the bracket on δ. Shared by all methods."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gridveil.bilevel.monotonicity import measure_monotonicity
from gridveil.bilevel.result import BilevelResult, Ending, HighPointResult, Step, StepKind
from gridveil.core.band import CostTarget
from gridveil.core.deadline import OutOfTimeError, check_time, seconds_left, time_limit
from gridveil.programs import Status
from gridveil.solvers.backend import Answer, Backend
from gridveil.solvers.solves import Solves

Vector = NDArray[np.float64]

# Shares of β that are cut off the band's edges, so that the rounding of one solve cannot undo what another found:
# joint problems keep f(x) in the smallest band, O(d) is accepted in a wider one, and verified in the whole band.
JOINT_MARGIN, ACCEPTANCE_MARGIN = 1e-4, 5e-5
SEARCH_SHARE = 0.75  # of the time left when a search begins; the rest is for the verification of what it finds
MOST_VERIFICATIONS = 6  # points that a fresh solve may refuse before a run ends without one
SAME_POINT = 1e-10  # a high point this near (squared) is d̃ itself up to rounding
ON_THE_PATH = {StepKind.HIGHPOINT, StepKind.DOUBLING, StepKind.BISECTION, StepKind.ROOT}


def run_method(
    backend: Backend, noisy: Vector, target: CostTarget, search: Callable[[MethodRun], Ending]
) -> BilevelResult:
    """Search; where that verifies nothing and dispatches were given up on the way, once more with patience."""
    run = MethodRun(backend, noisy, target)
    result = run.conclude(lambda: search(run))
    if result.verified or result.ending is Ending.OUT_OF_TIME or not (run.solves.hurries and run.gave_up):
        return result
    again = MethodRun(backend, noisy, target, clock=run.clock, patient=True)
    return again.conclude(lambda: search(again))


@dataclass(frozen=True, eq=False)
class EvaluatedPoint:
    """A point of a joint problem, and O at its d."""

    joint: Answer
    follower: Answer

    @property
    def delta(self) -> float:
        """Its squared distance to d̃."""
        return self.joint.delta


@dataclass(eq=False)
class MethodRun:
    """Data, history, best point and bracket [lower, upper] on δ; the upper end is the best point's distance."""

    backend: Backend
    noisy: Vector
    target: CostTarget
    clock: float = field(default_factory=time.perf_counter)
    history: list[Step] = field(default_factory=list)
    starts: list[Answer] = field(default_factory=list)
    last_follower: Answer | None = None
    highpoint: HighPointResult | None = None
    highpoint_follower: Answer | None = None
    candidates: list[EvaluatedPoint] = field(default_factory=list)
    lower: float = 0.0
    calls: int = 0
    confirmed: tuple[EvaluatedPoint, Answer] | None = None
    refused: list[float] = field(default_factory=list)
    """Distances of the points that a fresh solve refused."""
    fresh: Answer | None = None
    """The solve from scratch at the confirmed point."""
    patient: bool = False
    """See ``Solves``."""

    @cached_property
    def solves(self) -> Solves:
        """The backend's problems with their starts and retries."""
        return Solves(self.backend, self.patient)

    @cached_property
    def joint_band(self) -> CostTarget:
        """The band for f(x) in the joint problems."""
        return self.target.shrunk(JOINT_MARGIN)

    @cached_property
    def band(self) -> CostTarget:
        """The band in which O(d) is accepted."""
        return self.target.shrunk(ACCEPTANCE_MARGIN)

    @property
    def best(self) -> EvaluatedPoint | None:
        """The nearest point so far whose cost was found in the band."""
        return min(self.candidates, key=lambda candidate: candidate.delta, default=None)

    @property
    def upper(self) -> float:
        """Distance of the best point so far."""
        return self.best.delta if self.best else float("inf")

    @property
    def gave_up(self) -> bool:
        """Whether O at a joint point was not found."""
        return any(step.joint_status is Status.CONVERGED and not np.isfinite(step.cost) for step in self.history)

    def conclude(self, search: Callable[[], Ending]) -> BilevelResult:
        """Search until it ends by itself or most of the time is over, and build the result with the best point found."""
        try:
            with time_limit(SEARCH_SHARE * seconds_left()):
                ending = search()
        except OutOfTimeError:
            ending = Ending.TIME_LIMIT
        return self.finish(ending)

    def start_from_highpoint(self) -> Ending | None:
        """Solve HPR and look at O(d^h); None if the search has to go on from there."""
        clock = time.perf_counter()
        joint = self.solves.highpoint(self.noisy, self.joint_band)
        known = None
        if joint.converged and joint.delta <= SAME_POINT and self._noisy_within_bounds:
            at_noisy = joint.moved(self.noisy, 0.0)
            known = self.solves.follow(at_noisy, None)
            if known.converged and known.cost <= self.band.upper and self.target.keeps(self.noisy):
                joint = at_noisy
        follower = self.evaluate(
            StepKind.HIGHPOINT, joint.delta, joint, clock, known=known if joint.d is self.noisy else None
        )
        if not joint.converged:
            return Ending.NO_HIGHPOINT
        cost = follower.cost if follower else float("nan")
        self.highpoint = HighPointResult(d=joint.d, delta=joint.delta, cost=cost)
        self.highpoint_follower = follower
        self.starts.append(joint)
        self.lower = joint.delta
        if follower is None or not self.band.contains(cost) or not self.target.keeps(joint.d):
            return None
        self.candidates.append(EvaluatedPoint(joint, follower))
        return Ending.NOISY_IN_BAND if joint.d is self.noisy else Ending.HIGHPOINT_IN_BAND

    @property
    def _noisy_within_bounds(self) -> bool:
        program = self.backend.program
        return bool(np.all((program.d_lower <= self.noisy) & (self.noisy <= program.d_upper)))

    def back_to_highpoint(self) -> None:
        """Forget all starts but the high point: what follows does not depend on what was tried before."""
        del self.starts[1:]
        self.last_follower = self.highpoint_follower
        self.lower = self.starts[0].delta

    def push(self, kind: StepKind, radius: float) -> tuple[Answer, Answer | None]:
        """O↑(radius), then O at its point; a point in the band that is nearer than the best becomes the best."""
        check_time()
        clock = time.perf_counter()
        self.calls += 1
        joint = self.solves.push(self.noisy, self.joint_band, radius, self.starts)
        follower = self.evaluate(kind, radius, joint, clock)
        if follower is not None:
            self.starts.append(joint)
        return joint, follower

    def evaluate(
        self, kind: StepKind, radius: float, joint: Answer, clock: float, known: Answer | None = None
    ) -> Answer | None:
        """Solve the follower at a joint point (unless it is known) and record the step; None if either did not converge."""
        follower = known
        if follower is None and joint.converged:
            follower = self.solves.follow(joint, self.last_follower)
        usable = follower if follower is not None and follower.converged else None
        self.history.append(
            Step(
                kind=kind,
                radius=radius,
                delta=joint.delta,
                proxy=joint.proxy,
                joint_cost=joint.cost,
                cost=usable.cost if usable else float("nan"),
                joint_status=joint.status,
                follower_status=follower.status if follower else Status.FAILED,
                seconds=time.perf_counter() - clock,
            )
        )
        if usable:
            self.last_follower = usable
            if kind is not StepKind.HIGHPOINT and self.band.contains(usable.cost) and self.target.keeps(joint.d):
                self.candidates.append(EvaluatedPoint(joint, usable))
        return usable

    def confirm(self) -> bool:
        """Verify the best point afresh; if a fresh solve refuses it, the next nearest is tried."""
        nearest_first = sorted(self.candidates, key=lambda candidate: candidate.delta)
        for candidate in nearest_first[:MOST_VERIFICATIONS]:
            self.verify(candidate)
            if self.confirmed is not None:
                return True
        return False

    def verify(self, candidate: EvaluatedPoint) -> Answer:
        """Solve O at a candidate afresh; it is confirmed if that is in the band, and no candidate any more if not."""
        check_time()
        clock = time.perf_counter()
        fresh = self.solves.fresh(candidate.joint.d)
        solution = self.solves.verify(candidate.joint, candidate.follower, self.target, fresh)
        self._record_verification(candidate, solution, clock)
        if solution.converged and self.target.contains(solution.cost):
            self.confirmed, self.fresh = (candidate, solution), fresh
        else:
            self.candidates = [other for other in self.candidates if other.joint is not candidate.joint]
            self.refused.append(candidate.delta)
        return solution

    def finish(self, ending: Ending) -> BilevelResult:
        """Build the result with the confirmed point."""
        try:
            if self.confirmed is None and self.candidates and not self.confirm() and ending is not Ending.TIME_LIMIT:
                ending = Ending.NOT_VERIFIED
        except OutOfTimeError:
            ending = Ending.TIME_LIMIT
        if ending is Ending.TIME_LIMIT and self.confirmed is None:
            ending = Ending.OUT_OF_TIME
        best, confirmed = self.confirmed or (None, None)
        path = [step for step in self.history if step.kind in ON_THE_PATH]
        return BilevelResult(
            ending=ending,
            d=best.joint.d if best else None,
            x=confirmed.x if confirmed else None,
            cost=confirmed.cost if confirmed else float("nan"),
            delta=best.delta if best else float("nan"),
            highpoint=self.highpoint,
            optimisations=1 + self.calls,
            history=tuple(self.history),
            monotonicity=measure_monotonicity(
                np.array([step.proxy for step in path]),
                np.array([step.cost for step in path]),
                max(abs(self.target.value), self.target.beta),
            ),
            seconds=time.perf_counter() - self.clock,
            fresh=self.fresh,
        )

    def _record_verification(self, best: EvaluatedPoint, confirmed: Answer, clock: float) -> None:
        self.history.append(
            Step(
                kind=StepKind.VERIFICATION,
                radius=best.delta,
                delta=best.delta,
                proxy=best.joint.proxy,
                joint_cost=best.joint.cost,
                cost=confirmed.cost if confirmed.converged else float("nan"),
                joint_status=best.joint.status,
                follower_status=confirmed.status,
                seconds=time.perf_counter() - clock,
            )
        )
