"""The root search of the method ``auto``: where O↑ enters the band, as a root in √δ."""

from __future__ import annotations

import math

import numpy as np

from gridveil.bilevel.methods.settings import AutoSettings
from gridveil.bilevel.run import MethodRun
from gridveil.solvers.backend import Answer


class RootBracket:
    """√δ values below the band and in it, which to try next (false position, Illinois, or the middle), and when to stop.

    With a point in hand, O↑ first has to show that it reaches the band nearer than that. The ends themselves are the run's:
    its ``lower`` grows here, its ``upper`` is the distance of the best point.
    """

    def __init__(self, run: MethodRun, settings: AutoSettings) -> None:
        self._run, self._settings = run, settings
        self._failed: list[float] = []
        self._low = (math.sqrt(run.lower), run.history[0].cost - run.band.lower)
        self._high: tuple[float, float] | None = None
        self._last_moved = ""
        self._upper_before = run.upper
        self._least = math.sqrt((1 + settings.narrow) * run.lower)
        self._pushes, self._over = 0, False
        have_point = run.best is not None
        self._first = math.sqrt((1 - settings.check) * run.upper) if have_point else self._first_guess()
        self._root = self._first

    def next_radius(self) -> float | None:
        """The next δ for O↑; None if further steps are pointless."""
        run = self._run
        if self._over or self._pushes == self._settings.most_pushes:
            return None
        self._root = max(self._root, self._least)
        radius = self._root**2
        as_far = run.best is not None and radius > (1 - self._settings.check / 2) * run.upper
        if radius <= run.lower or as_far:
            return None
        self._pushes += 1
        return radius

    def learn(self, follower: Answer | None) -> None:
        """Record O at the point of O↑ for the requested radius; None if either did not converge."""
        run, root = self._run, self._root
        answered = follower is not None and follower.cost <= run.band.upper
        if follower is None or not answered:
            self._failed.append(root)
        elif follower.cost < run.band.lower:
            run.lower = max(run.lower, root**2)
            self._move_low(root, follower.cost - run.band.lower)
        else:
            self._move_high(root, follower.cost)
        self._over = self._is_over(answered)
        if not self._over:
            self._root = self._next_guess(root)

    def _is_over(self, answered: bool) -> bool:
        """Whether the last push was the last.

        A push that failed says nothing, and one well inside the bracket nothing about the rest of it.
        """
        run, settings = self._run, self._settings
        told_no_nearer = answered and run.upper == self._upper_before and self._root >= self._first
        closed = run.best is not None and run.upper - run.lower <= settings.check * run.upper
        gave_up = not answered and (run.best is not None or len(self._failed) > settings.most_failures)
        return told_no_nearer or closed or gave_up

    def _first_guess(self) -> float:
        """From the prices at the high point, but a good step beyond it."""
        run, settings, (root, missing) = self._run, self._settings, self._low
        step = 0.0
        prices = run.last_follower.prices if run.last_follower is not None else None
        if prices is not None and math.isfinite(missing):
            slope = float(prices @ run.solves.proxy_direction(run.noisy))
            step = -missing / slope if slope > 0 else 0.0
        step = min(step, settings.longest_step * max(root, math.sqrt(settings.bisection.eta)))
        return max(root + step, settings.growth * root, math.sqrt(settings.smallest_radius))

    def _move_low(self, root: float, missing: float) -> None:
        """A point below the band by ``-missing``; if the low end moved twice running, the other end counts half."""
        self._low = (root, missing)
        if self._last_moved == "low" and self._high is not None:
            self._high = (self._high[0], self._high[1] / 2)
        self._last_moved = "low"

    def _move_high(self, root: float, cost: float) -> None:
        """A point in the band. At its upper edge the band, not the radius, limits O↑: its cost then says nothing."""
        run = self._run
        saturated = cost > run.joint_band.upper - self._settings.saturation * run.joint_band.beta
        self._high = None if saturated else (root, cost - run.band.lower)
        if self._last_moved == "high":
            self._low = (self._low[0], self._low[1] / 2)
        self._last_moved = "high"

    def _next_guess(self, root: float) -> float:
        """The next √δ to try."""
        run, settings, (low, missing) = self._run, self._settings, self._low
        if run.best is None:
            return settings.growth * root
        high = math.sqrt(run.upper)
        if self._failed or not math.isfinite(missing):
            return self._middle_of_widest_gap(low, high)
        if self._high is None:
            return low + settings.saturated_share * (high - low)
        share = -missing / (self._high[1] - missing)
        guess = low + min(max(share, 0.01), 0.99) * (high - low)
        return min(guess * (1 + settings.aim_inside), (low + 3 * high) / 4)

    def _middle_of_widest_gap(self, low: float, high: float) -> float:
        """Halve the bracket, keeping away from where O↑ failed."""
        ends = np.array([low, *sorted(root for root in self._failed if low < root < high), high])
        widest = int(np.argmax(np.diff(ends)))
        return float(ends[widest] + ends[widest + 1]) / 2
