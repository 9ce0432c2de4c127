"""The state of many releases under way: one row each, numbers in NumPy arrays, points in the engine's memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridveil.bilevel.run import ACCEPTANCE_MARGIN, JOINT_MARGIN
from gridveil.solvers.batch.engine import Array
from gridveil.solvers.batch.power_rows import Kind, PowerRows, StartRank
from gridveil.solvers.batch.solver import host

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Move = Callable[[Array, Ints | None], Array]
"""Brings an array to the memory of another engine: some of its rows, or all."""


class Phase(IntEnum):
    """What a row waits for."""

    JOINT = 0
    FOLLOW = 1
    """O at the demands of the joint point."""
    FRESH = 2
    """O at the best point, from scratch."""
    SOFTENED = 3
    """The same by way of soft balances, after a cold start has failed."""
    NEARBY = 4
    """The same from the joint point without multipliers, after both have failed: see ``Solves.verify``."""
    FINISHED = 5
    HANDED_OVER = 6


class Doing(IntEnum):
    """The step that a row is at, by the names of the steps of ``auto``."""

    HIGHPOINT = 0
    CUT = 1
    POLISH = 2
    POLISH_AGAIN = 3
    """The same cut, asking for more."""
    ROOT = 4
    DOUBLING = 5
    BISECTION = 6


class StartAt(IntEnum):
    """The point that the next joint problem starts from."""

    BASE = 0
    REACHED = 1
    HIGHPOINT = 2


class HandOver(IntEnum):
    """Why a release is left to the code of single releases."""

    NONE = 0
    JOINT_UNSOLVED = 1
    DISPATCH_UNSOLVED = 2
    NOISY_TOO_DEAR = 3
    """The high point is d̃ itself, but O(d̃) lies above the band."""
    NO_POINT = 4
    """Neither cuts from below nor pushes to the end of what the band allows have found a point in it."""
    REFUSED = 5
    """A fresh solve found the best point outside the band."""
    SMALL_DEMAND = 6
    """The tolerance of a dispatch shrinks with so little demand."""
    IN_DOUBT = 7
    """The best point stayed away from the edge of the band, or O↑ cost more than the band allows."""
    CALL_LIMIT = 8
    """The bracket of Algorithm 1 is still open after as many calls to O↑ as it may make."""


@dataclass(frozen=True, eq=False)
class Bands:
    """Cost bands, one per row, as ``CostTarget``."""

    value: Floats
    beta: Floats

    def shrunk(self, share: float) -> Bands:
        """Without this share of their half-widths at either edge."""
        return Bands(self.value, (1 - share) * self.beta)

    @property
    def lower(self) -> Floats:
        """f̃ − β."""
        return self.value - self.beta

    @property
    def upper(self) -> Floats:
        """f̃ + β."""
        return self.value + self.beta

    def contain(self, cost: Floats, rows: Ints) -> Bools:
        """Whether costs of some rows lie in their bands."""
        return (self.lower[rows] <= cost) & (cost <= self.upper[rows])


@dataclass(frozen=True, eq=False)
class EvaluatedRows:
    """A joint point of every row, and O at its demands: what ``EvaluatedPoint`` is to one release."""

    raw: Array
    row_scale: Array
    """(n,) of the point's cut or ball, zero if it has none."""
    scale: Array
    """(n,) of the objective of its problem."""
    demand: Array
    prices: Array
    follower: Array
    """(n, n_point) where O at these demands ended."""
    follower_demand: Array
    kind: Ints
    delta: Floats
    joint_cost: Floats
    proxy: Floats
    cost: Floats

    @classmethod
    def empty(cls, power: PowerRows, n: int) -> EvaluatedRows:
        """Nothing known of any row."""
        zeros = power.xp.zeros
        return cls(
            raw=zeros((n, power.n_joint)),
            row_scale=zeros(n),
            scale=power.xp.ones(n),
            demand=zeros((n, power.n_d)),
            prices=zeros((n, power.n_d)),
            follower=zeros((n, power.n_dispatch)),
            follower_demand=zeros((n, power.n_d)),
            kind=np.full(n, int(Kind.NEAREST)),
            **{name: np.full(n, np.nan) for name in ("delta", "joint_cost", "proxy", "cost")},
        )

    def moved(self, left: Ints, move: Move) -> EvaluatedRows:
        """The same in the memory of another engine, of points those that are left; demands of all rows."""
        mine = {one.name: getattr(self, one.name) for one in fields(self)}
        there = {name: array if isinstance(array, np.ndarray) else move(array, left) for name, array in mine.items()}
        return replace(self, **(there | {"demand": move(self.demand, None)}))

    def take(self, other: EvaluatedRows, rows: Ints, xp: Any) -> None:
        """The points of another for some rows."""
        there = xp.asarray(rows)
        for one in fields(self):
            mine = getattr(self, one.name)
            chosen = rows if isinstance(mine, np.ndarray) else there
            mine[chosen] = getattr(other, one.name)[chosen]


class AutoRows:
    """All rows of a batch of releases: ``base`` is the point to cut at (the best, once there is one), ``reached`` the last."""

    def __init__(self, power: PowerRows, noisy: Array, target: Bands) -> None:
        """``noisy`` (n, 2 D) in the engine's memory."""
        n = len(noisy)
        self.power, self.noisy, self.target = power, noisy, target
        self.joint_band, self.band = target.shrunk(JOINT_MARGIN), target.shrunk(ACCEPTANCE_MARGIN)
        self.base, self.reached = EvaluatedRows.empty(power, n), EvaluatedRows.empty(power, n)
        self.phase, self.doing = np.full(n, int(Phase.JOINT)), np.full(n, int(Doing.HIGHPOINT))
        self.attempt = np.full(n, int(StartRank.COLD))
        """Which of its starts the problem under way is at."""
        self.asked = np.zeros(n, bool)
        """Whether the problem that a row waits for is under way."""
        self.has_last = np.zeros(n, bool)
        """Whether there is a last dispatch."""
        self.start_at = np.full(n, int(StartAt.BASE))
        self.at_noisy, self.at_once = np.zeros(n, bool), np.zeros(n, bool)
        """Whether the high point is d̃ itself; whether it is in the band."""
        self.rooted = np.zeros(n, bool)
        """Whether the root search has been made."""
        self.halving = np.zeros(n, bool)
        """Whether the row goes the way of Algorithm 1, as cuts have found no point in the band."""
        self.cuts, self.polishes, self.calls = (np.zeros(n, np.int64) for _ in range(3))
        self.share, self.extra = np.ones(n), np.zeros(n)
        self.aim, self.steepness = np.full(n, np.nan), np.full(n, np.nan)
        """Of the cut under way: the cost that it asks for, and the length of the prices at the base."""
        self.radius, self.lower = np.full(n, np.nan), np.zeros(n)
        """δ of the push under way, and below which there is nothing in the band, as far as O↑ tells."""
        self.highpoint_delta, self.highpoint_cost = np.full(n, np.nan), np.full(n, np.nan)
        sizes = (power.n_d, power.n_joint, power.n_dispatch)
        self.highpoint_demand, self.highpoint_raw, self.highpoint_follower = (power.xp.zeros((n, k)) for k in sizes)
        self.cost, self.solution = np.full(n, np.nan), power.xp.zeros((n, power.n_dispatch))
        """O(d*), verified, and where it ended."""
        self.handed_over = np.full(n, int(HandOver.NONE))

    def __len__(self) -> int:
        return len(self.noisy)

    @property
    def under_way(self) -> Ints:
        """Rows that have not ended."""
        return np.flatnonzero(self.phase < Phase.FINISHED)

    def move(self, power: PowerRows) -> None:
        """Go on with another engine; problems under way are begun again there."""
        left, old = self.under_way, self.power.xp

        def move(array: Array, rows: Ints | None) -> Array:
            here = host(old, array if rows is None else array[old.asarray(rows)])
            if rows is not None:
                here, some = np.zeros(array.shape), here  # memory that nobody writes to is not taken
                here[rows] = some
            return power.xp.asarray(here)

        self.base, self.reached = self.base.moved(left, move), self.reached.moved(left, move)
        for name in ("highpoint_raw", "highpoint_follower", "noisy"):
            setattr(self, name, move(getattr(self, name), left))
        for name in ("highpoint_demand", "solution"):  # parts of results
            setattr(self, name, move(getattr(self, name), None))
        self.asked[:], self.power = False, power

    @property
    def waits_for_dispatch(self) -> Bools:
        """(n,) whether a row waits for O somewhere."""
        return (self.phase >= Phase.FOLLOW) & (self.phase < Phase.FINISHED)

    def hand_over(self, rows: Ints, reason: HandOver) -> None:
        """Leave rows to the code of single releases."""
        self.phase[rows], self.handed_over[rows] = Phase.HANDED_OVER, reason


def bytes_per_row(power: PowerRows) -> int:
    """Memory that the state of a release takes."""
    return 8 * (3 * power.n_joint + 4 * power.n_dispatch + 8 * power.n_d)
