"""The four problems of a network with several secrets, by dispatches of the structured solver alone.

Where all data are fixed, O(d) is an ordinary optimal power flow. A joint problem without its network has a closed form
(``BoxedData``); if the network can serve that point at a cost in the band, it is the optimum of the whole problem, since
nothing nearer was possible even without the network. HPR from above the band is a sequence of such steps, each with the
prices of the last. What this does not answer is left to another backend.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gridveil.core.band import CostTarget
from gridveil.core.deadline import check_time
from gridveil.core.errors import InputError
from gridveil.programs import Status
from gridveil.sectors.model import Model, OrdinaryForm, PricedFlow
from gridveil.solvers.backend import Answer, Capabilities, Effort, HalfSpace, Start, usual_effort
from gridveil.solvers.boxed import BoxedData
from gridveil.solvers.structured.backend import STRUCTURED, StructuredBackend, compile_once, program_status, takes
from gridveil.solvers.structured.problem import Solution, WarmStart

Vector = NDArray[np.float64]

MOST_STEPS = 15  # from above the band to its edge; curved costs take five or so
SMALL_GAIN = 1e-4  # share of δ: the high point is found when another step promises less
INSIDE = 1e-4  # share of β below the upper edge that a step aims at, so that rounding does not undo it
SAME_DEMANDS = 1e-10  # squared, per unit: a flow with a cost in the band, found for demands this near, is one for these


@dataclass(frozen=True, eq=False)
class _Known:
    """What a start remembers: the structured solver's own, and the dispatch at the same data."""

    warm: WarmStart
    dispatched: Answer | None = None


class VeiledBackend:
    """Problems of one network with several secrets."""

    name = STRUCTURED
    capabilities = Capabilities(accepts=lambda model: model.ordinary is not None, guesses=True)

    def __init__(self, model: Model) -> None:
        if model.ordinary is None:
            raise InputError(f"the structured solver does not know {model.program.name}; choose --solver ipopt")
        self.program = model.program
        self._ordinary: OrdinaryForm = model.ordinary

    def prepare(self) -> None:
        """Compile what has never been compiled. Dispatches share nothing else: each has a network of its own."""
        compile_once()

    def portable(self, start: Start) -> bool:
        """Whether it is a start of this backend: its multipliers serve any dispatch."""
        return start.maker == STRUCTURED

    def dispatch(self, d: Vector, *, start: Start | None = None, effort: Effort | None = None) -> Answer:
        """O(d). A start that was made with a dispatch at the same data has its answer."""
        effort = usual_effort(start, effort)
        if start is not None and not takes(effort):
            return self._none(d, 0.0, start, "starts from no guess")
        known = _known(start)
        if known is not None and known.dispatched is not None and known.dispatched.d is d:
            return known.dispatched
        served, demand = self._served(d)
        solution = served.solve_dispatch(demand, _translated(start, demand), effort)
        x = served.program_x(solution)
        return Answer(
            status=program_status(solution.status),
            x=x,
            d=d,
            cost=solution.cost,
            delta=0.0,
            proxy=self._proxy(d),
            start=Start(x, d, STRUCTURED, _Known(solution.warm)),
            solver=STRUCTURED,
            prices=self._ordinary.prices(d, _priced(solution)),
            iterations=solution.iterations,
            seconds=solution.seconds,
            detail=solution.status.value,
        )

    def nearest(
        self, noisy: Vector, band: CostTarget | None, *, start: Start | None = None, effort: Effort | None = None
    ) -> Answer:
        """HPR: the noisy data themselves, within their limits, or a sequence of steps down to the band."""
        boxed = self._boxed(noisy)
        d = boxed.inside
        if start is not None and not takes(usual_effort(start, effort)):
            return self._none(d, boxed.distance(d), start, "starts from no guess")
        follower = self.dispatch(d, effort=Effort.BRIEF)
        if not follower.converged:
            return self._none(d, boxed.distance(d), self._eased_start(d), "no flow at the noisy data")
        if band is None or follower.cost <= band.upper:
            return self._joint(boxed, follower, band)
        return self._from_above(boxed, follower, band)

    def _eased_start(self, d: Vector) -> Start:
        """Where to look for data with a flow: that of the same data without limits, with limits raised to fit it.

        Without limits there may be none either; where the solver ended is a better start than the flat one even so.
        """
        eased = self._ordinary.eased(d)
        if eased is None:
            return Start(self.program.x_start, d)
        flow = self.dispatch(eased, effort=Effort.BRIEF)
        return Start(flow.x, self._ordinary.raised(d, flow.x))

    def cut(
        self, noisy: Vector, band: CostTarget, half_space: HalfSpace, *, start: Start, effort: Effort = Effort.NEAR
    ) -> Answer:
        """HPR within a half-space: the point of the half-space nearest to d̃, if its cost is right."""
        boxed = self._boxed(noisy)
        return self._at(boxed, boxed.nearest(half_space), start, band)

    def push(
        self, noisy: Vector, band: CostTarget, delta: float, *, start: Start, effort: Effort = Effort.NEAR
    ) -> Answer:
        """O↑(δ): the point of the ball where m is largest, if its cost is right."""
        boxed = self._boxed(noisy)
        return self._at(boxed, boxed.farthest(self._ordinary.growth, delta), start, band)

    def _boxed(self, noisy: Vector) -> BoxedData:
        return BoxedData(noisy, self.program.d_lower, self.program.d_upper)

    def _proxy(self, d: Vector) -> float:
        return float(self._ordinary.growth @ d)

    def _served(self, d: Vector) -> tuple[StructuredBackend, Vector]:
        model, demand = self._ordinary.at(d)
        return StructuredBackend(model), demand

    def _follow(self, d: Vector, start: Start) -> Answer:
        """O(d) warm from a start, or else cold."""
        check_time()
        if self.portable(start):
            answer = self.dispatch(d, start=start, effort=Effort.WARM)
            if answer.converged:
                return answer
        return self.dispatch(d, effort=Effort.BRIEF)

    def _from_above(self, boxed: BoxedData, follower: Answer, band: CostTarget) -> Answer:
        """HPR where O(d̃) exceeds the band: the nearest d with a linearised cost at its upper edge, again and again.

        It is found when the cost is in the band and the next step promises hardly any gain: d − d̃ is then along the prices.
        """
        for _ in range(MOST_STEPS):
            step = self._next_step(boxed, follower, band.upper - INSIDE * band.beta)
            if step is None:
                break
            if follower.cost <= band.upper and boxed.distance(follower.d) <= (1 + SMALL_GAIN) * boxed.distance(step):
                return self._joint(boxed, follower, band)
            follower = self._follow(step, follower.start)
            if not follower.converged:
                break
        return self._none(follower.d, boxed.distance(follower.d), follower.start, "the steps did not end at the band")

    @staticmethod
    def _next_step(boxed: BoxedData, follower: Answer, aim: float) -> Vector | None:
        """The data nearest to d̃ whose cost, linearised at a dispatch, is at most ``aim``; None if there are none."""
        assert follower.prices is not None, "dispatches have prices"
        steepness = float(np.linalg.norm(follower.prices))
        if not steepness > 0:
            return None
        normal = -follower.prices / steepness
        return boxed.nearest(HalfSpace(normal, float(normal @ follower.d) + (follower.cost - aim) / steepness))

    def _at(self, boxed: BoxedData, d: Vector | None, start: Start, band: CostTarget) -> Answer:
        """The answer to a joint problem whose optimum without a network is d; None if there is none even so."""
        if d is None:
            return self._none(start.d, boxed.distance(start.d), start, "no data within their limits", Status.INFEASIBLE)
        return self._joint(boxed, self._follow(d, start), band)

    def _joint(self, boxed: BoxedData, follower: Answer, band: CostTarget | None) -> Answer:
        """A dispatch as the answer to a joint problem, if some flow at its d has a cost in the band, and totals are kept."""
        d, start = follower.d, replace(follower.start, own=replace(follower.start.own, dispatched=follower))
        joint = replace(follower, delta=boxed.distance(d), prices=None, start=start)
        if not follower.converged or band is None or (band.contains(follower.cost) and band.keeps(d)):
            return joint
        if follower.cost > band.upper or not band.keeps(d):
            return self._none(d, joint.delta, start, "the nearest data have another cost")
        return self._wasteful(joint, band)

    def _wasteful(self, joint: Answer, band: CostTarget) -> Answer:
        """The same where O(d) lies below the band: some flow at d, not an optimal one, that costs enough."""
        served, demand = self._served(joint.d)
        found = served.nearest(demand, replace(band, rows=None))
        if not found.converged or found.delta > SAME_DEMANDS:
            return self._none(joint.d, joint.delta, joint.start, "no flow with a cost in the band")
        return replace(joint, x=found.x, cost=found.cost, start=replace(joint.start, x=found.x))

    def _none(self, d: Vector, delta: float, start: Start, detail: str, status: Status = Status.FAILED) -> Answer:
        """No answer, and why."""
        return Answer(
            status=status,
            x=start.x,
            d=d,
            cost=float("nan"),
            delta=delta,
            proxy=self._proxy(d),
            start=start,
            solver=STRUCTURED,
            detail=detail,
        )


def _known(start: Start | None) -> _Known | None:
    """What this backend knows of a start, if it made it."""
    if start is None or start.maker != STRUCTURED:
        return None
    known: _Known = start.own
    return known


def _translated(start: Start | None, demand: Vector) -> Start | None:
    """A start in the terms of the structured solver at given demands."""
    if start is None:
        return None
    known, last = _known(start), _translated(start.last, demand)
    if known is None:
        return Start(start.x, demand, last=last)
    return Start(start.x, demand, STRUCTURED, known.warm, last=last)


def _priced(solution: Solution) -> PricedFlow:
    multipliers = solution.multipliers
    return PricedFlow(
        va=solution.va,
        vm=solution.vm,
        pg=solution.pg,
        price_p=multipliers.price_p,
        price_q=multipliers.price_q,
        flow_from=multipliers.flow_from,
        flow_to=multipliers.flow_to,
    )
