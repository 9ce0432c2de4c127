"""The method ``auto``: price cuts from both sides of the band, checked against O↑.

The constraint that makes the problem bilevel, O(d) ≥ f̃ − β, has a gradient that every follower solve gives for free: the
prices λ = ∂O/∂d. HPR with the cut O(d_k) + λ_kᵀ(d − d_k) ≥ f̃ − β jumps to the band's edge. Where O is convex the cut
underestimates it, so the point reached is in the band, every further cut from there keeps it so, and the distance can
only shrink: the polish. Where O is flat or kinked the cut may fail; then O↑ finds the band, by a root search in √δ.

At the end O↑ is asked once whether it reaches the band a little nearer than the best point. If it does, the search
goes on there; if it does not, Algorithm 1 (whose bracket that would be) cannot do better by more than CHECK. Then the best
point is verified afresh; where that finds a lower optimum of the follower, the next cut starts from it. Should all of this
find nothing, Algorithm 1 itself is the last resort.
"""

from __future__ import annotations

import math
import time

import numpy as np
from numpy.typing import NDArray

from gridveil.bilevel.methods.algorithm1 import BALL_SLACK, CALL_LIMIT, ETA, double_and_bisect
from gridveil.bilevel.result import BilevelResult, Ending, StepKind
from gridveil.bilevel.run import Candidate, Run
from gridveil.core.band import CostTarget
from gridveil.programs import FollowerSolution
from gridveil.solvers.ipopt import Engine
from gridveil.solvers.joint import HalfSpace, JointSolution

Vector = NDArray[np.float64]

CHECK = 1e-3  # how much nearer (share of δ) O↑ must fail to reach the band
AIM_INSIDE = (
    2e-4  # share of √δ that the root search aims beyond its estimate, to end in the band rather than just below
)
NARROW = 1e-3  # share of δ above the high point's within which O↑ has hardly any interior, and is not asked
SMALL_GAIN = 1e-3  # share of δ: a polish that gains less is the last
SAME_CUT = 1e-5  # share of δ that turning and shifting a cut promises, below which it is the same cut again
MOST_CUTS = 5  # towards the band from below, before O↑ takes over
MOST_POLISHES = 8
MOST_PUSHES = 40
MOST_REFUSALS = 3
OVERSHOOT = 1.5  # how much more than it missed by a cut asks for when it is repeated
FLAT = 1e-6  # prices below this share of |f̃| per unit of d say nothing
GROWTH = 1.5  # of the radius, while no estimate of where the band begins is to be had
SMALLEST_RADIUS = 1e-4
LONGEST_STEP = 10.0  # of the first guess, in radii of the high point
SATURATION = 0.01  # share of β below the upper edge
SATURATED_SHARE = 0.25  # of the bracket: where the band limits O↑, its edge is usually near the lower end
MOST_FAILURES = 4  # of O↑, until the root search has a point in the band; then the first one ends it


def solve_auto(engine: Engine, noisy: Vector, target: CostTarget) -> BilevelResult:
    """(BL) by price cuts and root search.

    Never farther than Algorithm 1 by more than CHECK + NARROW, if O is monotone, O↑ answers and the point is verified.
    """
    run = Run(engine, noisy, target)
    at_once = run.start_from_highpoint()
    if at_once is Ending.NO_HIGHPOINT:
        return run.finish(at_once)
    if at_once is None:
        _cut_from_below(run)
        _polish(run)
        if _search_root(run):
            _polish(run)
    first = run.candidates[0] if at_once is not None else None
    found = bool(run.candidates)
    if not _confirm(run) and run.highpoint is not None:
        # Nothing was found, or a fresh solve found another optimum of the follower at every point that was.
        run.candidates.clear()
        run.lower = run.highpoint.delta
        double_and_bisect(run, ETA, CALL_LIMIT)
        if not found:
            _polish(run)
    if at_once is not None and run.confirmed is not None and run.confirmed[0] is first:
        return run.finish(at_once)
    return run.finish(Ending.POLISHED if run.confirmed or run.candidates else Ending.NO_BRACKET)


def _cut_from_below(run: Run) -> None:
    """From the high point, cut until O(d) enters the band.

    A cut that fell short asks for more the next time; one that asked for too much (as from far away, where O is convex)
    asks for half of what is missing.
    """
    joint, follower, warm = run.starts[0], run.last_follower, None
    extra, share = 0.0, 1.0
    for _ in range(MOST_CUTS):
        if follower is None or not follower.cost < run.band.lower:
            return
        missing = run.band.lower - follower.cost
        reached = _cut_step(run, StepKind.CUT, joint, follower, extra - (1 - share) * missing, warm)
        if run.best is not None:
            return
        if reached is None:
            extra, share = 0.0, share / 2
        elif reached[1].cost <= follower.cost:
            return
        else:
            extra = OVERSHOOT * (run.band.lower - reached[1].cost) if share == 1.0 else 0.0
            joint, follower = reached
            warm, share = joint, 1.0


def _polish(run: Run) -> None:
    """From the best point, cut again and again while that brings nearer points in the band."""
    warm = None
    for _ in range(MOST_POLISHES):
        best = run.best
        if best is None:
            return
        reached = _cut_step(run, StepKind.POLISH, best.joint, best.follower, 0.0, warm)
        if reached is not None and run.best is best and reached[0].delta < best.delta:
            missed = run.band.lower - reached[1].cost
            if missed > 0:
                reached = _cut_step(run, StepKind.POLISH, best.joint, best.follower, OVERSHOOT * missed, reached[0])
        if run.upper > (1 - SMALL_GAIN) * best.delta or _is_same_cut(run, best, run.best or best):
            return
        warm = reached[0] if reached is not None else None


def _is_same_cut(run: Run, before: Candidate, after: Candidate) -> bool:
    """Whether a cut at ``after`` would repeat the one at ``before`` that led there.

    A normal turned by the angle φ promises φ² of δ, an offset nearer by x promises 2x/√δ.
    """
    old, new = before.follower.prices, after.follower.prices
    steepness = float(np.linalg.norm(new))
    radius_cost = steepness * math.sqrt(after.delta)
    if radius_cost == 0.0:
        return False
    turned = float(np.sum((new / steepness - old / np.linalg.norm(old)) ** 2))
    shifted = 2 * abs(after.follower.cost - _aim(run)) / radius_cost
    return turned + shifted < SAME_CUT


def _aim(run: Run) -> float:
    """Cost that a cut asks for: just above the band's lower edge."""
    return (run.band.lower + run.joint_band.lower) / 2


def _confirm(run: Run) -> bool:
    """Verify the best point; where a fresh solve finds a lower optimum of the follower, cut again from that.

    A cut that was refused too asks for as much more as the two optima differ. Should this lead nowhere, any other point will do.
    """
    candidate = run.best
    for refusals in range(MOST_REFUSALS):
        if candidate is None:
            break
        fresh = run.verify(candidate)
        if run.confirmed is not None:
            return True
        if not (fresh.converged and fresh.cost < run.band.lower):
            break
        extra = OVERSHOOT * (candidate.follower.cost - fresh.cost) if refusals > 0 else 0.0
        reached = _cut_step(run, StepKind.CUT, candidate.joint, fresh, extra, candidate.joint)
        candidate = Candidate(*reached) if reached is not None and run.band.contains(reached[1].cost) else None
    return run.confirm()


def _cut_step(
    run: Run,
    kind: StepKind,
    joint: JointSolution,
    follower: FollowerSolution,
    extra: float,
    warm: JointSolution | None,
) -> tuple[JointSolution, FollowerSolution] | None:
    """Linearise O at a point, solve HPR with the cut that this gives (plus ``extra`` cost) and evaluate O there.

    None if prices vanish, the cut asks for more than the band allows, or a solve fails.
    """
    steepness = float(np.linalg.norm(follower.prices))
    aim = _aim(run) + extra
    if steepness <= FLAT * max(abs(run.target.value), run.target.beta) or aim > run.joint_band.upper:
        return None
    clock = time.perf_counter()
    run.calls += 1
    normal = follower.prices / steepness
    cut = HalfSpace(normal, float(normal @ joint.d) + (aim - follower.cost) / steepness)
    candidate = run.engine.cut(run.noisy, run.joint_band, cut, joint, warm)
    reached = run.evaluate(kind, candidate.delta, candidate, clock)
    return None if reached is None else (candidate, reached)


def _search_root(run: Run) -> bool:
    """Find where O↑ enters the band, as a root in √δ; True if that gave a point nearer than the best so far.

    With a point in hand, O↑ first has to show that it reaches the band nearer than that.
    """
    before = run.upper
    bracket = _Bracket(run)
    estimate = first = math.sqrt((1 - CHECK) * run.upper) if run.best is not None else bracket.first_guess()
    if run.best is not None:
        run.starts.append(run.best.joint)
    least = (1 + NARROW) * run.lower
    for _ in range(MOST_PUSHES):
        estimate = max(estimate, math.sqrt(least))
        if estimate**2 <= run.lower or (run.best is not None and estimate**2 > (1 - CHECK / 2) * run.upper):
            break
        joint, follower = run.push(StepKind.ROOT, estimate**2)
        answered = follower is not None and follower.cost <= run.band.upper
        if follower is None or not answered:
            bracket.failed.append(estimate)
        elif follower.cost < run.band.lower:
            run.lower = max(run.lower, estimate**2)
            bracket.move_low(estimate, follower.cost - run.band.lower)
            if run.best is None and joint.delta < (1 - BALL_SLACK) * estimate**2:
                break
        else:
            bracket.move_high(estimate, follower.cost)
        # A push that failed says nothing, and one well inside the bracket nothing about the rest of it.
        told_no_nearer = answered and run.upper == before and estimate >= first
        closed = run.best is not None and run.upper - run.lower <= CHECK * run.upper
        gave_up = not answered and (run.best is not None or len(bracket.failed) > MOST_FAILURES)
        if told_no_nearer or closed or gave_up:
            break
        estimate = bracket.next_guess(estimate)
    return run.upper < before


class _Bracket:
    """Where O↑ enters the band, between √δ values below it and in it: false position (Illinois), or the middle."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.failed: list[float] = []
        self._low = (math.sqrt(run.lower), run.history[0].cost - run.band.lower)
        self._high: tuple[float, float] | None = None
        self._last_moved = ""

    def first_guess(self) -> float:
        """From the prices at the high point, but a good step beyond it."""
        run, (root, missing) = self._run, self._low
        step = 0.0
        if run.last_follower is not None and math.isfinite(missing):
            slope = float(run.last_follower.prices @ run.engine.proxy_direction(run.noisy))
            step = -missing / slope if slope > 0 else 0.0
        step = min(step, LONGEST_STEP * max(root, math.sqrt(ETA)))  # small prices promise steps that lead nowhere
        return max(root + step, GROWTH * root, math.sqrt(SMALLEST_RADIUS))

    def move_low(self, root: float, missing: float) -> None:
        """A point below the band by ``-missing``; if the low end moved twice running, the other end counts half."""
        self._low = (root, missing)
        if self._last_moved == "low" and self._high is not None:
            self._high = (self._high[0], self._high[1] / 2)
        self._last_moved = "low"

    def move_high(self, root: float, cost: float) -> None:
        """A point in the band. At its upper edge the band, not the radius, limits O↑: its cost then says nothing."""
        run = self._run
        saturated = cost > run.joint_band.upper - SATURATION * run.joint_band.beta
        self._high = None if saturated else (root, cost - run.band.lower)
        if self._last_moved == "high":
            self._low = (self._low[0], self._low[1] / 2)
        self._last_moved = "high"

    def next_guess(self, root: float) -> float:
        """The next √δ to try."""
        run, (low, missing) = self._run, self._low
        if run.best is None:
            return GROWTH * root
        high = math.sqrt(run.upper)
        if self.failed or not math.isfinite(missing):
            return self._middle_of_widest_gap(low, high)
        if self._high is None:
            return low + SATURATED_SHARE * (high - low)
        share = -missing / (self._high[1] - missing)
        guess = low + min(max(share, 0.01), 0.99) * (high - low)
        return min(guess * (1 + AIM_INSIDE), (low + 3 * high) / 4)

    def _middle_of_widest_gap(self, low: float, high: float) -> float:
        """Halve the bracket, keeping away from where O↑ failed."""
        ends = np.array([low, *sorted(root for root in self.failed if low < root < high), high])
        widest = int(np.argmax(np.diff(ends)))
        return float(ends[widest] + ends[widest + 1]) / 2
