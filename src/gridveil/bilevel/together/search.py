"""The problems that many releases wait for, and what each answer means for its row.

Every row has one problem under way at a time, a joint problem or a dispatch, and goes on as soon as that has ended; answers of
many rows are looked at together. A method decides what follows, for all rows that got one, by masks. A row that leaves the usual
path (a problem that none of its starts solves, a point that a fresh solve refuses) is handed over to the code of single
releases, which begins anew. The rest end as single releases do: with a point that a fresh dispatch has verified in the band.
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
from gridveil.solvers.batch.contract import BatchStatus
from gridveil.solvers.batch.engine import Array, EngineAnswer
from gridveil.solvers.batch.power_rows import (
    DispatchStarts,
    JointRows,
    JointStarts,
    Kind,
    RowProblems,
    StartRank,
    next_attempt,
)
from gridveil.solvers.batch.solver import host
from gridveil.solvers.solves import WORSE_THAN_START

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

LEAST_DEMAND = 1.0
"""Total demand (p.u.) below which a dispatch is not for batches, as in ``PowerBatches.takes``."""
KIND = np.array([Kind.NEAREST, Kind.CUT, Kind.CUT, Kind.CUT, Kind.PUSH, Kind.PUSH, Kind.PUSH])
"""Joint problem of each step, by ``Doing``."""
FROM_SCRATCH = {Phase.FRESH: StartRank.COLD, Phase.SOFTENED: StartRank.SOFTENED, Phase.NEARBY: StartRank.NEAR}
"""How dispatches that verify a point start."""


def _nobody(rows: Ints) -> None:
    """Nobody takes rows before the end."""


class RowSearch(ABC):
    """A method on all rows of a state, which it changes."""

    def __init__(self, rows: SearchRows, within_bounds: Bools) -> None:
        self.rows, self._xp = rows, rows.power.xp
        self._within_bounds = within_bounds
        self.history, self.turns = StepHistory(), list[TurnLine]()

    @abstractmethod
    def decide(self, mine: Ints, doing: Ints) -> None:
        """What follows for rows whose step has led to a point (``rows.reached``), at which O is known."""

    def run(self, hand_over: Callable[[Ints], None] = _nobody) -> None:
        """Go on until no row waits any more; ``hand_over`` is told of rows as soon as they are for somebody else."""
        rows = self.rows
        self._run_here(hand_over)
        while len(left := rows.under_way):
            rows.move(rows.power.suited(len(left)))
            self._xp = rows.power.xp
            self._run_here(hand_over)

    def _run_here(self, hand_over: Callable[[Ints], None]) -> None:
        """Until another engine is for the rows that are left."""
        rows = self.rows
        problems = rows.power.open(len(rows))
        with problems.attended():
            while len(rows.under_way) and rows.power.suited(len(rows.under_way)) is rows.power:
                check_time()
                before = rows.phase.copy()
                self._turn(problems)
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
        if not len(waiting):
            return
        waiting = self._by_kind(waiting)
        problems.begin_joint(waiting, self._joint_rows(waiting), self._joint_starts(waiting))
        self.rows.asked[waiting] = True

    def _by_kind(self, mine: Ints) -> Ints:
        return mine[np.argsort(KIND[self.rows.doing[mine]], kind="stable")]

    def _after_joint(self, problems: RowProblems, ended: Ints) -> int:
        """Keep the points of joint problems that have ended, and go on to O there; the iterations that they took."""
        if not len(ended):
            return 0
        rows, xp = self.rows, self._xp
        ended = self._by_kind(ended)
        kind = KIND[rows.doing[ended]]
        found, scale, row_scale = problems.joint_answers(ended, self._joint_rows(ended))
        solved, feasible = self._solved(found), host(xp, found.feasible).astype(bool)
        rows.calls[ended] += solved & (kind != Kind.NEAREST)
        following = next_attempt(kind, self._start_kind(ended), rows.attempt[ended], feasible)
        rows.attempt[ended[~solved]] = following[~solved]
        rows.hand_over(ended[~solved & (following < 0)], HandOver.JOINT_UNSOLVED)
        there = np.flatnonzero(solved)
        mine, at, to = ended[there], xp.asarray(there), xp.asarray(ended[there])
        reached = rows.reached
        demand = found.demand[at]
        reached.raw[to], reached.demand[to], reached.scale[to] = found.raw[at], demand, scale[at]
        reached.row_scale[to] = xp.where(xp.asarray(kind[there] != Kind.NEAREST), row_scale[at], 0.0)
        reached.kind[mine] = kind[there]
        reached.joint_cost[mine] = host(xp, found.cost[at])
        reached.delta[mine] = host(xp, ((demand - rows.noisy[to]) ** 2).sum(axis=1))
        reached.proxy[mine] = host(xp, demand[:, : rows.power.n_d // 2].sum(axis=1))
        rows.phase[mine], rows.attempt[mine] = Phase.FOLLOW, StartRank.FIRST
        self._move_to_noisy(mine[rows.doing[mine] == Doing.HIGHPOINT])
        small = host(xp, xp.abs(reached.demand[to]).sum(axis=1)) < LEAST_DEMAND
        rows.hand_over(mine[small], HandOver.SMALL_DEMAND)
        return int(found.iterations.sum())

    def _joint_rows(self, mine: Ints) -> JointRows:
        """What rows ask for, or have asked for: nothing of this changes while their problems are under way."""
        rows, xp = self.rows, self._xp
        kind = KIND[rows.doing[mine]]
        cut, at = mine[kind == Kind.CUT], xp.asarray(mine)
        base = xp.asarray(cut)
        steepness = xp.asarray(rows.steepness[cut])
        normal = rows.base.prices[base] / steepness[:, None]
        missing = xp.asarray(rows.aim[cut] - rows.base.cost[cut])
        return JointRows(
            kind=kind,
            target=rows.noisy[at],
            cost_low=xp.asarray(rows.joint_band.lower[mine]),
            cost_high=xp.asarray(rows.joint_band.upper[mine]),
            normal=normal,
            offset=(normal * rows.base.demand[base]).sum(axis=1) + missing / steepness,
            delta=xp.asarray(rows.radius[mine[kind == Kind.PUSH]]),
        )

    def _start_kind(self, mine: Ints) -> Ints:
        """Of the problems whose points rows start from."""
        rows = self.rows
        kinds = [rows.base.kind[mine], rows.reached.kind[mine], np.full(len(mine), int(Kind.NEAREST))]
        return np.choose(rows.start_at[mine], kinds)

    def _joint_starts(self, waiting: Ints) -> JointStarts:
        rows, xp = self.rows, self._xp
        at = xp.asarray(waiting)
        raw, scale = rows.base.raw[at], rows.base.row_scale[at]
        other = np.flatnonzero(rows.start_at[waiting] == StartAt.REACHED)
        to, there = xp.asarray(other), xp.asarray(waiting[other])
        raw[to], scale[to] = rows.reached.raw[there], rows.reached.row_scale[there]
        other = np.flatnonzero(rows.start_at[waiting] == StartAt.HIGHPOINT)
        raw[xp.asarray(other)] = rows.highpoint.raw[xp.asarray(waiting[other])]
        return JointStarts(raw=raw, row_scale=scale, kind=self._start_kind(waiting), attempt=rows.attempt[waiting])

    def _move_to_noisy(self, mine: Ints) -> None:
        """A high point that is d̃ up to rounding becomes d̃."""
        rows = self.rows
        there = mine[(rows.reached.delta[mine] <= SAME_POINT) & self._within_bounds[mine]]
        at = self._xp.asarray(there)
        rows.reached.demand[at] = rows.noisy[at]
        rows.reached.delta[there], rows.at_noisy[there] = 0.0, True

    # Dispatches.

    def _begin_dispatches(self, problems: RowProblems, waiting: Ints) -> None:
        """O at joint points, from these; O at points to be verified, from scratch."""
        if not len(waiting):
            return
        rows, xp = self.rows, self._xp
        is_follow = rows.phase[waiting] == Phase.FOLLOW
        follow, verified = waiting[is_follow], waiting[~is_follow]
        waiting = np.concatenate([follow, verified])
        places = ((rows.reached, xp.asarray(follow)), (rows.base, xp.asarray(verified)))
        raw, scale, last, last_demand, demand = (
            xp.concatenate([getattr(points, name)[at] for points, at in places])
            for name in ("raw", "scale", "follower", "follower_demand", "demand")
        )
        from_scratch = [FROM_SCRATCH[Phase(phase)] for phase in rows.phase[verified].tolist()]
        starts = DispatchStarts(
            raw=raw,
            scale=scale,
            last=last,
            last_demand=last_demand,
            has_last=rows.has_last[waiting],
            attempt=np.concatenate([rows.attempt[follow], np.array(from_scratch, np.int64)]),
        )
        problems.begin_dispatches(waiting, demand, starts)
        rows.asked[waiting] = True

    def _after_dispatches(self, problems: RowProblems, ended: Ints) -> int:
        """Decide what follows dispatches that have ended; the iterations that they took."""
        if not len(ended):
            return 0
        rows, xp = self.rows, self._xp
        ended = ended[np.argsort(rows.phase[ended] != Phase.FOLLOW, kind="stable")]
        n_follow = int((rows.phase[ended] == Phase.FOLLOW).sum())
        found = problems.dispatch_answers(ended)
        solved, cost = self._solved(found), host(xp, found.cost)
        self._after_fresh(ended[n_follow:], solved[n_follow:], cost[n_follow:], found.raw[n_follow:])
        if n_follow:
            follow = ended[:n_follow]
            near = problems.without_multipliers(follow) & host(xp, found.feasible[:n_follow]).astype(bool)
            self._after_follow(follow, solved[:n_follow], near, cost[:n_follow], found)
        return int(found.iterations.sum())

    def _after_follow(self, follow: Ints, solved: Bools, near: Bools, cost: Floats, found: EngineAnswer) -> None:
        """Keep O at the points reached; one above f(x) or unsolved is tried again without multipliers, unless it had none."""
        rows, xp, reached = self.rows, self._xp, self.rows.reached
        joint_cost = reached.joint_cost[follow]
        no_worse = cost <= joint_cost + WORSE_THAN_START * np.maximum(1.0, np.abs(joint_cost))
        attempt = rows.attempt[follow]
        again = (attempt == StartRank.FIRST) & ~near
        usable = solved & (no_worse | ~again)
        failed = ~usable
        rows.hand_over(follow[failed & (attempt == StartRank.THIN)], HandOver.DISPATCH_UNSOLVED)
        rows.attempt[follow[failed]] = np.where(again, StartRank.NEAR, StartRank.THIN)[failed]
        there = np.flatnonzero(usable)
        mine, to, of = follow[there], xp.asarray(follow[there]), xp.asarray(there)
        reached.follower[to], reached.follower_demand[to] = found.raw[of], reached.demand[to]
        reached.prices[to] = _present(found.prices)[of]
        reached.cost[mine], rows.has_last[mine] = cost[there], True
        doing = rows.doing[mine].copy()
        radius = np.where(KIND[doing] == Kind.PUSH, rows.radius[mine], reached.delta[mine])
        self.history.add(mine, doing, radius, reached, cost[there], self.turns[-1].seconds_per_row)
        self._keep_highpoint(mine[doing == Doing.HIGHPOINT])
        self.decide(mine, doing)

    def _keep_highpoint(self, mine: Ints) -> None:
        rows = self.rows
        rows.lower[mine] = rows.reached.delta[mine]
        for points in (rows.highpoint, rows.base):
            points.take(rows.reached, mine, self._xp)

    def _after_fresh(self, mine: Ints, solved: Bools, cost: Floats, raw: Array) -> None:
        """Finish rows whose best point is still in the band: O there is the lower of what was known and what was found."""
        rows, xp = self.rows, self._xp
        if not len(mine):
            return
        known = rows.base.cost[mine]
        lowest = np.fmin(cost, known)
        confirmed = solved & rows.target.contain(lowest, mine)
        unsolved = ~solved & (rows.phase[mine] < Phase.NEARBY)
        rows.hand_over(mine[~confirmed & ~unsolved], HandOver.REFUSED)
        rows.phase[mine[unsolved]] += 1  # by way of soft balances next, then from the joint point alone
        there = np.flatnonzero(confirmed)
        done, at, to = mine[there], xp.asarray(there), xp.asarray(mine[there])
        better = xp.asarray((cost < known)[there])[:, None]
        rows.cost[done] = lowest[there]
        rows.solution[to] = xp.where(better, raw[at], rows.base.follower[to])
        rows.phase[done] = Phase.FINISHED
        delta, seconds = rows.base.delta[done], self.turns[-1].seconds_per_row
        self.history.add(done, None, delta, rows.base, rows.cost[done], seconds)

    def _solved(self, found: EngineAnswer) -> Bools:
        """Which problems are solved, and checked."""
        solved: Bools = host(self._xp, found.status) == int(BatchStatus.CONVERGED)
        return solved


def _present(prices: Array | None) -> Array:
    if prices is None:
        raise RuntimeError("a dispatch has no prices")
    return prices
