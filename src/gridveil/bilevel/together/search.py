"""The problems that many releases wait for, and what each answer means for its row.

Every row has one problem under way at a time, a joint problem or a dispatch, and goes on as soon as that has ended; answers of
many rows are looked at together. A method decides what follows, for all rows that got one, by masks. A row that leaves the usual
path (a problem that none of its starts solves, a refused point from which the method finds no other) is handed over to the code
of single releases, which begins anew. The rest end as single releases do: with a point that a fresh dispatch has verified in the
band.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from gridveil.bilevel.run import SAME_POINT
from gridveil.bilevel.together.record import StepHistory, TurnLine
from gridveil.bilevel.together.rows import Doing, HandOver, Phase, SearchRows, StartAt
from gridveil.core.deadline import check_time
from gridveil.solvers.batch.power_rows import JointAsked, Kind, RowProblems, StartRank, next_attempt
from gridveil.solvers.solves import WORSE_THAN_START

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

LEAST_DEMAND = 1.0
"""Total demand (p.u.) below which a dispatch is not for batches, as in ``PowerBatches.takes``."""
KIND = np.array([Kind.NEAREST, Kind.CUT, Kind.CUT, Kind.CUT, Kind.PUSH, Kind.PUSH, Kind.PUSH, Kind.CUT])
"""Joint problem of each step, by ``Doing``."""
FROM_SCRATCH = np.zeros(len(Phase), np.int64)
"""How dispatches that verify a point start, by ``Phase``."""
FROM_SCRATCH[Phase.FRESH : Phase.FINISHED] = StartRank.COLD, StartRank.SOFTENED, StartRank.NEAR, StartRank.THIN


def _nobody(rows: Ints) -> None:
    """Nobody takes rows before the end."""


class RowSearch(ABC):
    """A method on all rows of a state, which it changes."""

    def __init__(self, rows: SearchRows, within_bounds: Bools) -> None:
        self.rows = rows
        # A high point this near d̃ is d̃ up to rounding, where that is within bounds.
        self._same_point = np.where(within_bounds, SAME_POINT, -1.0)
        self.history, self.turns = StepHistory(), list[TurnLine]()

    @abstractmethod
    def decide(self, mine: Ints, doing: Ints) -> None:
        """What follows for rows whose step has led to a point (``rows.reached``), at which O is known."""

    def refuse(self, mine: Ints, fresh: Floats) -> None:
        """What follows for rows whose best point has, by a fresh solve that is kept there, a cost outside the band."""
        self.rows.hand_over(mine, HandOver.REFUSED)

    def is_nearest(self, mine: Ints) -> Bools:
        """Whether the method has nothing to look at that is nearer than the point that was verified."""
        return np.ones(len(mine), bool)

    def run(self, hand_over: Callable[[Ints], None] = _nobody) -> None:
        """Go on until no row waits any more; ``hand_over`` is told of rows as soon as they are for somebody else."""
        rows = self.rows
        self._run_here(hand_over)
        while len(left := rows.under_way):
            rows.move(rows.power.suited(len(left)))
            self._run_here(hand_over)

    def _run_here(self, hand_over: Callable[[Ints], None]) -> None:
        """Until another engine is for the rows that are left."""
        rows = self.rows
        with rows.problems.attended():
            while len(rows.under_way) and rows.power.suited(len(rows.under_way)) is rows.power:
                check_time()
                before = rows.phase.copy()
                self._turn(rows.problems)
                hand_over(np.flatnonzero((rows.phase != before) & (rows.phase == Phase.HANDED_OVER)))

    def _turn(self, problems: RowProblems) -> None:
        """Begin what rows wait for, and look at what has ended since."""
        rows, begin = self.rows, perf_counter()
        self._begin_joint(problems, np.flatnonzero((rows.phase == Phase.JOINT) & ~rows.asked))
        self._begin_dispatches(problems, np.flatnonzero(rows.waits_for_dispatch & ~rows.asked))
        begun = perf_counter()
        joint, dispatched = problems.advance()
        worked = perf_counter()
        rows.asked[joint] = rows.asked[dispatched] = False
        line = TurnLine(
            joint=tuple(np.bincount(KIND[rows.doing[joint]], minlength=len(Kind)).tolist()),
            dispatches=tuple(np.bincount(rows.phase[dispatched], minlength=Phase.FINISHED)[Phase.FOLLOW :].tolist()),
            waiting=worked - begun,
            seconds_per_row=(worked - begin) / max(1, len(joint) + len(dispatched)),
        )
        self.turns.append(line)
        line.iterations += self._after_joint(problems, joint) + self._after_dispatches(problems, dispatched)
        line.seconds = perf_counter() - begin

    def ask(self, mine: Ints, doing: Doing | Ints, start_at: StartAt | Ints) -> None:
        """Let rows wait for the joint problem of a step."""
        rows = self.rows
        rows.phase[mine], rows.doing[mine], rows.attempt[mine] = Phase.JOINT, doing, StartRank.FIRST
        rows.start_at[mine] = start_at

    def verify(self, mine: Ints) -> None:
        """Let rows wait for a dispatch from scratch at their best point."""
        self.rows.phase[mine] = Phase.FRESH

    # Joint problems.

    def _begin_joint(self, problems: RowProblems, waiting: Ints) -> None:
        rows = self.rows
        if not len(waiting):
            return
        points = (rows.base, rows.reached, rows.highpoint)  # by StartAt
        place = np.choose(rows.start_at[waiting], [one.place[waiting] for one in points])
        asked = JointAsked(
            kind=KIND[rows.doing[waiting]],
            cost_low=rows.joint_band.lower[waiting],
            cost_high=rows.joint_band.upper[waiting],
            base=rows.base.place[waiting],
            missing=rows.aim[waiting] - rows.base.cost[waiting],
            steepness=rows.base.steepness[waiting],
            delta=rows.radius[waiting],
            start=place,
            start_kind=self._start_kind(waiting),
            attempt=rows.attempt[waiting],
        )
        problems.begin_joint(waiting, asked)
        rows.asked[waiting] = True

    def _start_kind(self, mine: Ints) -> Ints:
        """Of the problems whose points rows start from."""
        rows = self.rows
        kinds = [rows.base.kind[mine], rows.reached.kind[mine], np.full(len(mine), int(Kind.NEAREST))]
        return np.choose(rows.start_at[mine], kinds)

    def _after_joint(self, problems: RowProblems, ended: Ints) -> int:
        """Keep the points of joint problems that have ended, and go on to O there; the iterations that they took."""
        if not len(ended):
            return 0
        rows, kind = self.rows, KIND[self.rows.doing[ended]]
        found = problems.joint_answers(ended)
        solved = found.solved
        rows.calls[ended] += solved & (kind != Kind.NEAREST)
        following = next_attempt(kind, self._start_kind(ended), rows.attempt[ended], found.feasible)
        rows.attempt[ended[~solved]] = following[~solved]
        rows.hand_over(ended[~solved & (following < 0)], HandOver.JOINT_UNSOLVED)
        self._keep_joint(problems, ended[solved], kind[solved], found.cost[solved])
        return int(found.iterations.sum())

    def _keep_joint(self, problems: RowProblems, mine: Ints, kind: Ints, cost: Floats) -> None:
        rows, reached = self.rows, self.rows.reached
        place, is_highpoint = rows.free_place(mine), rows.doing[mine] == Doing.HIGHPOINT
        same_point = np.where(is_highpoint, self._same_point[mine], -1.0)
        delta, proxy, total = problems.keep_joint(mine, place, same_point)
        rows.at_noisy[mine[delta <= same_point]] = True
        reached.place[mine], reached.kind[mine], reached.joint_cost[mine] = place, kind, cost
        reached.delta[mine], reached.proxy[mine] = np.where(delta <= same_point, 0.0, delta), proxy
        rows.phase[mine], rows.attempt[mine] = Phase.FOLLOW, StartRank.FIRST
        rows.hand_over(mine[total < LEAST_DEMAND], HandOver.SMALL_DEMAND)

    # Dispatches.

    def _begin_dispatches(self, problems: RowProblems, waiting: Ints) -> None:
        """O at joint points, from these; O at points to be verified, from scratch."""
        if not len(waiting):
            return
        rows = self.rows
        follow = rows.phase[waiting] == Phase.FOLLOW
        place = np.where(follow, rows.reached.place[waiting], rows.base.place[waiting])
        rank = np.where(follow, rows.attempt[waiting], FROM_SCRATCH[rows.phase[waiting]])
        problems.begin_dispatches(waiting, place, rows.last_place[waiting], rows.has_last[waiting], rank)
        rows.asked[waiting] = True

    def _after_dispatches(self, problems: RowProblems, ended: Ints) -> int:
        """Decide what follows dispatches that have ended; the iterations that they took."""
        if not len(ended):
            return 0
        found, follow = problems.dispatch_answers(ended), self.rows.phase[ended] == Phase.FOLLOW
        self._after_fresh(problems, ended[~follow], found.solved[~follow], found.cost[~follow])
        if follow.any():
            feasible = found.feasible[follow]
            self._after_follow(problems, ended[follow], found.solved[follow], feasible, found.cost[follow])
        return int(found.iterations.sum())

    def _after_follow(self, problems: RowProblems, follow: Ints, solved: Bools, feasible: Bools, cost: Floats) -> None:
        """Keep O at the points reached; one above f(x) or unsolved is tried again without multipliers, unless it had none."""
        rows, reached = self.rows, self.rows.reached
        joint_cost = reached.joint_cost[follow]
        no_worse = cost <= joint_cost + WORSE_THAN_START * np.maximum(1.0, np.abs(joint_cost))
        again = rows.attempt[follow] == StartRank.FIRST
        doubtful = again & ~(solved & no_worse) & feasible
        if doubtful.any():
            again[doubtful] = ~problems.began_near(follow[doubtful])
        usable = solved & (no_worse | ~again)
        failed = ~usable
        rows.hand_over(follow[failed & (rows.attempt[follow] == StartRank.THIN)], HandOver.DISPATCH_UNSOLVED)
        rows.attempt[follow[failed]] = np.where(again, StartRank.NEAR, StartRank.THIN)[failed]
        self._keep_follow(problems, follow[usable], cost[usable])

    def _keep_follow(self, problems: RowProblems, mine: Ints, cost: Floats) -> None:
        rows, reached = self.rows, self.rows.reached
        place = reached.place[mine]
        reached.steepness[mine], rows.turned[mine] = problems.keep_dispatches(mine, place, rows.base.place[mine])
        reached.cost[mine], rows.has_last[mine], rows.last_place[mine] = cost, True, place
        doing = rows.doing[mine].copy()
        radius = np.where(KIND[doing] == Kind.PUSH, rows.radius[mine], reached.delta[mine])
        self.history.add(mine, doing, radius, reached, cost, self.turns[-1].seconds_per_row)
        self._keep_highpoint(mine[doing == Doing.HIGHPOINT])
        self.decide(mine, doing)

    def _keep_highpoint(self, mine: Ints) -> None:
        rows = self.rows
        rows.lower[mine] = rows.reached.delta[mine]
        for points in (rows.highpoint, rows.base):
            points.take(rows.reached, mine)

    def _after_fresh(self, problems: RowProblems, mine: Ints, solved: Bools, cost: Floats) -> None:
        """Look at what fresh solves at best points came to; one that failed is made from another start."""
        rows = self.rows
        unsolved = mine[~solved]
        last = rows.phase[unsolved] == Phase.THIN
        rows.hand_over(unsolved[last], HandOver.REFUSED)
        rows.phase[unsolved[~last]] += 1
        self._after_verification(problems, mine[solved], cost[solved])

    def _after_verification(self, problems: RowProblems, mine: Ints, fresh: Floats) -> None:
        """Finish rows whose best point is still in the band: O there is the lower of what was known and what was found."""
        rows = self.rows
        known = rows.base.cost[mine].copy()
        lowest = np.fmin(fresh, known)
        self.history.add(mine, None, rows.base.delta[mine], rows.base, lowest, self.turns[-1].seconds_per_row)
        confirmed = rows.target.contain(lowest, mine)
        self._after_refusals(problems, mine[~confirmed], fresh[~confirmed])
        nearest = self.is_nearest(mine)
        rows.hand_over(mine[confirmed & ~nearest], HandOver.REFUSED)
        ended = confirmed & nearest
        done = mine[ended]
        problems.end(done, rows.base.place[done], (fresh < known)[ended])
        rows.cost[done], rows.phase[done] = lowest[ended], Phase.FINISHED

    def _after_refusals(self, problems: RowProblems, mine: Ints, fresh: Floats) -> None:
        """Keep the fresh dispatches, with their prices, in place of those that led to refused points."""
        base = self.rows.base
        place = base.place[mine]
        base.steepness[mine], _ = problems.keep_dispatches(mine, place, place)
        self.refuse(mine, fresh)
