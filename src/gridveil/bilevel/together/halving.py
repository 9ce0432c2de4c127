"""Brackets of rows that go the way of Algorithm 1: ``double_and_bisect`` of ``methods/algorithm1.py``, for arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gridveil.bilevel.methods.settings import BisectionSettings
from gridveil.bilevel.together.rows import Doing, SearchRows

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class HalvingBrackets:
    """From ``rows.lower`` to the best point (``rows.base``), which is infinitely far away until O↑ has reached the band."""

    def __init__(self, rows: SearchRows, settings: BisectionSettings) -> None:
        self._rows, self._settings = rows, settings

    def begin(self, mine: Ints) -> None:
        """Go back to the high point, without a point in the band: what follows does not depend on what was tried before."""
        rows = self._rows
        rows.halving[mine], rows.base.delta[mine] = True, np.inf
        rows.lower[mine] = rows.highpoint.delta[mine]
        rows.last_place[mine] = rows.highpoint.place[mine]

    def next_delta(self, mine: Ints) -> Floats:
        """The next δ for O↑: twice the lower end while there is no upper one, then the middle."""
        lower, upper = self._rows.lower[mine], self._rows.base.delta[mine]
        doubled = np.maximum(2 * lower, self._settings.eta)
        return np.where(np.isinf(upper), doubled, (lower + upper) / 2)

    def step(self, mine: Ints) -> Ints:
        """The step (``Doing``) that a push at this δ is."""
        return np.where(np.isinf(self._rows.base.delta[mine]), int(Doing.DOUBLING), int(Doing.BISECTION))

    def gain_nothing(self, mine: Ints) -> Bools:
        """Whether doubling is pointless: O↑ stayed inside its ball without reaching the band."""
        rows = self._rows
        inside = rows.reached.delta[mine] < (1 - self._settings.ball_slack) * rows.radius[mine]
        return np.asarray(inside & np.isinf(rows.base.delta[mine]))
