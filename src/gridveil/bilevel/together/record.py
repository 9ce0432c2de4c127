"""What the rows of a batch of releases did and came to, in arrays; a result like that of a single release when asked for."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gridveil.bilevel.monotonicity import measure_monotonicity
from gridveil.bilevel.result import BilevelResult, Ending, HighPointResult, Step, StepKind
from gridveil.bilevel.run import ON_THE_PATH
from gridveil.bilevel.together.rows import Bands, EvaluatedRows, Phase, SearchRows
from gridveil.programs import Status

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

STEPS = (
    StepKind.HIGHPOINT, StepKind.CUT, StepKind.POLISH, StepKind.POLISH, StepKind.ROOT, StepKind.DOUBLING, StepKind.BISECTION,
    StepKind.CUT, StepKind.VERIFICATION,
)  # fmt: skip
"""Names of the steps, by ``Doing``; the last is the verification."""
_COLUMNS = ("radius", "delta", "proxy", "joint_cost", "cost", "seconds")


@dataclass(kw_only=True)
class TurnLine:
    """One look at what has ended: how many problems of each kind, and where the time went."""

    joint: tuple[int, ...]
    """Nearest, cut, push."""
    dispatches: tuple[int, ...]
    """At joint points; from scratch, by way of soft balances, near the joint point, there in a thin interior."""
    waiting: float
    """Seconds until there was something to look at."""
    seconds_per_row: float
    """The share of each row."""
    iterations: int = 0
    """Of the problems that have ended."""
    seconds: float = 0.0


@dataclass(frozen=True, eq=False)
class StepHistory:
    """Steps of all rows, in the order of time. Only steps with answers are here: a row without one is handed over."""

    _rows: list[Ints] = field(default_factory=list)
    _kinds: list[Ints] = field(default_factory=list)
    _numbers: list[Floats] = field(default_factory=list)

    def add(
        self, mine: Ints, doing: Ints | None, radius: Floats, point: EvaluatedRows, cost: Floats, seconds: float
    ) -> None:
        """A step of some rows at their points; without ``doing`` their verification."""
        self._rows.append(mine)
        self._kinds.append(np.full(len(mine), len(STEPS) - 1) if doing is None else doing)
        columns = [radius, point.delta[mine], point.proxy[mine], point.joint_cost[mine], cost]
        self._numbers.append(np.stack([*columns, np.full(len(mine), seconds)], axis=1))

    def by_row(self, n: int) -> tuple[Ints, Ints, Floats]:
        """Where the steps of each row begin (n + 1,), their kinds and their numbers."""
        rows = np.concatenate([*self._rows, np.zeros(0, np.int64)])
        order = np.argsort(rows, kind="stable")
        kinds = np.concatenate([*self._kinds, np.zeros(0, np.int64)])[order]
        numbers = np.concatenate([*self._numbers, np.zeros((0, len(_COLUMNS)))])[order]
        return np.searchsorted(rows[order], np.arange(n + 1)), kinds, numbers


@dataclass(frozen=True, eq=False, kw_only=True)
class ReleasedRows:
    """Releases of a batch; one that was handed over has no point, and NaN everywhere."""

    finished: NDArray[np.bool_]
    handed_over: Ints
    """(n,) of ``HandOver``."""
    d: Floats
    """(n, n_d) d*."""
    x: Floats
    """(n, n_x)"""
    cost: Floats
    delta: Floats
    highpoint_d: Floats
    highpoint_delta: Floats
    highpoint_cost: Floats
    at_noisy: NDArray[np.bool_]
    at_once: NDArray[np.bool_]
    calls: Ints
    target: Bands
    searched: Ending
    """Of the method: how a finished row ended whose high point is not in the band."""
    history: StepHistory
    turns: tuple[TurnLine, ...]
    seconds: float

    @classmethod
    def of(
        cls, rows: SearchRows, searched: Ending, history: StepHistory, turns: tuple[TurnLine, ...], seconds: float
    ) -> ReleasedRows:
        """Bring what is known of all rows to the caller's memory."""
        points, finished = rows.points(), rows.phase == Phase.FINISHED
        nothing = ~finished

        def there(values: Floats) -> Floats:
            values[nothing] = np.nan
            return values

        return cls(
            finished=finished,
            handed_over=rows.handed_over,
            d=there(points.d),
            x=there(points.x),
            cost=there(rows.cost),
            delta=there(rows.base.delta),
            highpoint_d=there(points.highpoint_d),
            highpoint_delta=there(rows.highpoint.delta),
            highpoint_cost=there(rows.highpoint.cost),
            at_noisy=rows.at_noisy,
            at_once=rows.at_once,
            calls=rows.calls,
            target=rows.target,
            searched=searched,
            history=history,
            turns=turns,
            seconds=seconds,
        )

    def __len__(self) -> int:
        return len(self.cost)

    @cached_property
    def _steps(self) -> tuple[Ints, Ints, Floats]:
        return self.history.by_row(len(self))

    def ending(self, row: int) -> Ending:
        """How a finished row ended."""
        if not self.at_once[row]:
            return self.searched
        return Ending.NOISY_IN_BAND if self.at_noisy[row] else Ending.HIGHPOINT_IN_BAND

    def result(self, row: int) -> BilevelResult | None:
        """A row as the result of a single release; None if it was handed over.

        Seconds are its share of each turn in which a problem of its own ended.
        """
        if not self.finished[row]:
            return None
        first, kinds, numbers = self._steps
        mine = slice(first[row], first[row + 1])
        steps = [
            Step(
                kind=STEPS[kind],
                joint_status=Status.CONVERGED,
                follower_status=Status.CONVERGED,
                **dict(zip(_COLUMNS, line, strict=True)),
            )
            for kind, line in zip(kinds[mine].tolist(), numbers[mine].tolist(), strict=True)
        ]
        path = [step for step in steps if step.kind in ON_THE_PATH]
        value, beta = float(self.target.value[row]), float(self.target.beta[row])
        highpoint = HighPointResult(
            d=self.highpoint_d[row], delta=float(self.highpoint_delta[row]), cost=float(self.highpoint_cost[row])
        )
        return BilevelResult(
            ending=self.ending(row),
            d=self.d[row],
            x=self.x[row],
            cost=float(self.cost[row]),
            delta=float(self.delta[row]),
            highpoint=highpoint,
            optimisations=1 + int(self.calls[row]),
            history=tuple(steps),
            monotonicity=measure_monotonicity(
                np.array([step.proxy for step in path]),
                np.array([step.cost for step in path]),
                max(abs(value), beta),
            ),
            seconds=sum(step.seconds for step in steps),
        )
