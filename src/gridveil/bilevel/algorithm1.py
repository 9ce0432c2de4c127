"""Algorithm 1 of the paper: binary search on δ, alternating O↑ and O. Everything is measured in the squared norm."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from gridveil.bilevel.engine import Engine
from gridveil.bilevel.monotonicity import measure_monotonicity
from gridveil.bilevel.relaxations import JointSolution
from gridveil.bilevel.result import BilevelResult, Ending, HighPointResult, Step, StepKind
from gridveil.privacy.noisy import CostTarget
from gridveil.programs import FollowerSolution, Status

Vector = NDArray[np.float64]

ETA = 1e-3  # the paper's convergence parameter, on δ
CALL_LIMIT = 3000  # the paper's limit on calls to O↑
# Shares of β that are cut off the band's edges, so that the rounding of one solve cannot undo what another found:
# HPR and O↑ keep f(x) in the smallest band, O(d) is accepted in a wider one, and verified in the whole band.
JOINT_MARGIN, ACCEPTANCE_MARGIN = 1e-4, 5e-5
SAME_POINT = 1e-10  # a high point this near (squared) is d̃ itself up to rounding
FAILURE_LIMIT = 12  # doublings in a row that may fail before the search for a bracket ends
BALL_SLACK = 1e-6  # relative: farther inside its ball than this, O↑ gains nothing from a larger one
PROBES = (0.5, 0.75, 0.25, 0.9)  # where in the bracket to look, should the middle not converge


@dataclass(frozen=True, eq=False)
class _Candidate:
    """A point whose cost O(d) the follower found in the band."""

    joint: JointSolution
    follower: FollowerSolution

    @property
    def delta(self) -> float:
        return self.joint.delta


@dataclass(eq=False)
class _Run:
    """One run: its data, the solves so far and the bracket [lower, upper] on δ, whose upper end is the best point's."""

    engine: Engine
    noisy: Vector
    target: CostTarget
    call_limit: int
    clock: float = field(default_factory=time.perf_counter)
    history: list[Step] = field(default_factory=list)
    starts: list[JointSolution] = field(default_factory=list)
    last_follower: FollowerSolution | None = None
    highpoint: HighPointResult | None = None
    best: _Candidate | None = None
    lower: float = 0.0
    calls: int = 0

    @property
    def joint_band(self) -> CostTarget:
        """The band for f(x) in HPR and O↑."""
        return self.target.shrunk(JOINT_MARGIN)

    @property
    def band(self) -> CostTarget:
        """The band in which O(d) is accepted."""
        return self.target.shrunk(ACCEPTANCE_MARGIN)

    @property
    def upper(self) -> float:
        """Distance of the best point so far."""
        return self.best.delta if self.best else float("inf")

    @property
    def noisy_within_bounds(self) -> bool:
        """Whether d̃ itself could be released."""
        program = self.engine.program
        return bool(np.all((program.d_lower <= self.noisy) & (self.noisy <= program.d_upper)))

    def evaluate(
        self, kind: StepKind, radius: float, joint: JointSolution, clock: float, known: FollowerSolution | None = None
    ) -> FollowerSolution | None:
        """Solve the follower at a joint point (unless it is known) and record the step; None if either did not converge."""
        follower = known
        if follower is None and joint.converged:
            follower = self.engine.follow(joint, self.last_follower)
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
        return usable

    def push(self, kind: StepKind, radius: float) -> tuple[JointSolution, FollowerSolution | None]:
        """O↑(radius), then O at its point."""
        clock = time.perf_counter()
        self.calls += 1
        joint = self.engine.push(self.noisy, self.joint_band, radius, self.starts)
        follower = self.evaluate(kind, radius, joint, clock)
        if follower is not None:
            self.starts.append(joint)
            if self.band.contains(follower.cost) and joint.delta < self.upper:
                self.best = _Candidate(joint, follower)
        return joint, follower

    def finish(self, ending: Ending) -> BilevelResult:
        """Verify the best point afresh and pack everything up."""
        best, confirmed = self.best, None
        if best is not None:
            clock = time.perf_counter()
            confirmed = self.engine.verify(best.joint.d, best.follower)
            self._record_verification(best, confirmed, clock)
            if not (confirmed.converged and self.target.contains(confirmed.cost)):
                ending, best, confirmed = Ending.NOT_VERIFIED, None, None
        pushed = [step for step in self.history if step.kind is not StepKind.VERIFICATION]
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
                np.array([step.proxy for step in pushed]),
                np.array([step.cost for step in pushed]),
                max(abs(self.target.value), self.target.beta),
            ),
            seconds=time.perf_counter() - self.clock,
        )

    def _record_verification(self, best: _Candidate, confirmed: FollowerSolution, clock: float) -> None:
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


def solve_bilevel(
    engine: Engine, noisy: Vector, target: CostTarget, *, eta: float = ETA, call_limit: int = CALL_LIMIT
) -> BilevelResult:
    """(BL): find d* near d̃ with O(d*) in the band. A solve that fails never moves the bracket."""
    run = _Run(engine, noisy, target, call_limit)
    return run.finish(_from_highpoint(run) or _double(run, eta))


def _from_highpoint(run: _Run) -> Ending | None:
    """Solve HPR and look at O(d^h); None if the search has to go on from there."""
    clock = time.perf_counter()
    joint = run.engine.highpoint(run.noisy, run.joint_band)
    follower = None
    if joint.converged and joint.delta <= SAME_POINT and run.noisy_within_bounds:
        at_noisy = replace(joint, d=run.noisy, delta=0.0)
        follower = run.engine.follow(at_noisy, None)
        if follower.converged and follower.cost <= run.band.upper:
            joint = at_noisy
    follower = run.evaluate(
        StepKind.HIGHPOINT, joint.delta, joint, clock, known=follower if joint.d is run.noisy else None
    )
    if not joint.converged:
        return Ending.NO_HIGHPOINT
    cost = follower.cost if follower else float("nan")
    run.highpoint = HighPointResult(d=joint.d, delta=joint.delta, cost=cost)
    run.starts.append(joint)
    run.lower = joint.delta
    if follower is None or not run.band.contains(cost):
        return None
    run.best = _Candidate(joint, follower)
    return Ending.NOISY_IN_BAND if joint.d is run.noisy else Ending.HIGHPOINT_IN_BAND


def _double(run: _Run, eta: float) -> Ending:
    """Double the radius until O↑ reaches the band (Lemma 1 says it does, if O is monotone), then bisect."""
    radius = max(2 * run.lower, eta)
    failures = 0
    while run.calls < run.call_limit and failures < FAILURE_LIMIT:
        joint, follower = run.push(StepKind.DOUBLING, radius)
        if run.best is not None:
            return _bisect(run, eta)
        if follower is None or follower.cost > run.band.upper:
            failures += 1
        else:
            failures = 0
            run.lower = radius
            if joint.delta < (1 - BALL_SLACK) * radius:
                return Ending.NO_BRACKET
        radius *= 2
    return Ending.NO_BRACKET


def _bisect(run: _Run, eta: float) -> Ending:
    """The loop of Algorithm 1: O↑ in the middle of the bracket moves its upper end in, or its lower end out (Lemma 2)."""
    while run.upper - run.lower > eta:
        for share in PROBES:
            if run.calls >= run.call_limit:
                return Ending.CALL_LIMIT
            radius = run.lower + share * (run.upper - run.lower)
            _, follower = run.push(StepKind.BISECTION, radius)
            if follower is None or follower.cost > run.band.upper:
                continue
            if follower.cost < run.band.lower:
                run.lower = radius
            break
        else:
            return Ending.BRACKET_STUCK
    return Ending.BRACKET_CLOSED
