"""The method ``auto``: price cuts from both sides of the band, checked against O↑.

The constraint that makes the problem bilevel, O(d) ≥ f̃ − β, has a gradient that every follower solve gives for free: the
prices λ = ∂O/∂d. HPR with the cut O(d_k) + λ_kᵀ(d − d_k) ≥ f̃ − β jumps to the band's edge. Where O is convex the cut
underestimates it, so the point reached is in the band, every further cut from there keeps it so, and the distance can
only shrink: the polish.

At the end O↑ is asked once whether it reaches the band a little nearer than the best point. If it does, the search
goes on there, by a root search in √δ; if it does not, Algorithm 1 (whose bracket that would be) cannot do better by more
than ``check``, as long as O↑ and O do not jump. Where they do, what local solves find depends on the way that led there, and
only Algorithm 1's own way tells what Algorithm 1 finds. So that way is gone where cuts found no point in the band, where the
best point stayed away from the edge that cuts aim at, and where O↑ gave no answer.

Then the best point is verified afresh; where that finds a lower optimum of the follower, the next cut starts from it. Should
every point be refused, Algorithm 1 from the points in hand is the last resort. Where points were refused before a farther one
was confirmed, O↑ is asked between them at last, each answer verified afresh.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gridveil.bilevel.methods.algorithm1 import double_and_bisect
from gridveil.bilevel.methods.anchor import confirm_patiently, search_from_anchors
from gridveil.bilevel.methods.bracket import RootBracket
from gridveil.bilevel.methods.settings import AutoSettings
from gridveil.bilevel.result import BilevelResult, Ending, StepKind
from gridveil.bilevel.run import MOST_VERIFICATIONS, SAME_POINT, EvaluatedPoint, MethodRun, run_method
from gridveil.bilevel.together.offer import Asked, ask_together
from gridveil.core.band import CostTarget
from gridveil.core.deadline import check_time
from gridveil.core.methods import Method
from gridveil.solvers.backend import Answer, Backend, HalfSpace

Vector = NDArray[np.float64]

DEFAULTS = AutoSettings()


def solve_auto(backend: Backend, noisy: Vector, target: CostTarget, settings: AutoSettings = DEFAULTS) -> BilevelResult:
    """(BL) by price cuts and root search.

    Never farther than Algorithm 1 by more than ``narrow_bracket``, if O is monotone, O↑ answers and the point is verified.
    """
    together = ask_together(backend, Asked(Method.AUTO, noisy, target)) if settings is DEFAULTS else None
    return together or run_method(backend, noisy, target, lambda run: _search(run, settings))


def _search(run: MethodRun, settings: AutoSettings) -> Ending:
    search = _AutoSearch(run, settings)
    at_once = run.start_from_highpoint()
    if at_once is Ending.NO_HIGHPOINT:
        return at_once
    if at_once is None:
        search.cut_from_below()
        search.polish()
        if search.search_root():
            search.polish()
        if search.is_in_doubt() and search.follow_algorithm1():
            search.polish()
    first = run.candidates[0] if at_once is not None else None
    found = bool(run.candidates)
    if not search.confirm() and run.highpoint is not None:
        if found:
            # A fresh solve found another optimum of the follower at every point in hand.
            run.candidates.clear()
            run.lower = run.highpoint.delta
            double_and_bisect(run, settings.bisection, search.is_closed)
        refused = bool(run.candidates)
        if not search.confirm_any() and not confirm_patiently(run):
            if search_from_anchors(run):
                search.polish()
                confirm_patiently(run)
            elif refused:
                return Ending.NOT_VERIFIED
    if at_once is not None and run.confirmed is not None and run.confirmed[0] is first:
        return at_once
    return Ending.POLISHED if run.confirmed else Ending.NO_BRACKET


@dataclass(frozen=True, eq=False)
class _AutoSearch:
    """The steps of the method on one run."""

    run: MethodRun
    settings: AutoSettings

    @property
    def _aim(self) -> float:
        """Cost that a cut asks for: just above the band's lower edge."""
        return (self.run.band.lower + self.run.joint_band.lower) / 2

    def cut_from_below(self) -> None:
        """From the high point, cut until O(d) enters the band.

        A cut that fell short asks for more the next time; one that asked for too much (as from far away, where O is convex)
        asks for half of what is missing. One that gains little tells that prices change on the way; then further cuts hardly
        ever find the band.
        """
        run = self.run
        joint, follower, warm = run.starts[0], run.last_follower, None
        extra, share = 0.0, 1.0
        for _ in range(self.settings.most_cuts):
            if follower is None or not follower.cost < run.band.lower:
                return
            missing = run.band.lower - follower.cost
            reached = self._cut_step(StepKind.CUT, joint, follower, extra - (1 - share) * missing, warm)
            if run.best is not None:
                return
            if reached is None:
                extra, share = 0.0, share / 2
            elif reached.follower.cost - follower.cost < self.settings.least_gain * share * missing:
                return
            else:
                short = run.band.lower - reached.follower.cost
                extra = self.settings.overshoot * short if share == 1.0 else 0.0
                joint, follower = reached.joint, reached.follower
                warm, share = joint, 1.0

    def polish(self) -> None:
        """From the best point, cut again and again while that brings nearer points in the band.

        No point in the band is nearer than the high point, so one hardly farther is near enough.
        """
        run, settings = self.run, self.settings
        warm = None
        for _ in range(settings.most_polishes):
            best = run.best
            if best is None or best.delta <= (1 + settings.narrow) * run.starts[0].delta:
                return
            reached = self._cut_step(StepKind.POLISH, best.joint, best.follower, 0.0, warm)
            if reached is not None and run.best is best and reached.delta < best.delta:
                missed = run.band.lower - reached.follower.cost
                if missed > 0:
                    more = settings.overshoot * missed
                    reached = self._cut_step(StepKind.POLISH, best.joint, best.follower, more, reached.joint)
            if run.upper > (1 - settings.small_gain) * best.delta or self._is_same_cut(best, run.best or best):
                return
            warm = reached.joint if reached is not None else None

    def _is_same_cut(self, before: EvaluatedPoint, after: EvaluatedPoint) -> bool:
        """Whether a cut at ``after`` would repeat the one at ``before`` that led there.

        A normal turned by the angle φ promises φ² of δ, an offset nearer by x promises 2x/√δ.
        """
        old, new = before.follower.prices, after.follower.prices
        if old is None or new is None:
            return False
        steepness = float(np.linalg.norm(new))
        radius_cost = steepness * math.sqrt(after.delta)
        if radius_cost == 0.0:
            return False
        turned = float(np.sum((new / steepness - old / np.linalg.norm(old)) ** 2))
        shifted = 2 * abs(after.follower.cost - self._aim) / radius_cost
        return turned + shifted < self.settings.same_cut

    def search_root(self) -> bool:
        """Find where O↑ enters the band below the best point; True if that gave a nearer one."""
        run = self.run
        if run.best is None:
            return False
        before = run.upper
        bracket = RootBracket(run, self.settings)
        run.starts.append(run.best.joint)
        while (radius := bracket.next_radius()) is not None:
            _, follower = run.push(StepKind.ROOT, radius)
            bracket.learn(follower)
        return run.upper < before

    def is_in_doubt(self) -> bool:
        """Whether Algorithm 1 might do better: no point, one away from the edge of the band, or O↑ gave no answer."""
        run = self.run
        if run.best is None:
            return True
        above = run.best.follower.cost - run.band.lower
        unanswered = any(step.kind is StepKind.ROOT and not step.cost <= run.band.upper for step in run.history)
        return unanswered or above > self.settings.off_edge * run.band.beta

    def is_closed(self, known: float = math.inf) -> bool:
        """Whether the bracket leaves no more than ``check`` to gain over its upper end and a distance known otherwise.

        Or its middle is so near to the high point that O↑ is not asked there.
        """
        run, settings = self.run, self.settings
        upper = min(run.upper, known)
        if upper <= (1 + settings.narrow_bracket) * run.starts[0].delta:
            return True
        return run.lower >= min((1 - settings.check) * upper, upper - SAME_POINT)

    def follow_algorithm1(self) -> bool:
        """Go the way of Algorithm 1 from the high point, as long as it may end nearer; True if it gave a nearer point."""
        run, known = self.run, self.run.upper
        others, run.candidates = run.candidates, []
        run.back_to_highpoint()
        try:
            double_and_bisect(run, self.settings.bisection, lambda: self.is_closed(known))
        finally:
            run.candidates = others + run.candidates
        return run.upper < known

    def confirm(self) -> bool:
        """Verify the best point; where a fresh solve finds a lower optimum of the follower, cut again from that.

        A cut that was refused too asks for as much more as the two optima differ. Should this lead nowhere, any other point
        will do.
        """
        run = self.run
        candidate = run.best
        for refusals in range(self.settings.most_refusals):
            if candidate is None:
                break
            fresh = run.verify(candidate)
            if run.confirmed is not None:
                self._confirm_nearer()
                return True
            if not (fresh.converged and fresh.cost < run.band.lower):
                break
            extra = self.settings.overshoot * (candidate.follower.cost - fresh.cost) if refusals > 0 else 0.0
            reached = self._cut_step(StepKind.CUT, candidate.joint, fresh, extra, candidate.joint)
            candidate = reached if reached is not None and run.band.contains(reached.follower.cost) else None
        return self.confirm_any()

    def _confirm_nearer(self) -> None:
        """Verify the points that are nearer than the confirmed one: a cut from a refused point may have passed them over."""
        run = self.run
        if run.confirmed is None:
            return
        most = (1 - self.settings.check) * run.confirmed[0].delta
        nearer = sorted((point for point in run.candidates if point.delta < most), key=lambda point: point.delta)
        for candidate in nearer[:MOST_VERIFICATIONS]:
            run.verify(candidate)
            if run.confirmed[0] is candidate:
                return

    def confirm_any(self) -> bool:
        """Verify one point after the other, nearest first; then look for a nearer one between it and those refused."""
        if self.run.confirm():
            self._close_in()
        return self.run.confirmed is not None

    def _close_in(self) -> None:
        """Bisect between the farthest refused point and the confirmed one, until hardly anything lies between them."""
        run = self.run
        if run.confirmed is None:
            return
        nearest = run.confirmed[0].delta
        lower = max((refused for refused in run.refused if refused < nearest), default=nearest)
        for _ in range(self.settings.most_pushes):
            if nearest - lower <= self.settings.check * nearest:
                return
            radius = (lower + nearest) / 2
            joint, follower = run.push(StepKind.ROOT, radius)
            if follower is None or follower.cost > run.band.upper:
                return
            if run.band.contains(follower.cost):
                run.verify(EvaluatedPoint(joint, follower))
            if run.confirmed[0].delta == nearest:
                lower = radius
            nearest = run.confirmed[0].delta

    def _cut_step(
        self, kind: StepKind, joint: Answer, follower: Answer, extra: float, warm: Answer | None
    ) -> EvaluatedPoint | None:
        """Linearise O at a point, solve HPR with the cut that this gives (plus ``extra`` cost) and evaluate O there.

        None if prices vanish, the cut asks for more than the band allows, or a solve fails.
        """
        run, prices = self.run, follower.prices
        if prices is None:
            return None
        steepness = float(np.linalg.norm(prices))
        aim = self._aim + extra
        least = self.settings.flat * max(abs(run.target.value), run.target.beta)
        if steepness <= least or aim > run.joint_band.upper:
            return None
        check_time()
        clock = time.perf_counter()
        run.calls += 1
        normal = prices / steepness
        cut = HalfSpace(normal, float(normal @ joint.d) + (aim - follower.cost) / steepness)
        reached = run.solves.cut(run.noisy, run.joint_band, cut, joint, warm)
        follower_there = run.evaluate(kind, reached.delta, reached, clock)
        return None if follower_there is None else EvaluatedPoint(reached, follower_there)
