"""The four problems solved by CasADi and Ipopt, for any program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gridveil.core.band import CostTarget
from gridveil.core.lazy import lazy_module
from gridveil.programs import Follower, FollowerSolution, NlpSolution, ParametricProgram, Trust
from gridveil.solvers.backend import Answer, Capabilities, Effort, HalfSpace, Start, usual_effort
from gridveil.solvers.joint import BandProblems, ElasticProgram, JointPoint

if TYPE_CHECKING:
    import casadi as ca
else:
    ca = lazy_module("casadi")

Vector = NDArray[np.float64]

IPOPT = "ipopt"
QUICK_FOR_IPOPT = 2_500  # variables, as of a thousand buses: up to there Ipopt takes about a second from the flat start
_TRUST = {
    Effort.FULL: Trust.ROUGH,
    Effort.BRIEF: Trust.BRIEF,
    Effort.NEAR: Trust.NEAR,
    Effort.WARM: Trust.NEAR,
    Effort.AGAIN: Trust.NEAR,
    Effort.OTHERWISE: Trust.PROBED,
    Effort.READER: Trust.ROUGH,
}


@dataclass(frozen=True, eq=False)
class _Ended:
    """Where Ipopt ended. Multipliers fit problems with the same rows only: a dispatch, HPR, or HPR with one more row."""

    follower: FollowerSolution | None = None
    joint: NlpSolution | None = None


class IpoptBackend:
    """Problems of one program, compiled when first needed and reused for any data and any band."""

    name = IPOPT
    capabilities = Capabilities(accepts=lambda _: True)

    def __init__(self, program: ParametricProgram, *, verbose: bool = False) -> None:
        self.program = program
        self._verbose = verbose
        self._compiled: dict[tuple[bool, bool], BandProblems] = {}

    @cached_property
    def _follower(self) -> Follower:
        return Follower(self.program, verbose=self._verbose)

    def _problems(self, band: CostTarget, *, smoothed: bool) -> BandProblems:
        """The joint problems with the rows of a band; of those with totals to keep, the last are kept."""
        key = (smoothed, band.rows is not None)
        known = self._compiled.get(key)
        if known is None or not known.keep(band.rows):
            kept = None if band.rows is None else band.rows.matrix
            known = BandProblems(self.program, smoothed=smoothed, verbose=self._verbose, kept=kept)
            self._compiled[key] = known
        return known

    @cached_property
    def _elastic(self) -> ElasticProgram:
        return ElasticProgram(self.program, verbose=self._verbose)

    @cached_property
    def _proxy(self) -> ca.Function:
        return ca.Function("proxy", [self.program.d], [self.program.proxy])

    def prepare(self) -> None:
        """Compile the dispatch."""
        _ = self._follower.build_seconds

    def portable(self, start: Start) -> bool:
        """Never: Ipopt's multipliers belong to the rows of one problem."""
        return False

    def dispatch(self, d: Vector, *, start: Start | None = None, effort: Effort | None = None) -> Answer:
        """O(d); warm from the multipliers of an earlier dispatch, where the start has any."""
        effort = usual_effort(start, effort)
        warm = _earlier(start) if effort is Effort.WARM else None
        solution = self._follower.solve(
            d, start=None if start is None else start.x, warm=warm, trust=_trust(start, effort)
        )
        return self._dispatched(d, solution)

    def nearest(
        self, noisy: Vector, band: CostTarget | None, *, start: Start | None = None, effort: Effort | None = None
    ) -> Answer:
        """HPR from the public start and d̃ itself, or from a given start."""
        trust = _trust(start, usual_effort(start, effort))
        if band is None:
            x, d = (self.program.x_start, noisy) if start is None else (start.x, start.d)
            return self._joint(self._elastic.solve(noisy, x=x, d=d, trust=trust))
        inside = np.clip(noisy, self.program.d_lower, self.program.d_upper)
        x, d = (self.program.x_start, inside) if start is None else (start.x, start.d)
        return self._in_band(
            band,
            lambda problems, trust: problems.highpoint.solve(noisy, band, x=x, d=d, trust=trust),
            trust,
        )

    def cut(
        self, noisy: Vector, band: CostTarget, half_space: HalfSpace, *, start: Start, effort: Effort = Effort.NEAR
    ) -> Answer:
        """HPR within a half-space."""
        warm, x, d = self._multipliers(band, start, effort), start.x, start.d
        return self._in_band(
            band,
            lambda problems, trust: problems.price_cut.solve(noisy, band, half_space, x=x, d=d, warm=warm, trust=trust),
            _TRUST[effort],
        )

    def push(
        self, noisy: Vector, band: CostTarget, delta: float, *, start: Start, effort: Effort = Effort.NEAR
    ) -> Answer:
        """O↑(δ)."""
        warm, x, d = self._multipliers(band, start, effort), start.x, start.d
        return self._in_band(
            band,
            lambda problems, trust: problems.push.solve(noisy, band, delta, x=x, d=d, warm=warm, trust=trust),
            _TRUST[effort],
        )

    def _in_band(self, band: CostTarget, solve: Callable[[BandProblems, Trust], JointPoint], trust: Trust) -> Answer:
        """A joint problem; where the usual way led nowhere, first with the smoothed cost, if the program has one."""
        if trust is Trust.PROBED and self.program.smoothed_cost is not None:
            answer = self._joint(solve(self._problems(band, smoothed=True), Trust.ROUGH))
            if answer.converged:
                return answer
        return self._joint(solve(self._problems(band, smoothed=False), trust))

    def _multipliers(self, band: CostTarget, start: Start, effort: Effort) -> NlpSolution | None:
        """Those of an earlier cut or push: both have the rows of HPR, which are g, the band and totals, and one more."""
        if effort is not Effort.WARM or start.maker != IPOPT:
            return None
        ended: _Ended = start.own
        n_kept = 0 if band.rows is None else len(band.rows.lower)
        if ended.joint is None or len(ended.joint.row_multipliers) != self.program.n_g + 2 + n_kept:
            return None
        return replace(ended.joint, x=np.concatenate([start.x, start.d]))

    def _dispatched(self, d: Vector, found: FollowerSolution) -> Answer:
        return Answer(
            status=found.status,
            x=found.x,
            d=d,
            cost=found.cost,
            delta=0.0,
            proxy=float(self._proxy(d)),
            start=Start(found.x, d, IPOPT, _Ended(follower=found)),
            solver=IPOPT,
            prices=found.prices,
            iterations=found.iterations,
            seconds=found.seconds,
            detail=found.detail,
        )

    def _joint(self, found: JointPoint) -> Answer:
        point = found.point
        return Answer(
            status=point.status,
            x=found.x,
            d=found.d,
            cost=found.cost,
            delta=found.delta,
            proxy=found.proxy,
            start=Start(found.x, found.d, IPOPT, _Ended(joint=point)),
            solver=IPOPT,
            iterations=point.iterations,
            seconds=point.seconds,
            detail=point.detail,
        )


def _trust(start: Start | None, effort: Effort) -> Trust:
    """Without a start there is nothing to be near to."""
    trust = _TRUST[effort]
    return Trust.ROUGH if start is None and trust is Trust.NEAR else trust


def _earlier(start: Start | None) -> FollowerSolution | None:
    """The multipliers of the start if it is of a dispatch, else those of the last dispatch, at the x of the start."""
    for known in (start, start.last if start is not None else None):
        if start is not None and known is not None and known.maker == IPOPT:
            ended: _Ended = known.own
            if ended.follower is not None:
                return replace(ended.follower, point=replace(ended.follower.point, x=start.x))
    return None
