"""Turns of many releases: the problems that rows wait for, solved together, and what each answer means for its row.

Rows take turns: a turn is one batch of the joint problems that rows wait for, of whatever kind, then one batch of dispatches.
A method decides what follows an answer, for all rows that got one, by masks. A row that leaves the usual path (a problem that
its batch does not solve, a point that a fresh solve refuses) is handed over to the code of single releases, which begins anew.
The rest end as single releases do: with a point that a fresh dispatch has verified in the band.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from gridveil.bilevel.run import SAME_POINT
from gridveil.bilevel.together.record import BatchLine, StepHistory
from gridveil.bilevel.together.rows import AutoRows, Doing, EvaluatedRows, HandOver, Phase, StartAt
from gridveil.core.deadline import check_time
from gridveil.solvers.batch.contract import BatchStatus
from gridveil.solvers.batch.engine import Array, EngineAnswer, Patience
from gridveil.solvers.batch.power_rows import FollowStarts, JointRows, JointStarts, Kind, StartRank, next_attempt
from gridveil.solvers.batch.settings import MAX_ITERATIONS
from gridveil.solvers.batch.solver import host
from gridveil.solvers.solves import WORSE_THAN_START

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

FIRST_ITERATIONS = 40
"""Iterations of a problem while other rows wait for it; one that needs more waits until the others have ended."""
LEFT = 0.01
"""Share of a batch that is not waited for either."""
FEW = 0.01
"""Share of the rows that is too few for a batch of their own: they go on with those that wait for the end."""
LEAST_DEMAND = 1.0
"""Total demand (p.u.) below which a dispatch is not for batches, as in ``PowerBatches.takes``."""
KIND = np.array([Kind.NEAREST, Kind.CUT, Kind.CUT, Kind.CUT, Kind.PUSH, Kind.PUSH, Kind.PUSH])
"""Joint problem of each step, by ``Doing``."""


class RowSearch(ABC):
    """A method on all rows of a state, which it changes."""

    def __init__(self, rows: AutoRows, within_bounds: Bools) -> None:
        self.rows, self._xp = rows, rows.power.xp
        self._within_bounds = within_bounds
        self._patience = Patience(max_iterations=FIRST_ITERATIONS, left=LEFT)
        self.history, self.batches = StepHistory(), list[BatchLine]()

    @abstractmethod
    def decide(self, mine: Ints, doing: Ints) -> None:
        """What follows for rows whose step has led to a point (``rows.reached``), at which O is known."""

    def run(self) -> None:
        """Take turns until no row waits any more."""
        rows = self.rows
        while True:
            check_time()
            under_way = rows.phase < Phase.FINISHED
            if not under_way.any():
                return
            if self._hurries and np.sum(under_way & ~rows.parked) <= FEW * len(rows):
                rows.parked[:], self._patience = False, Patience()
            self._solve_joint(self._waiting(Phase.JOINT))
            self._solve_dispatches(self._waiting(Phase.FOLLOW), self._waiting(Phase.FRESH))
            self._verify_otherwise(Phase.SOFTENED)
            self._verify_otherwise(Phase.NEARBY)

    def ask(self, mine: Ints, doing: Doing | Ints, start_at: StartAt | Ints) -> None:
        """Let rows wait for the joint problem of a step."""
        rows = self.rows
        rows.phase[mine], rows.doing[mine], rows.attempt[mine] = Phase.JOINT, doing, StartRank.FIRST
        rows.start_at[mine] = start_at

    def verify(self, mine: Ints) -> None:
        """Let rows wait for a dispatch from scratch at their best point."""
        self.rows.phase[mine] = Phase.FRESH

    @property
    def _hurries(self) -> bool:
        """Whether rows that take long have to wait for the others."""
        return self._patience.max_iterations < MAX_ITERATIONS

    def _waiting(self, phase: Phase) -> Ints:
        return np.flatnonzero((self.rows.phase == phase) & ~self.rows.parked)

    # Joint problems.

    def _solve_joint(self, waiting: Ints) -> None:
        if not len(waiting):
            return
        rows, xp, begin = self.rows, self._xp, perf_counter()
        waiting = waiting[np.argsort(KIND[rows.doing[waiting]], kind="stable")]
        kind = KIND[rows.doing[waiting]]
        starts = self._joint_starts(waiting)
        found, lowered = rows.power.joint(self._joint_rows(waiting, kind), starts, self._patience)
        solved, feasible = self._verdict(found, waiting), host(xp, found.feasible).astype(bool)
        rows.calls[waiting] += solved & (kind != Kind.NEAREST)
        failed = ~solved & ~rows.parked[waiting]
        following = next_attempt(kind, starts.kind, starts.attempt, feasible)
        rows.attempt[waiting[failed]] = following[failed]
        rows.hand_over(waiting[failed & (following < 0)], HandOver.JOINT_UNSOLVED)
        there = np.flatnonzero(solved)
        mine, at, to = waiting[there], xp.asarray(there), xp.asarray(waiting[there])
        reached = rows.reached
        demand = found.demand[at]
        reached.raw[to], reached.demand[to], reached.scale[to] = found.raw[at], demand, lowered.objective_scale[at]
        reached.row_scale[to] = xp.where(xp.asarray(kind[there] != Kind.NEAREST), lowered.row_scale[at, 1], 0.0)
        reached.kind[mine] = kind[there]
        reached.joint_cost[mine] = host(xp, found.cost[at])
        reached.delta[mine] = host(xp, ((demand - rows.noisy[to]) ** 2).sum(axis=1))
        reached.proxy[mine] = host(xp, demand[:, : rows.power.n_d // 2].sum(axis=1))
        rows.phase[mine], rows.attempt[mine] = Phase.FOLLOW, StartRank.FIRST
        self._move_to_noisy(mine[rows.doing[mine] == Doing.HIGHPOINT])
        small = host(xp, xp.abs(reached.demand[to]).sum(axis=1)) < LEAST_DEMAND
        rows.hand_over(mine[small], HandOver.SMALL_DEMAND)
        self._note("joint", found, np.bincount(kind, minlength=len(Kind)), begin)

    def _joint_rows(self, waiting: Ints, kind: Ints) -> JointRows:
        rows, xp = self.rows, self._xp
        cut, at = waiting[kind == Kind.CUT], xp.asarray(waiting)
        base = xp.asarray(cut)
        steepness = xp.asarray(rows.steepness[cut])
        normal = rows.base.prices[base] / steepness[:, None]
        missing = xp.asarray(rows.aim[cut] - rows.base.cost[cut])
        return JointRows(
            kind=kind,
            target=rows.noisy[at],
            cost_low=xp.asarray(rows.joint_band.lower[waiting]),
            cost_high=xp.asarray(rows.joint_band.upper[waiting]),
            normal=normal,
            offset=(normal * rows.base.demand[base]).sum(axis=1) + missing / steepness,
            delta=xp.asarray(rows.radius[waiting[kind == Kind.PUSH]]),
        )

    def _joint_starts(self, waiting: Ints) -> JointStarts:
        rows, xp = self.rows, self._xp
        at = xp.asarray(waiting)
        raw, scale, kind = rows.base.raw[at], rows.base.row_scale[at], rows.base.kind[waiting]
        other = np.flatnonzero(rows.start_at[waiting] == StartAt.REACHED)
        to, there = xp.asarray(other), xp.asarray(waiting[other])
        raw[to], scale[to] = rows.reached.raw[there], rows.reached.row_scale[there]
        kind[other] = rows.reached.kind[waiting[other]]
        other = np.flatnonzero(rows.start_at[waiting] == StartAt.HIGHPOINT)
        raw[xp.asarray(other)] = rows.highpoint_raw[xp.asarray(waiting[other])]
        kind[other] = Kind.NEAREST
        return JointStarts(raw=raw, row_scale=scale, kind=kind, attempt=rows.attempt[waiting])

    def _move_to_noisy(self, mine: Ints) -> None:
        """A high point that is d̃ up to rounding becomes d̃."""
        rows = self.rows
        there = mine[(rows.reached.delta[mine] <= SAME_POINT) & self._within_bounds[mine]]
        at = self._xp.asarray(there)
        rows.reached.demand[at] = rows.noisy[at]
        rows.reached.delta[there], rows.at_noisy[there] = 0.0, True

    # Dispatches.

    def _solve_dispatches(self, follow: Ints, fresh: Ints) -> None:
        if not len(follow) + len(fresh):
            return
        rows, xp, begin = self.rows, self._xp, perf_counter()
        starts = self._follow_starts(rows.reached, follow, rows.attempt[follow])
        demand, to_verify = rows.reached.demand[xp.asarray(follow)], rows.base.demand[xp.asarray(fresh)]
        found = rows.power.dispatch(demand, starts, to_verify, self._patience)
        solved, cost = self._verdict(found, np.concatenate([follow, fresh])), host(xp, found.cost)
        counts = np.array([len(follow), len(fresh)])
        self._note("dispatch", found, counts, begin)
        self._after_fresh(fresh, solved[len(follow) :], cost[len(follow) :], found.raw[len(follow) :])
        self._after_follow(follow, solved[: len(follow)], cost[: len(follow)], found)

    def _follow_starts(self, points: EvaluatedRows, mine: Ints, attempt: Ints) -> FollowStarts:
        at = self._xp.asarray(mine)
        return FollowStarts(
            raw=points.raw[at],
            scale=points.scale[at],
            last=points.follower[at],
            last_demand=points.follower_demand[at],
            has_last=self.rows.has_last[mine],
            attempt=attempt,
        )

    def _after_follow(self, follow: Ints, solved: Bools, cost: Floats, found: EngineAnswer) -> None:
        """Keep O at the points reached; one above f(x) or unsolved is tried again without multipliers."""
        rows, xp, reached = self.rows, self._xp, self.rows.reached
        joint_cost, free = reached.joint_cost[follow], ~rows.parked[follow]
        no_worse = cost <= joint_cost + WORSE_THAN_START * np.maximum(1.0, np.abs(joint_cost))
        attempt = rows.attempt[follow]
        usable = solved & (no_worse | (attempt != StartRank.FIRST))
        failed = ~usable & free
        rows.hand_over(follow[failed & (attempt == StartRank.THIN)], HandOver.DISPATCH_UNSOLVED)
        rows.attempt[follow[failed]] = np.where(attempt == StartRank.FIRST, StartRank.NEAR, StartRank.THIN)[failed]
        there = np.flatnonzero(usable)
        mine, to, of = follow[there], xp.asarray(follow[there]), xp.asarray(there)
        reached.follower[to], reached.follower_demand[to] = found.raw[of], reached.demand[to]
        reached.prices[to] = _present(found.prices)[of]
        reached.cost[mine], rows.has_last[mine] = cost[there], True
        doing = rows.doing[mine].copy()
        radius = np.where(KIND[doing] == Kind.PUSH, rows.radius[mine], reached.delta[mine])
        self.history.add(mine, doing, radius, reached, cost[there], self.batches[-1].seconds_per_row)
        self._keep_highpoint(mine[doing == Doing.HIGHPOINT])
        self.decide(mine, doing)

    def _keep_highpoint(self, mine: Ints) -> None:
        rows, at = self.rows, self._xp.asarray(mine)
        rows.highpoint_delta[mine] = rows.lower[mine] = rows.reached.delta[mine]
        rows.highpoint_cost[mine], rows.highpoint_demand[at] = rows.reached.cost[mine], rows.reached.demand[at]
        rows.highpoint_raw[at], rows.highpoint_follower[at] = rows.reached.raw[at], rows.reached.follower[at]
        rows.base.take(rows.reached, mine, self._xp)

    def _verify_otherwise(self, phase: Phase) -> None:
        """Verify points at which a cold start has failed: by way of soft balances, then from the joint point alone."""
        mine, begin = self._waiting(phase), perf_counter()
        if not len(mine):
            return
        rows, xp = self.rows, self._xp
        demand = rows.base.demand[xp.asarray(mine)]
        if phase is Phase.SOFTENED:
            found = rows.power.softened(demand)
        else:
            starts = self._follow_starts(rows.base, mine, np.full(len(mine), int(StartRank.NEAR)))
            found = rows.power.dispatch(demand, starts, demand[:0], self._patience)
        solved = host(xp, found.status) == int(BatchStatus.CONVERGED)
        self._note(phase.name.lower(), found, np.array([len(mine)]), begin)
        self._after_fresh(mine, solved, host(xp, found.cost), found.raw)

    def _after_fresh(self, mine: Ints, solved: Bools, cost: Floats, raw: Array) -> None:
        """Finish rows whose best point is still in the band: O there is the lower of what was known and what was found."""
        rows, xp = self.rows, self._xp
        known, free = rows.base.cost[mine], ~rows.parked[mine]
        lowest = np.fmin(cost, known)
        confirmed = solved & rows.target.contain(lowest, mine)
        unsolved = ~solved & free & (rows.phase[mine] < Phase.NEARBY)
        rows.hand_over(mine[~confirmed & free & ~unsolved], HandOver.REFUSED)
        rows.phase[mine[unsolved]] += 1
        # Few rows need this, and a batch of them takes as long as one of many.
        rows.parked[mine[unsolved]] = self._hurries
        there = np.flatnonzero(confirmed)
        done, at, to = mine[there], xp.asarray(there), xp.asarray(mine[there])
        better = xp.asarray((cost < known)[there])[:, None]
        rows.cost[done] = lowest[there]
        rows.solution[to] = xp.where(better, raw[at], rows.base.follower[to])
        rows.phase[done] = Phase.FINISHED
        delta, seconds = rows.base.delta[done], self.batches[-1].seconds_per_row
        self.history.add(done, None, delta, rows.base, rows.cost[done], seconds)

    def _verdict(self, found: EngineAnswer, asked: Ints) -> Bools:
        """Which problems are solved, and checked; park those that take longer than others should wait."""
        status = host(self._xp, found.status)
        at_limit = host(self._xp, found.iterations) >= self._patience.max_iterations
        late = (status == int(BatchStatus.ITERATION_LIMIT)) & at_limit
        self.rows.parked[asked] = late & self._hurries
        solved: Bools = status == int(BatchStatus.CONVERGED)
        return solved

    def _note(self, what: str, found: EngineAnswer, counts: Ints, begin: float) -> None:
        iterations = host(self._xp, found.iterations)
        self.batches.append(
            BatchLine(
                what=what,
                rows=tuple(counts.tolist()),
                iterations=float(iterations.mean()),
                most_iterations=int(iterations.max()),
                rounds=found.rounds,
                kernels=found.kernels,
                check=found.check,
                seconds=perf_counter() - begin,
            )
        )


def _present(prices: Array | None) -> Array:
    if prices is None:
        raise RuntimeError("a dispatch has no prices")
    return prices
