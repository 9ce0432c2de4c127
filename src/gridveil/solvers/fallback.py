"""A backend that passes what its first backend does not solve to a second."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gridveil.core.band import CostTarget
from gridveil.programs import ParametricProgram
from gridveil.solvers.backend import Answer, Backend, Capabilities, Effort, HalfSpace, Start, usual_effort

Vector = NDArray[np.float64]

# These stay with the first: the second would take longer than what the caller tries next.
_FIRST_ONLY = {Effort.BRIEF, Effort.WARM}
# These are for the second: the first has had its try, or is not what was asked for.
_SECOND_ONLY = {Effort.AGAIN, Effort.OTHERWISE, Effort.READER}


class Fallback:
    """A fast backend with a robust fallback. Answers and their starts are those of whichever solved."""

    def __init__(self, first: Backend, second: Backend) -> None:
        self._first = first
        self._second = second

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
        return _settled(found, effort) or self._second.dispatch(d, start=start, effort=effort)

    def nearest(
        self, noisy: Vector, band: CostTarget | None, *, start: Start | None = None, effort: Effort | None = None
    ) -> Answer:
        """HPR, with or without its band."""
        effort = usual_effort(start, effort)
        found = None if effort in _SECOND_ONLY else self._first.nearest(noisy, band, start=start, effort=effort)
        return _settled(found, effort) or self._second.nearest(noisy, band, start=start, effort=effort)

    def cut(
        self, noisy: Vector, band: CostTarget, half_space: HalfSpace, *, start: Start, effort: Effort = Effort.NEAR
    ) -> Answer:
        """HPR within a half-space."""
        found = None
        if effort not in _SECOND_ONLY:
            found = self._first.cut(noisy, band, half_space, start=start, effort=effort)
        return _settled(found, effort) or self._second.cut(noisy, band, half_space, start=start, effort=effort)

    def push(
        self, noisy: Vector, band: CostTarget, delta: float, *, start: Start, effort: Effort = Effort.NEAR
    ) -> Answer:
        """O↑(δ)."""
        found = None if effort in _SECOND_ONLY else self._first.push(noisy, band, delta, start=start, effort=effort)
        return _settled(found, effort) or self._second.push(noisy, band, delta, start=start, effort=effort)


def _settled(found: Answer | None, effort: Effort) -> Answer | None:
    """The answer of the first, if the second is not to be asked."""
    return found if found is not None and (found.converged or effort in _FIRST_ONLY) else None
