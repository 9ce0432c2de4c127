"""The state of many releases under way: one row each, numbers in NumPy arrays, points in the engine's memory."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridveil.bilevel.run import ACCEPTANCE_MARGIN, JOINT_MARGIN
from gridveil.solvers.batch.power_rows import Kind, PowerRows, StartRank
from gridveil.solvers.batch.row_kernels import PLACES

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


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
    THIN = 5
    """And from there with hardly any room to bounds."""
    FINISHED = 6
    HANDED_OVER = 7


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
    CUT_AGAIN = 7
    """From the lower optimum that a fresh solve has found at the best point."""


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
    """A fresh solve found the best point outside the band, and so did those of the points that followed from it."""
    SMALL_DEMAND = 6
    """The tolerance of a dispatch shrinks with so little demand."""
    PUSHED_TOO_DEAR = 7
    """O at a point that O↑ has reached lies above the band."""
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


class EvaluatedRows:
    """A joint point of every row, and O at its demands: what ``EvaluatedPoint`` is to one release.

    Numbers are here; the rest lies at a place of the row in the engine's memory, and stays there when another takes the point.
    """

    def __init__(self, n: int) -> None:
        """Nothing known of any row."""
        self.place = np.zeros(n, np.int64)
        self.kind = np.full(n, int(Kind.NEAREST))
        self.delta, self.joint_cost, self.proxy, self.cost = (np.full(n, np.nan) for _ in range(4))
        self.steepness = np.full(n, np.nan)
        """Length of the prices."""

    def take(self, other: EvaluatedRows, rows: Ints) -> None:
        """The points of another for some rows."""
        for name in _NUMBERS:
            getattr(self, name)[rows] = getattr(other, name)[rows]


_NUMBERS = ("place", "kind", "delta", "joint_cost", "proxy", "cost", "steepness")


class RowPoints(NamedTuple):
    """What a caller gets to know of all rows."""

    d: Floats
    """(n, n_d) of the base; in the end d*."""
    highpoint_d: Floats
    x: Floats
    """(n, n_x) of what rows ended with."""


class SearchRows:
    """All rows of a batch of releases: ``base`` is the point to cut at (the best, once there is one), ``reached`` the last."""

    def __init__(self, power: PowerRows, noisy: Floats, target: Bands) -> None:
        """``noisy`` (n, 2 D)."""
        n = len(noisy)
        self.power, self.problems, self.target = power, power.open(noisy), target
        self.joint_band, self.band = target.shrunk(JOINT_MARGIN), target.shrunk(ACCEPTANCE_MARGIN)
        self.base, self.reached, self.highpoint, self.known = (EvaluatedRows(n) for _ in range(4))
        """``known``: the best point before the row went the way of Algorithm 1, infinitely far away if there was none."""
        self.known.delta[:] = np.inf
        self.phase, self.doing = np.full(n, int(Phase.JOINT)), np.full(n, int(Doing.HIGHPOINT))
        self.attempt = np.full(n, int(StartRank.COLD))
        """Which of its starts the problem under way is at."""
        self.asked = np.zeros(n, bool)
        """Whether the problem that a row waits for is under way."""
        self.has_last, self.last_place = np.zeros(n, bool), np.zeros(n, np.int64)
        """Whether there is a last dispatch; its place."""
        self.start_at = np.full(n, int(StartAt.BASE))
        self.at_noisy, self.at_once = np.zeros(n, bool), np.zeros(n, bool)
        """Whether the high point is d̃ itself; whether it is in the band."""
        self.rooted = np.zeros(n, bool)
        """Whether the root search has been made."""
        self.halving = np.zeros(n, bool)
        """Whether the row goes, or has gone, the way of Algorithm 1: by that method, or to compare with what cuts have found."""
        self.cuts, self.polishes, self.calls = (np.zeros(n, np.int64) for _ in range(3))
        self.share, self.extra = np.ones(n), np.zeros(n)
        self.aim = np.full(n, np.nan)
        """Of the cut under way: the cost that it asks for."""
        self.turned = np.full(n, np.nan)
        """How far (squared) prices at the point reached have turned from those at the base."""
        self.radius, self.lower = np.full(n, np.nan), np.zeros(n)
        """δ of the push under way, and below which there is nothing in the band, as far as O↑ tells."""
        self.refusals = np.zeros(n, np.int64)
        """Points that a fresh solve refused."""
        self.nearest, self.next_nearest = np.full(n, np.inf), np.full(n, np.inf)
        """δ of the two nearest points that were found in the band before the first of them was verified."""
        self.cost = np.full(n, np.nan)
        """O(d*), verified."""
        self.handed_over = np.full(n, int(HandOver.NONE))
        self._here: Ints = np.arange(n)
        """Rows whose points are in this engine's memory; those of others were gathered when these went on here."""
        self._gathered: RowPoints | None = None

    def __len__(self) -> int:
        return len(self.phase)

    @property
    def under_way(self) -> Ints:
        """Rows that have not ended."""
        return np.flatnonzero(self.phase < Phase.FINISHED)

    def free_place(self, rows: Ints) -> Ints:
        """(R,) a place that holds none of the base, the high point and the point that was known before."""
        held = np.stack([points.place[rows] for points in (self.base, self.highpoint, self.known)])
        taken = (np.arange(PLACES)[:, None, None] == held).any(axis=1)
        return np.asarray(np.argmin(taken, axis=0))

    def move(self, power: PowerRows) -> None:
        """Go on with another engine; problems under way are begun again there."""
        left = self.under_way
        self._gathered, self._here = self.points(), left
        self.problems, self.power = self.problems.moved(power, left), power
        self.asked[:] = False

    def points(self) -> RowPoints:
        """Where all rows stand, in the caller's memory."""
        here = self._here
        d, highpoint_d = (self.problems.demands(here, points.place[here]) for points in (self.base, self.highpoint))
        found = RowPoints(d, highpoint_d, self.problems.solutions(here))
        if self._gathered is None:
            return found
        for whole, part in zip(self._gathered, found, strict=True):
            whole[here] = part
        return self._gathered

    @property
    def waits_for_dispatch(self) -> Bools:
        """(n,) whether a row waits for O somewhere."""
        return (self.phase >= Phase.FOLLOW) & (self.phase < Phase.FINISHED)

    def hand_over(self, rows: Ints, reason: HandOver) -> None:
        """Leave rows to the code of single releases."""
        self.phase[rows], self.handed_over[rows] = Phase.HANDED_OVER, reason
