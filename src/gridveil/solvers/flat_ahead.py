"""A backend that works ahead: while it solves a dispatch from scratch, it solves it from the flat start as well.

Whoever verifies a release of a large network asks for both, one after the other. Both are brief solves, which stay with the
structured solver: Ipopt does not bear two callers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gridveil.core.band import CostTarget
from gridveil.core.threads import side_by_side
from gridveil.programs import ParametricProgram
from gridveil.solvers.backend import Answer, Backend, Capabilities, Effort, HalfSpace, Start
from gridveil.solvers.ipopt import QUICK_FOR_IPOPT
from gridveil.solvers.structured.backend import STRUCTURED

Vector = NDArray[np.float64]


def working_ahead(backend: Backend) -> Backend:
    """The backend with the flat start solved ahead, where that pays: on a large network, by the structured solver."""
    pays = backend.name == STRUCTURED and backend.program.n_x > QUICK_FOR_IPOPT
    return _FlatAhead(backend) if pays else backend


class _FlatAhead:
    """Answers are those of the backend behind it, number by number; that from the flat start at the last d is kept."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._flat: Answer | None = None

    @property
    def name(self) -> str:
        """Name of the backend."""
        return self._backend.name

    @property
    def capabilities(self) -> Capabilities:
        """What the backend can do."""
        return self._backend.capabilities

    @property
    def program(self) -> ParametricProgram:
        """The program of the backend."""
        return self._backend.program

    def prepare(self) -> None:
        """Prepare the backend."""
        self._backend.prepare()

    def portable(self, start: Start) -> bool:
        """Whether the backend says so."""
        return self._backend.portable(start)

    def dispatch(self, d: Vector, *, start: Start | None = None, effort: Effort | None = None) -> Answer:
        """O(d); a brief solve from scratch brings that from the flat start with it."""
        if effort is not Effort.BRIEF:
            return self._backend.dispatch(d, start=start, effort=effort)
        flat = Start(self.program.x_start, d)
        if start is None:
            self._flat, found = side_by_side(
                lambda: self._backend.dispatch(d, start=flat, effort=effort),
                lambda: self._backend.dispatch(d, effort=effort),
            )
            return found
        known = self._flat
        if known is not None and start.x is flat.x and np.array_equal(known.d, d):
            return known
        return self._backend.dispatch(d, start=start, effort=effort)

    def nearest(
        self, noisy: Vector, band: CostTarget | None, *, start: Start | None = None, effort: Effort | None = None
    ) -> Answer:
        """HPR, with or without its band."""
        return self._backend.nearest(noisy, band, start=start, effort=effort)

    def cut(
        self, noisy: Vector, band: CostTarget, half_space: HalfSpace, *, start: Start, effort: Effort = Effort.NEAR
    ) -> Answer:
        """HPR within a half-space."""
        return self._backend.cut(noisy, band, half_space, start=start, effort=effort)

    def push(
        self, noisy: Vector, band: CostTarget, delta: float, *, start: Start, effort: Effort = Effort.NEAR
    ) -> Answer:
        """O↑(δ)."""
        return self._backend.push(noisy, band, delta, start=start, effort=effort)
