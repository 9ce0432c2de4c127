"""Solves for bilevel methods on any backend: the order of starts, and what follows a failure.

All starts are made from public data, d̃ and the band alone.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gridveil.core.band import CostTarget
from gridveil.core.deadline import OutOfTimeError, check_time, time_limit
from gridveil.core.threads import side_by_side
from gridveil.programs import Status
from gridveil.solvers.backend import Answer, Backend, Effort, HalfSpace, Start
from gridveil.solvers.checks import COLD, FLAT, OTHER, OWN, CheckedCost
from gridveil.solvers.fallback import SECOND_SHARE
from gridveil.solvers.ipopt import IPOPT, QUICK_FOR_IPOPT
from gridveil.solvers.structured.backend import STRUCTURED

Vector = NDArray[np.float64]

MIDDLE = 0.1  # share of the band that HPR asks for at last, where its edge has prices that no solver gets right
RELAXED_BAND = 10.0  # how much wider the band is that gives HPR a last start
FAR_APART = 1e-3  # relative: in a large network, costs of optima that call for Ipopt's word as well
WORSE_THAN_START = 1e-6  # relative: a dispatch that ends above the x it started from went to a worse optimum


@dataclass(frozen=True, eq=False)
class Solves:
    """O, HPR, price cuts and O↑ of one backend, each with its starts and retries."""

    backend: Backend
    patient: bool = True
    """Whether Ipopt is asked about a dispatch on the way that the default solver leaves unsolved, even where that takes long."""

    def highpoint(self, noisy: Vector, band: CostTarget) -> Answer:
        """HPR from one start after another until it converges."""
        program = self.backend.program
        inside = np.clip(noisy, program.d_lower, program.d_upper)
        starts = [Start(program.x_start, inside)]
        answer = self._to_the_end(noisy, band, self.backend.nearest(noisy, band))
        if not answer.converged and program.smoothed_cost is not None:
            answer = self.backend.nearest(noisy, band, start=starts[0], effort=Effort.OTHERWISE)
        if answer.converged:
            return answer
        for start in self._more_highpoint_starts(noisy, inside, band):
            starts.append(start)
            answer = self.backend.nearest(noisy, band, start=start, effort=Effort.FULL)
            answer = self._to_the_end(noisy, band, answer)
            if answer.converged:
                return answer
        for start in starts if program.adaptive_barrier else ():
            answer = self.backend.nearest(noisy, band, start=start, effort=Effort.OTHERWISE)
            if answer.converged:
                return answer
        # Points in the middle of the band lie in it too, a little farther away.
        return self.backend.nearest(noisy, replace(band, beta=MIDDLE * band.beta))

    def _to_the_end(self, noisy: Vector, band: CostTarget, answer: Answer) -> Answer:
        """Continue from where a solve ended with a merely acceptable point."""
        if answer.status is not Status.ACCEPTABLE:
            return answer
        return self.backend.nearest(noisy, band, start=Start(answer.x, answer.d), effort=Effort.FULL)

    def _more_highpoint_starts(self, noisy: Vector, inside: Vector, band: CostTarget) -> Iterator[Start]:
        program = self.backend.program
        for make_start in program.more_starts:
            yield Start(make_start(inside), inside)
        flat = Start(program.x_start, inside)
        relaxed = replace(band, beta=RELAXED_BAND * band.beta)
        near = self.backend.nearest(noisy, relaxed, start=flat, effort=Effort.FULL)
        yield Start(near.x, near.d)
        feasible = self.backend.nearest(inside, None, start=flat, effort=Effort.FULL)
        yield Start(feasible.x, feasible.d)

    def nearest_feasible(self, d: Vector) -> Answer:
        """HPR without its band: the data nearest to d that have any feasible x at all."""
        return self.backend.nearest(d, None)

    def nearest_data(self, d: Vector) -> Vector | None:
        """The data nearest to d that have any feasible x; None if none were found."""
        found = self.nearest_feasible(d)
        return found.d if found.converged else None

    def afresh(self, d: Vector) -> Answer:
        """O(d) from public starts: the flat one, the x of the nearest feasible data, the program's others."""
        return self._from_public_starts(d, self.backend.dispatch(d))

    def soon(self, d: Vector) -> Answer:
        """O(d) afresh, but as far as the default solver gets where Ipopt takes long: for what one can do without."""
        if self._is_quick or self.backend.name == IPOPT:
            return self.afresh(d)
        answer = self.fresh(d)
        if answer.converged:
            return answer
        return self.backend.dispatch(d, start=self.nearest_feasible(d).start, effort=Effort.BRIEF)

    def best(self, d: Vector) -> Answer:
        """O(d) afresh, or what other public starts and Ipopt find if that is cheaper: a local solver proves no optimum."""
        flat: Answer | None = None
        if self._is_quick or self.backend.name != STRUCTURED:
            cold = self.afresh(d)
        else:
            flat, cold = side_by_side(lambda: self._brief_flat(d), lambda: self.afresh(d))
        if not cold.converged:
            return cold
        return CheckedCost.of([(COLD, cold), *self._from_other_starts(d, cold, flat=flat)]).answer

    def released(self, d: Vector, own: Vector | None = None, fresh: Answer | None = None) -> CheckedCost:
        """O(d) as those find it who have released data and nothing else; and from ``own``, the x that was released with.

        The default solver starts cold and from the flat start. Ipopt starts flat where that is quick. In large networks it
        takes longer than all else together, so it is asked only if the others lie far apart; and a start at the edge of
        feasibility can crawl, so it is given up early: there the cold solve is that of the verification, ``fresh``, where
        the caller has it.
        """
        if self._is_quick or fresh is None:
            cold = self.backend.dispatch(d, effort=Effort.FULL if self._is_quick else Effort.BRIEF)
        else:
            cold = fresh
        tried = [(FLAT if cold.solver == IPOPT else COLD, cold)]
        flat: Answer | None = None
        if own is not None and self._is_quick:
            tried.append((OWN, self.backend.dispatch(d, start=Start(own, d), effort=Effort.NEAR)))
        elif own is not None:
            from_own, flat = side_by_side(
                lambda: self.backend.dispatch(d, start=Start(own, d), effort=Effort.BRIEF), lambda: self._flat(d, cold)
            )
            tried.append((OWN, from_own))
        tried += self._from_other_starts(d, cold, tried[1:], flat)
        if not any(answer.converged for _, answer in tried):
            tried.append((OTHER, self._from_public_starts(d, cold)))
        return CheckedCost.of(tried)

    @property
    def _is_quick(self) -> bool:
        return self.backend.program.n_x <= QUICK_FOR_IPOPT

    def _flat(self, d: Vector, cold: Answer) -> Answer | None:
        """O(d) from the flat start; None if the cold answer is Ipopt's, which started there."""
        return None if cold.solver == IPOPT else self._brief_flat(d)

    def _brief_flat(self, d: Vector) -> Answer:
        return self.backend.dispatch(d, start=Start(self.backend.program.x_start, d), effort=Effort.BRIEF)

    def _from_other_starts(
        self, d: Vector, cold: Answer, known: Sequence[tuple[str, Answer]] = (), flat: Answer | None = None
    ) -> list[tuple[str, Answer]]:
        """What other public starts than the cold one lead to. Ipopt is not asked again if the cold answer is its own.

        ``known`` answers count where the question is whether to ask it; ``flat`` is that of the flat start, if it is known.
        """
        backend, program, tried = self.backend, self.backend.program, []
        flat = None if cold.solver == IPOPT else flat or self._flat(d, cold)
        if flat is not None:
            tried.append((FLAT, flat))
        for x in program.starts:
            tried.append((OTHER, backend.dispatch(d, start=Start(x, d), effort=Effort.FULL)))
        checked = CheckedCost.of([(COLD, cold), *known, *tried])
        far_apart = checked.spread > FAR_APART * abs(checked.answer.cost)
        if cold.solver != IPOPT and (self._is_quick or far_apart):
            tried.append((FLAT, backend.dispatch(d, effort=Effort.READER)))
        return tried

    def _from_public_starts(self, d: Vector, answer: Answer) -> Answer:
        if not answer.converged:
            answer = self.backend.dispatch(d, start=self.nearest_feasible(d).start, effort=Effort.NEAR)
        for make_start in self.backend.program.more_starts:
            if answer.converged:
                break
            answer = self.backend.dispatch(d, start=Start(make_start(d), d), effort=Effort.FULL)
        return answer

    def push(self, noisy: Vector, band: CostTarget, delta: float, starts: Sequence[Answer]) -> Answer:
        """O↑(δ), warm from the last push, then cold from the last and the first point, then in another way.

        Multipliers that serve any problem are taken from the last point that has them.
        """
        backend, last = self.backend, starts[-1].start
        portable = [known.start for known in starts if backend.portable(known.start)]
        effort = Effort.WARM if len(starts) > 1 else Effort.NEAR
        answer = backend.push(noisy, band, delta, start=portable[-1] if portable else last, effort=effort)
        if self._is_final(answer):
            return answer
        if effort is Effort.WARM:
            answer = backend.push(noisy, band, delta, start=last, effort=Effort.AGAIN)
        if not answer.converged and starts[0] is not starts[-1] and backend.capabilities.restarts:
            answer = backend.push(noisy, band, delta, start=starts[0].start, effort=Effort.AGAIN)
        if not answer.converged and backend.program.adaptive_barrier:
            answer = backend.push(noisy, band, delta, start=last, effort=Effort.OTHERWISE)
        return answer

    def cut(self, noisy: Vector, band: CostTarget, half_space: HalfSpace, start: Answer, warm: Answer | None) -> Answer:
        """HPR within a half-space, warm from the last such solve if there is one, then cold from ``start``."""
        if warm is None:
            return self.backend.cut(noisy, band, half_space, start=start.start)
        answer = self.backend.cut(noisy, band, half_space, start=warm.start, effort=Effort.WARM)
        if self._is_final(answer):
            return answer
        return self.backend.cut(noisy, band, half_space, start=start.start, effort=Effort.AGAIN)

    def _is_final(self, answer: Answer) -> bool:
        """Whether a cut or push needs no other start: it converged, or is impossible by a backend that starts are all one to."""
        impossible = answer.status is Status.INFEASIBLE and not self.backend.capabilities.restarts
        return answer.converged or impossible

    def follow(self, joint: Answer, previous: Answer | None) -> Answer:
        """O(d) from the x in hand, so that a local solver cannot return a worse point than that x.

        Multipliers make it quick; if that fails, or ends above f(x), it starts again without.
        """
        if previous is not None or self.backend.portable(joint.start):
            start = joint.start.after(previous.start if previous is not None else None)
            answer = self.backend.dispatch(joint.d, start=start, effort=Effort.WARM)
            if answer.converged and answer.cost <= _just_above(joint.cost):
                return answer
        if self.hurries:
            answer = self._in_a_hurry(joint, first=previous is None)
        else:
            answer = self.backend.dispatch(joint.d, start=joint.start, effort=Effort.NEAR)
        return replace(answer, from_x_alone=True)

    def _in_a_hurry(self, joint: Answer, *, first: bool) -> Answer:
        """O(d) from the x in hand by the default solver; about the first point Ipopt is asked too, for as long as that took.

        The first is the high point: a search that knows O there may end at once, and one that does not gets no prices.
        """
        clock = time.perf_counter()
        answer = self.backend.dispatch(joint.d, start=joint.start, effort=Effort.BRIEF)
        if answer.converged or not first:
            return answer
        try:
            # Ipopt gets its share of the time left.
            with time_limit((time.perf_counter() - clock) / SECOND_SHARE):
                return self.backend.dispatch(joint.d, start=joint.start, effort=Effort.AGAIN)
        except OutOfTimeError:
            check_time()
            return answer

    @property
    def hurries(self) -> bool:
        """Whether dispatches on the way are given up before Ipopt is asked."""
        return not (self.patient or self._is_quick or self.backend.name == IPOPT)

    def fresh(self, d: Vector) -> Answer:
        """O(d) from the solver's own start, given up where that leads nowhere soon."""
        return self.backend.dispatch(d, effort=Effort.BRIEF)

    def verify(self, joint: Answer, known: Answer, band: CostTarget, fresh: Answer | None = None) -> Answer:
        """Solve O(d) afresh: from the flat start, or, where that leads nowhere soon, from the joint x without multipliers.

        If the fresh solve leaves the band, other public starts are tried too; those of a program that has several optima
        always. O(d) is the lowest cost that converged. ``fresh`` is the answer of the method of that name, if it is known.
        """
        answers = [known, fresh or self.fresh(joint.d)]
        if not answers[-1].converged:
            # The joint x has a little room at every limit; the dispatch's own optimum has none.
            again = known.from_x_alone and known.d is joint.d
            answers.append(known if again else self.backend.dispatch(joint.d, start=joint.start, effort=Effort.NEAR))
        if not (answers[-1].converged and band.contains(answers[-1].cost)):
            answers.append(self._from_public_starts(joint.d, answers[1]))
        return self.lowest(joint.d, answers, band)

    def lowest(self, d: Vector, known: Sequence[Answer], band: CostTarget) -> Answer:
        """The cheapest answer that converged, of those known and from each of the program's starts; else the first known.

        One below the band is enough: others could only be lower still.
        """
        best = min((answer for answer in known if answer.converged), key=lambda answer: answer.cost, default=None)
        for x in self.backend.program.starts:
            if best is not None and best.cost < band.lower:
                break
            answer = self.backend.dispatch(d, start=Start(x, d), effort=Effort.FULL)
            if answer.converged and (best is None or answer.cost < best.cost):
                best = answer
        return best or known[0]


def _just_above(cost: float) -> float:
    return cost + WORSE_THAN_START * max(1.0, abs(cost))
