"""Searches of many rows for where O↑ enters the band: ``methods/bracket.py``, and Algorithm 1's for ``auto``, for arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gridveil.bilevel.methods.settings import AutoSettings
from gridveil.bilevel.run import SAME_POINT
from gridveil.bilevel.together.halving import HalvingBrackets
from gridveil.bilevel.together.rows import SearchRows

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

NOTHING, LOW, HIGH = 0, 1, 2


class RootBrackets:
    """√δ values below the band and in it, which to try next, and when to stop: see ``RootBracket``.

    Rows that go the way of Algorithm 1 double δ and halve their bracket instead, until ``auto`` calls it closed.
    """

    def __init__(self, rows: SearchRows, settings: AutoSettings) -> None:
        self._rows, self._settings, n = rows, settings, len(rows)
        self.halving = HalvingBrackets(rows, settings.bisection)
        self._low, self._missing = np.full(n, np.nan), np.full(n, np.nan)
        self._high = np.full(n, np.nan)
        """How far above the band's lower edge the nearest point costs; NaN where that says nothing."""
        self._last_moved = np.full(n, NOTHING)
        self._before, self._least, self._first, self._root = (np.full(n, np.nan) for _ in range(4))
        self.pushes, self._over = np.zeros(n, np.int64), np.zeros(n, bool)

    def begin(self, mine: Ints) -> None:
        """Start the searches of some rows: first a little nearer than the point in hand."""
        rows, settings = self._rows, self._settings
        self._low[mine] = np.sqrt(rows.lower[mine])
        self._missing[mine] = rows.highpoint.cost[mine] - rows.band.lower[mine]
        self._before[mine] = rows.base.delta[mine]
        self._least[mine] = np.sqrt((1 + settings.narrow) * rows.lower[mine])
        self._first[mine] = self._root[mine] = np.sqrt((1 - settings.check) * rows.base.delta[mine])

    def begin_halving(self, mine: Ints) -> None:
        """Start as Algorithm 1 does, as long as it may end nearer than the point that is known."""
        self.halving.begin(mine)
        self._before[mine], self._least[mine] = self._rows.known.delta[mine], 0.0
        self.pushes[mine], self._over[mine] = 0, self._is_closed(mine)
        self._root[mine] = np.sqrt(self.halving.next_delta(mine))

    def next_radius(self, mine: Ints) -> Bools:
        """Set the next δ for O↑ in the rows; False where further steps are pointless."""
        rows, settings = self._rows, self._settings
        self._root[mine] = np.maximum(self._root[mine], self._least[mine])
        radius = self._root[mine] ** 2
        as_far = ~rows.halving[mine] & (radius > (1 - settings.check / 2) * rows.base.delta[mine])
        most = np.where(rows.halving[mine], settings.bisection.call_limit, settings.most_pushes)
        over = self._over[mine] | (self.pushes[mine] == most) | (radius <= rows.lower[mine]) | as_far
        rows.radius[mine[~over]] = radius[~over]
        self.pushes[mine[~over]] += 1
        return np.asarray(~over)

    def found_nearer(self, mine: Ints) -> Bools:
        """Whether the searches of some rows gave a point nearer than the one they began with."""
        return np.asarray(self._rows.base.delta[mine] < self._before[mine])

    def learn(self, mine: Ints) -> None:
        """Take note of O at the points of O↑; the ends of the bracket have moved already."""
        rows = self._rows
        cost, root, halving = rows.reached.cost[mine], self._root[mine], rows.halving[mine]
        below = cost < rows.band.lower[mine]
        self._move_low(mine[below], root[below], (cost - rows.band.lower[mine])[below])
        self._move_high(mine[~below], cost[~below])
        told_no_nearer = ~halving & ~self.found_nearer(mine) & (root >= self._first[mine])
        self._over[mine] = told_no_nearer | self.halving.gain_nothing(mine) | self._is_closed(mine)
        self._guess(mine[~self._over[mine] & ~halving])
        going = mine[~self._over[mine] & halving]
        self._root[going] = np.sqrt(self.halving.next_delta(going))

    def _is_closed(self, mine: Ints) -> Bools:
        """Whether the brackets leave too little to gain: see ``is_closed`` of ``auto``, and ``RootBracket``."""
        rows, settings, halving = self._rows, self._settings, self._rows.halving[mine]
        upper = np.minimum(rows.base.delta[mine], self._before[mine])
        nothing = np.where(halving, SAME_POINT, 0.0)
        closed = rows.lower[mine] >= np.minimum((1 - settings.check) * upper, upper - nothing)
        return np.asarray(closed | halving & (upper <= (1 + settings.narrow_bracket) * rows.highpoint.delta[mine]))

    def _move_low(self, mine: Ints, root: Floats, missing: Floats) -> None:
        """Points below the band; where the low end moved twice running, the other end counts half."""
        self._low[mine], self._missing[mine] = root, missing
        twice = mine[self._last_moved[mine] == LOW]
        self._high[twice] /= 2
        self._last_moved[mine] = LOW

    def _move_high(self, mine: Ints, cost: Floats) -> None:
        """Points in the band. At its upper edge the band, not the radius, limits O↑: its cost then says nothing."""
        band, joint = self._rows.band, self._rows.joint_band
        saturated = cost > joint.upper[mine] - self._settings.saturation * joint.beta[mine]
        self._high[mine] = np.where(saturated, np.nan, cost - band.lower[mine])
        twice = mine[self._last_moved[mine] == HIGH]
        self._missing[twice] /= 2
        self._last_moved[mine] = HIGH

    def _guess(self, mine: Ints) -> None:
        """The next √δ to try."""
        settings, low, missing = self._settings, self._low[mine], self._missing[mine]
        high, value = np.sqrt(self._rows.base.delta[mine]), self._high[mine]
        share = np.clip(-missing / (value - missing), 0.01, 0.99)
        guess = np.minimum((low + share * (high - low)) * (1 + settings.aim_inside), (low + 3 * high) / 4)
        guess = np.where(np.isnan(value), low + settings.saturated_share * (high - low), guess)
        self._root[mine] = np.where(np.isfinite(missing), guess, (low + high) / 2)
