"""The root search of the method ``auto``: where O↑ enters the band below the best point, as a root in √δ."""

from __future__ import annotations

import math

from gridveil.bilevel.methods.settings import AutoSettings
from gridveil.bilevel.run import MethodRun
from gridveil.solvers.backend import Answer


class RootBracket:
    """√δ values below the band and in it, which to try next (false position, Illinois, or the middle), and when to stop.

    O↑ first has to show that it reaches the band nearer than the point in hand. The ends themselves are the run's: its ``lower``
    grows here, its ``upper`` is the distance of the best point.
    """

    def __init__(self, run: MethodRun, settings: AutoSettings) -> None:
        self._run, self._settings = run, settings
        self._low = (math.sqrt(run.lower), run.history[0].cost - run.band.lower)
        self._high: float | None = None
        """How far above the band's lower edge the nearest point costs; None where that says nothing."""
        self._last_moved = ""
        self._upper_before = run.upper
        self._least = math.sqrt((1 + settings.narrow) * run.lower)
        self._pushes, self._over = 0, False
        self._first = self._root = math.sqrt((1 - settings.check) * run.upper)

    def next_radius(self) -> float | None:
        """The next δ for O↑; None if further steps are pointless."""
        run = self._run
        if self._over or self._pushes == self._settings.most_pushes:
            return None
        self._root = max(self._root, self._least)
        radius = self._root**2
        if radius <= run.lower or radius > (1 - self._settings.check / 2) * run.upper:
            return None
        self._pushes += 1
        return radius

    def learn(self, follower: Answer | None) -> None:
        """Record O at the point of O↑ for the requested radius; None, if either did not converge, ends the search."""
        run, root = self._run, self._root
        if follower is None or follower.cost > run.band.upper:
            self._over = True
            return
        if follower.cost < run.band.lower:
            run.lower = max(run.lower, root**2)
            self._move_low(root, follower.cost - run.band.lower)
        else:
            self._move_high(follower.cost)
        # A push well inside the bracket says nothing about the rest of it.
        told_no_nearer = run.upper == self._upper_before and root >= self._first
        self._over = told_no_nearer or run.upper - run.lower <= self._settings.check * run.upper
        if not self._over:
            self._root = self._next_guess()

    def _move_low(self, root: float, missing: float) -> None:
        """A point below the band by ``-missing``; if the low end moved twice running, the other end counts half."""
        self._low = (root, missing)
        if self._last_moved == "low" and self._high is not None:
            self._high /= 2
        self._last_moved = "low"

    def _move_high(self, cost: float) -> None:
        """A point in the band. At its upper edge the band, not the radius, limits O↑: its cost then says nothing."""
        run = self._run
        saturated = cost > run.joint_band.upper - self._settings.saturation * run.joint_band.beta
        self._high = None if saturated else cost - run.band.lower
        if self._last_moved == "high":
            self._low = (self._low[0], self._low[1] / 2)
        self._last_moved = "high"

    def _next_guess(self) -> float:
        """The next √δ to try."""
        settings, (low, missing) = self._settings, self._low
        high = math.sqrt(self._run.upper)
        if not math.isfinite(missing):
            return (low + high) / 2
        if self._high is None:
            return low + settings.saturated_share * (high - low)
        share = -missing / (self._high - missing)
        guess = low + min(max(share, 0.01), 0.99) * (high - low)
        return min(guess * (1 + settings.aim_inside), (low + 3 * high) / 4)
