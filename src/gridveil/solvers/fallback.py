"""A backend that passes what its first backend does not solve to a second."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from gridveil.core.band import CostTarget
from gridveil.core.deadline import OutOfTimeError, check_time, seconds_left, time_limit
from gridveil.programs import ParametricProgram, Status
from gridveil.solvers.backend import Answer, Backend, Capabilities, Effort, HalfSpace, Start, usual_effort

Vector = NDArray[np.float64]

SECOND_SHARE = 0.1  # of the time left that one solve of the second may take: a restoration can go on for minutes
# These stay with the first: the second would take longer than what the caller tries next.
_FIRST_ONLY = {Effort.BRIEF, Effort.WARM}
# These are for the second: the first has had its try, or is not what was asked for.
_SECOND_ONLY = {Effort.AGAIN, Effort.OTHERWISE, Effort.READER}


class Fallback:
    """A fast backend with a robust fallback. Answers and their starts are those of whichever solved.

    ``last`` is asked for data near the noisy ones if neither finds any, as no release begins without them. ``share`` is that
    of the time left which one solve of the second may take.
    """

    def __init__(
        self, first: Backend, second: Backend, last: Backend | None = None, *, share: float = SECOND_SHARE
    ) -> None:
        self._first = first
        self._second = second
        self._last = last
        self._share = share

    @property
    def name(self) -> str:
        """Name of the first."""
        return self._first.name

    @property
    def capabilities(self) -> Capabilities:
        """Those of the first."""
        return self._first.capabilities

    @property
    def program(self) -> ParametricProgram:
        """The program of both."""
        return self._first.program

    def prepare(self) -> None:
        """Prepare the first; the second may never be needed."""
        self._first.prepare()

    def portable(self, start: Start) -> bool:
        """Whether the first says so."""
        return self._first.portable(start)

    def dispatch(self, d: Vector, *, start: Start | None = None, effort: Effort | None = None) -> Answer:
        """O(d)."""
        effort = usual_effort(start, effort)
        found = None if effort in _SECOND_ONLY else self._first.dispatch(d, start=start, effort=effort)
        if found is not None and _is_settled(found, effort):
            return found
        second = partial(self._second.dispatch, d, start=start, effort=effort)
        return self._in_time(second, found, start or Start(self.program.x_start, d), d)

    def nearest(
        self, noisy: Vector, band: CostTarget | None, *, start: Start | None = None, effort: Effort | None = None
    ) -> Answer:
        """HPR, with or without its band."""
        effort = usual_effort(start, effort)
        found = None if effort in _SECOND_ONLY else self._first.nearest(noisy, band, start=start, effort=effort)
        if found is not None and _is_settled(found, effort):
            return found
        here, guess = start or Start(self.program.x_start, noisy), self._guess(start, found)
        tries = [start] if guess is None else [guess, start]
        for begin in tries:
            second = partial(self._second.nearest, noisy, band, start=begin, effort=effort)
            answer = self._in_time(second, found, here, noisy)
            if answer.converged:
                return answer
        if self._last is None or effort in _SECOND_ONLY:
            return answer
        return self._last.nearest(noisy, band, start=start, effort=effort)

    def _guess(self, start: Start | None, found: Answer | None) -> Start | None:
        """Where the first would begin, if the caller does not say and the first knows better than the usual start."""
        if start is not None or found is None or not self.capabilities.guesses:
            return None
        return None if found.start.x is self.program.x_start else found.start

    def cut(
        self, noisy: Vector, band: CostTarget, half_space: HalfSpace, *, start: Start, effort: Effort = Effort.NEAR
    ) -> Answer:
        """HPR within a half-space, which may well be impossible: that the first finds it so is enough."""
        found = None
        if effort not in _SECOND_ONLY:
            found = self._first.cut(noisy, band, half_space, start=start, effort=effort)
        if found is not None and (_is_settled(found, effort) or found.status is Status.INFEASIBLE):
            return found
        second = partial(self._second.cut, noisy, band, half_space, start=start, effort=effort)
        return self._in_time(second, found, start, noisy)

    def push(
        self, noisy: Vector, band: CostTarget, delta: float, *, start: Start, effort: Effort = Effort.NEAR
    ) -> Answer:
        """O↑(δ), which may well be impossible too."""
        found = None if effort in _SECOND_ONLY else self._first.push(noisy, band, delta, start=start, effort=effort)
        if found is not None and (_is_settled(found, effort) or found.status is Status.INFEASIBLE):
            return found
        second = partial(self._second.push, noisy, band, delta, start=start, effort=effort)
        return self._in_time(second, found, start, noisy)

    def _in_time(self, second: Callable[[], Answer], found: Answer | None, start: Start, noisy: Vector) -> Answer:
        """The answer of the second, which gets a share of the time left; then the first's stands, or none."""
        try:
            with time_limit(self._share * seconds_left()):
                return second()
        except OutOfTimeError:
            check_time()
            if found is not None:
                return found
        return Answer(
            status=Status.FAILED,
            x=start.x,
            d=start.d,
            cost=float("nan"),
            delta=float(np.sum((start.d - noisy) ** 2)),
            proxy=float("nan"),
            start=start,
            solver="none",
            detail="given up for lack of time",
        )


def _is_settled(found: Answer, effort: Effort) -> bool:
    """Whether the answer of the first stands, and the second is not to be asked."""
    return found.converged or effort in _FIRST_ONLY
