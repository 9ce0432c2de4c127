"""What the methods for all rows at once have in common: how they begin at the high point, and what an answer of O↑ changes."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from gridveil.bilevel.result import Ending
from gridveil.bilevel.together.rows import HandOver
from gridveil.bilevel.together.search import RowSearch

Ints = NDArray[np.int64]


class PushSearch(RowSearch):
    """A method that asks O↑. The steps have the names that they have in ``MethodRun``."""

    ENDING: ClassVar[Ending]
    """Of rows that had to search: their high point is not in the band."""

    def start_from_highpoint(self, mine: Ints) -> Ints:
        """Verify high points in the band; the rows whose search has to go on from theirs."""
        rows, cost = self.rows, self.rows.reached.cost[mine]
        too_dear_at_noisy = (cost > rows.band.upper[mine]) & rows.at_noisy[mine]
        rows.hand_over(mine[too_dear_at_noisy], HandOver.NOISY_TOO_DEAR)
        in_band = rows.band.contain(cost, mine)
        rows.at_once[mine[in_band]] = True
        self.verify(mine[in_band])
        return mine[~in_band & ~too_dear_at_noisy]

    def learn_push(self, mine: Ints) -> Ints:
        """Move an end of the bracket: to a nearer point in the band, or to a δ that does not reach it; the rows that go on."""
        rows = self.rows
        too_dear = rows.reached.cost[mine] > rows.band.upper[mine]
        rows.hand_over(mine[too_dear], HandOver.PUSHED_TOO_DEAR)
        mine = mine[~too_dear]
        below = rows.reached.cost[mine] < rows.band.lower[mine]
        nearer = ~below & (rows.reached.delta[mine] < rows.base.delta[mine])
        rows.base.take(rows.reached, mine[nearer])
        low = mine[below]
        rows.lower[low] = np.maximum(rows.lower[low], rows.radius[low])
        return mine
