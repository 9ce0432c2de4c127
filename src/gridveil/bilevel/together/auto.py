"""The steps of the method ``auto`` for all rows at once. Each step has the name that it has in ``methods/auto.py``."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gridveil.bilevel.methods.settings import AutoSettings
from gridveil.bilevel.result import Ending
from gridveil.bilevel.together.bracket import RootBrackets
from gridveil.bilevel.together.pushes import PushSearch
from gridveil.bilevel.together.rows import Doing, HandOver, SearchRows, StartAt
from gridveil.bilevel.together.search import KIND
from gridveil.solvers.batch.power_rows import Kind

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class AutoSearch(PushSearch):
    """The method on all rows of a state, which it changes."""

    ENDING = Ending.POLISHED

    def __init__(self, rows: SearchRows, settings: AutoSettings, within_bounds: Bools) -> None:
        super().__init__(rows, within_bounds)
        self._settings, self._brackets = settings, RootBrackets(rows, settings)
        self._aim = (rows.band.lower + rows.joint_band.lower) / 2

    def decide(self, mine: Ints, doing: Ints) -> None:
        """The step that follows each."""
        self._remember(mine[(doing != Doing.HIGHPOINT) & (doing != Doing.CUT_AGAIN)])
        self._after_highpoint(self.start_from_highpoint(mine[doing == Doing.HIGHPOINT]))
        self._after_cut(mine[doing == Doing.CUT])
        self._after_polish(mine[(doing == Doing.POLISH) | (doing == Doing.POLISH_AGAIN)])
        self._after_push(self.learn_push(mine[KIND[doing] == Kind.PUSH]))
        self._after_cut_again(mine[doing == Doing.CUT_AGAIN])

    def _remember(self, mine: Ints) -> None:
        """How near the two nearest points in the band are."""
        rows = self.rows
        mine = mine[rows.band.contain(rows.reached.cost[mine], mine)]
        delta, nearest = rows.reached.delta[mine], rows.nearest[mine]
        rows.next_nearest[mine] = np.minimum(rows.next_nearest[mine], np.maximum(delta, nearest))
        rows.nearest[mine] = np.minimum(delta, nearest)

    def _after_highpoint(self, mine: Ints) -> None:
        below = self.rows.reached.cost[mine] < self.rows.band.lower[mine]
        self._follow_algorithm1(mine[~below])
        self._cut_from_below(mine[below])

    def _cut_from_below(self, mine: Ints) -> None:
        """Ask for the next cut at the base, which lies below the band; for half as much where that asks for too much."""
        rows, settings = self.rows, self._settings
        while len(mine):
            more = rows.cuts[mine] < settings.most_cuts
            self._follow_algorithm1(mine[~more])
            mine = mine[more]
            rows.cuts[mine] += 1
            missing = rows.band.lower[mine] - rows.base.cost[mine]
            asked = self._ask_cut(mine, Doing.CUT, rows.extra[mine] - (1 - rows.share[mine]) * missing)
            mine = mine[~asked]
            rows.extra[mine], rows.share[mine] = 0.0, rows.share[mine] / 2

    def _after_cut(self, mine: Ints) -> None:
        rows = self.rows
        cost, before = rows.reached.cost[mine], rows.base.cost[mine]
        in_band = rows.band.contain(cost, mine)
        asked = rows.share[mine] * (rows.band.lower[mine] - before)
        gained = cost - before >= self._settings.least_gain * asked
        nearer = ~in_band & gained & (cost < rows.band.lower[mine])
        self._follow_algorithm1(mine[~in_band & ~nearer])
        rows.base.take(rows.reached, mine[in_band | nearer])
        short = rows.band.lower[mine] - cost
        rows.extra[mine] = np.where(rows.share[mine] == 1.0, self._settings.overshoot * short, 0.0)
        rows.share[mine] = 1.0
        self._polish(mine[in_band])
        self._cut_from_below(mine[nearer])

    def _polish(self, mine: Ints) -> None:
        """Cut again at the best point."""
        rows = self.rows
        farther = rows.base.delta[mine] > (1 + self._settings.narrow) * rows.highpoint.delta[mine]
        more = farther & (rows.polishes[mine] < self._settings.most_polishes)
        rows.polishes[mine] += 1
        asked = more.copy()
        asked[more] = self._ask_cut(mine[more], Doing.POLISH, np.zeros(int(more.sum())))
        self._search_root(mine[~asked])

    def _after_polish(self, mine: Ints) -> None:
        """Go on while polishes bring nearer points in the band; one that fell short asks for more, once."""
        rows, settings = self.rows, self._settings
        cost, delta, before = rows.reached.cost[mine], rows.reached.delta[mine], rows.base.delta[mine]
        in_band, nearer = rows.band.contain(cost, mine), delta < before
        missed = rows.band.lower[mine] - cost
        again = nearer & (missed > 0) & (rows.doing[mine] == Doing.POLISH)
        asked = again.copy()
        asked[again] = self._ask_cut(mine[again], Doing.POLISH_AGAIN, settings.overshoot * missed[again])
        better = in_band & nearer
        gained = better & (delta <= (1 - settings.small_gain) * before)
        gained[gained] = ~self._is_same_cut(mine[gained])
        rows.base.take(rows.reached, mine[better])
        self._polish(mine[gained])
        self._search_root(mine[~gained & ~asked])

    def _is_same_cut(self, mine: Ints) -> Bools:
        """Whether cuts at the points reached would repeat those at the base that led there."""
        reached = self.rows.reached
        radius_cost = reached.steepness[mine] * np.sqrt(reached.delta[mine])
        with np.errstate(invalid="ignore", divide="ignore"):
            shifted = 2 * np.abs(reached.cost[mine] - self._aim[mine]) / radius_cost
            return np.asarray((radius_cost != 0.0) & (self.rows.turned[mine] + shifted < self._settings.same_cut))

    def _ask_cut(self, mine: Ints, doing: Doing, extra: Floats) -> Bools:
        """Linearise O at the base and ask for a cut; False where prices vanish, or it asks for more than the band allows."""
        rows = self.rows
        aim = self._aim[mine] + extra
        least = self._settings.flat * np.maximum(np.abs(rows.target.value[mine]), rows.target.beta[mine])
        possible = (rows.base.steepness[mine] > least) & (aim <= rows.joint_band.upper[mine])
        asked = mine[possible]
        rows.aim[asked] = aim[possible]
        self.ask(asked, doing, StartAt.REACHED if doing is Doing.POLISH_AGAIN else StartAt.BASE)
        return np.asarray(possible)

    def _search_root(self, mine: Ints) -> None:
        """Ask whether O↑ reaches the band nearer than the best point; confirm where that was asked before."""
        rows = self.rows
        first = mine[~rows.rooted[mine]]
        self._confirm(mine[rows.rooted[mine]])
        if not len(first):
            return
        rows.rooted[first] = True
        self._brackets.begin(first)
        self._push(first)

    def _follow_algorithm1(self, mine: Ints) -> None:
        """Go the way of Algorithm 1 from the high point."""
        self.rows.rooted[mine] = True
        self._brackets.begin_halving(mine)
        self._push(mine)

    def _push(self, mine: Ints) -> None:
        """O↑ at the next radius; where there is none, the search is over."""
        if not len(mine):
            return
        rows, brackets = self.rows, self._brackets
        pushed = brackets.next_radius(mine)
        asked, over = mine[pushed], mine[~pushed]
        halving, again = rows.halving[asked], brackets.pushes[asked] > 1
        doing = np.where(halving, brackets.halving.step(asked), int(Doing.ROOT))
        first = np.where(halving, StartAt.HIGHPOINT, StartAt.BASE)
        self.ask(asked, doing, np.where(again, StartAt.REACHED, first))
        nearer = brackets.found_nearer(over)
        rows.polishes[over[nearer]] = 0
        self._polish(over[nearer])
        self._confirm_known(over[~nearer])

    def _confirm_known(self, mine: Ints) -> None:
        """Go back to the point that was the best before a search that found no nearer one."""
        rows = self.rows
        back = mine[rows.halving[mine]]
        rows.base.take(rows.known, back)
        nowhere = np.isinf(rows.base.delta[mine])
        rows.hand_over(mine[nowhere], HandOver.NO_POINT)
        self._confirm(mine[~nowhere])

    def _after_push(self, mine: Ints) -> None:
        self._brackets.learn(mine)
        self._push(mine)

    def _confirm(self, mine: Ints) -> None:
        """Verify the best point, after a look whether Algorithm 1 does better where it might: see ``is_in_doubt``."""
        rows = self.rows
        off_edge = rows.base.cost[mine] - rows.band.lower[mine] > self._settings.off_edge * rows.band.beta[mine]
        in_doubt = off_edge & ~rows.halving[mine]
        self.verify(mine[~in_doubt])
        rows.known.take(rows.base, mine[in_doubt])
        self._follow_algorithm1(mine[in_doubt])

    def refuse(self, mine: Ints, fresh: Floats) -> None:
        """Cut again at a refused point, from the lower optimum there; a repeated cut asks for as much more as the two differ."""
        rows, settings = self.rows, self._settings
        rows.refusals[mine] += 1
        more = np.where(rows.refusals[mine] > 1, settings.overshoot * (rows.base.cost[mine] - fresh), 0.0)
        rows.base.cost[mine], rows.at_once[mine] = fresh, False
        asked = (fresh < rows.band.lower[mine]) & (rows.refusals[mine] < settings.most_refusals)
        asked[asked] = self._ask_cut(mine[asked], Doing.CUT_AGAIN, more[asked])
        rows.hand_over(mine[~asked], HandOver.REFUSED)

    def _after_cut_again(self, mine: Ints) -> None:
        rows = self.rows
        in_band = rows.band.contain(rows.reached.cost[mine], mine)
        rows.hand_over(mine[~in_band], HandOver.REFUSED)
        rows.base.take(rows.reached, mine[in_band])
        self.verify(mine[in_band])

    def is_nearest(self, mine: Ints) -> Bools:
        """Whether no point that the cut from a refused one has passed over is nearer: single releases verify these too."""
        rows = self.rows
        nearer = rows.next_nearest[mine] < (1 - self._settings.check) * rows.base.delta[mine]
        return np.asarray(~((rows.refusals[mine] > 0) & nearer))
