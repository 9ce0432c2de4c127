"""Algorithm 1 for all rows at once: ``methods/algorithm1.py``, whose exceptional endings are left to it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gridveil.bilevel.methods.settings import BisectionSettings
from gridveil.bilevel.result import Ending
from gridveil.bilevel.together.halving import HalvingBrackets
from gridveil.bilevel.together.pushes import PushSearch
from gridveil.bilevel.together.rows import Doing, HandOver, SearchRows, StartAt

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class Algorithm1Search(PushSearch):
    """Double δ until O↑ reaches the band, then bisect until the bracket has closed to ``eta``."""

    ENDING = Ending.BRACKET_CLOSED

    def __init__(self, rows: SearchRows, settings: BisectionSettings, within_bounds: Bools) -> None:
        super().__init__(rows, within_bounds)
        self._settings, self._brackets = settings, HalvingBrackets(rows, settings)

    def decide(self, mine: Ints, doing: Ints) -> None:
        """The push that follows each, or the verification."""
        begun = self.start_from_highpoint(mine[doing == Doing.HIGHPOINT])
        self._brackets.begin(begun)
        self._push(begun, StartAt.HIGHPOINT)
        self._after_push(self.learn_push(mine[doing != Doing.HIGHPOINT]))

    def _after_push(self, mine: Ints) -> None:
        rows = self.rows
        closed = rows.base.delta[mine] - rows.lower[mine] <= self._settings.eta
        pointless = self._brackets.gain_nothing(mine)
        self.verify(mine[closed])
        rows.hand_over(mine[pointless], HandOver.NO_POINT)
        self._push(mine[~closed & ~pointless], StartAt.REACHED)

    def _push(self, mine: Ints, start_at: StartAt) -> None:
        """O↑ at the next δ, from the last point that was evaluated."""
        rows = self.rows
        late = rows.calls[mine] >= self._settings.call_limit
        rows.hand_over(mine[late], HandOver.CALL_LIMIT)
        mine = mine[~late]
        rows.radius[mine] = self._brackets.next_delta(mine)
        self.ask(mine, self._brackets.step(mine), start_at)
