"""A backend for tests: answers come from functions supplied by the test, and calls are recorded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from gridveil.core.band import CostTarget
from gridveil.programs import ParametricProgram, Status
from gridveil.solvers.backend import Answer, Capabilities, Effort, HalfSpace, Start, usual_effort

Vector = NDArray[np.float64]

SCRIPTED = "scripted"
ANYTHING = Capabilities(accepts=lambda _: True)


@dataclass(frozen=True, kw_only=True)
class Script:
    """O(d) and its prices, and the d of each joint problem; None where that has no solution."""

    cost: Callable[[Vector], float]
    prices: Callable[[Vector], Vector | None]
    nearest: Callable[[Vector, CostTarget | None], Vector | None]
    cut: Callable[[Vector, CostTarget, HalfSpace], Vector | None]
    push: Callable[[Vector, CostTarget, float], Vector | None]


@dataclass(frozen=True, eq=False, kw_only=True)
class Call:
    """A recorded call to a backend."""

    problem: str
    effort: Effort
    number: int
    """Counts the calls of this problem, from 1."""
    start: Start | None
    half_space: HalfSpace | None = None
    delta: float | None = None


Alter = Callable[[Call, Answer], Answer]


@dataclass(eq=False)
class ScriptedBackend:
    """Answers immediately and exactly according to the script, unless ``alter`` changes an answer."""

    script: Script
    program: ParametricProgram
    alter: Alter = lambda _, answer: answer
    calls: list[Call] = field(default_factory=list)
    name: str = SCRIPTED
    capabilities: Capabilities = ANYTHING

    def prepare(self) -> None:
        """Do nothing: there is nothing to prepare."""

    def portable(self, start: Start) -> bool:
        """Never: there are no multipliers."""
        return False

    def dispatch(self, d: Vector, *, start: Start | None = None, effort: Effort | None = None) -> Answer:
        """O(d)."""
        cost = self.script.cost(d)
        found = d if np.isfinite(cost) else None
        return self._answer("dispatch", usual_effort(start, effort), start, found, d, prices=self.script.prices(d))

    def nearest(
        self, noisy: Vector, band: CostTarget | None, *, start: Start | None = None, effort: Effort | None = None
    ) -> Answer:
        """HPR."""
        found = self.script.nearest(noisy, band)
        return self._answer("nearest", usual_effort(start, effort), start, found, noisy, band)

    def cut(
        self, noisy: Vector, band: CostTarget, half_space: HalfSpace, *, start: Start, effort: Effort = Effort.NEAR
    ) -> Answer:
        """HPR within a half-space."""
        found = self.script.cut(noisy, band, half_space)
        return self._answer("cut", effort, start, found, noisy, band, half_space=half_space)

    def push(
        self, noisy: Vector, band: CostTarget, delta: float, *, start: Start, effort: Effort = Effort.NEAR
    ) -> Answer:
        """O↑(δ)."""
        found = self.script.push(noisy, band, delta)
        return self._answer("push", effort, start, found, noisy, band, delta=delta)

    def asked(self, problem: str) -> list[Call]:
        """The calls of one problem."""
        return [call for call in self.calls if call.problem == problem]

    def _answer(
        self,
        problem: str,
        effort: Effort,
        start: Start | None,
        found: Vector | None,
        noisy: Vector,
        band: CostTarget | None = None,
        *,
        prices: Vector | None = None,
        half_space: HalfSpace | None = None,
        delta: float | None = None,
    ) -> Answer:
        number = len(self.asked(problem)) + 1
        call = Call(
            problem=problem, effort=effort, number=number, start=start, half_space=half_space, delta=delta
        )  # fmt: skip
        self.calls.append(call)
        d = noisy if found is None else found
        # The cheapest x whose cost is in the band: the optimum, or one that wastes just enough.
        cost = max(self.script.cost(d), -np.inf if band is None else band.lower)
        x = np.full(self.program.n_x, cost)
        answer = Answer(
            status=Status.INFEASIBLE if found is None else Status.CONVERGED,
            x=x,
            d=d,
            cost=cost,
            delta=float(np.sum((d - noisy) ** 2)),
            proxy=float(ca.Function("proxy", [self.program.d], [self.program.proxy])(d)),
            start=Start(x, d, self.name),
            solver=self.name,
            prices=prices,
            iterations=1,
        )
        return self.alter(call, answer)


def nominal_program(weights: Vector) -> ParametricProgram:
    """A program for a backend that does not solve it: the proxy is wᵀd, and x is the cost."""
    x, d = ca.MX.sym("x"), ca.MX.sym("d", len(weights))
    proxy = ca.dot(ca.DM(weights), d)
    return ParametricProgram(
        name="scripted",
        x=x,
        d=d,
        cost=x,
        g=x,
        g_lower=np.array([-np.inf]),
        g_upper=np.array([np.inf]),
        x_lower=np.array([-np.inf]),
        x_upper=np.array([np.inf]),
        x_start=np.zeros(1),
        proxy=proxy,
    )


def monotone_script(
    weights: Vector,
    level: Callable[[float], float],
    slope: Callable[[float], float],
    inverse: Callable[[float], float],
) -> Script:
    """O(d) = level(wᵀd) with a level that never falls; all joint problems follow in closed form.

    ``inverse(c)`` is the largest s with level(s) ≤ c: data have some x with a cost in a band as soon as O(d) is not above it.
    """
    steepness = float(np.linalg.norm(weights))
    normal = weights / steepness

    def nearest(noisy: Vector, band: CostTarget | None) -> Vector | None:
        if band is None:
            return noisy
        return _project(noisy, [_at_most(normal, inverse(band.upper) / steepness)])

    def cut(noisy: Vector, band: CostTarget, half_space: HalfSpace) -> Vector | None:
        return _project(noisy, [_at_most(normal, inverse(band.upper) / steepness), half_space])

    def push(noisy: Vector, band: CostTarget, delta: float) -> Vector | None:
        at, most = float(normal @ noisy), inverse(band.upper) / steepness
        if at - np.sqrt(delta) > most:
            return None
        return np.asarray(noisy + (min(at + float(np.sqrt(delta)), most) - at) * normal)

    return Script(
        cost=lambda d: level(float(weights @ d)),
        prices=lambda d: np.asarray(slope(float(weights @ d)) * weights),
        nearest=nearest,
        cut=cut,
        push=push,
    )


def _at_most(normal: Vector, offset: float) -> HalfSpace:
    return HalfSpace(-normal, -offset)


def _project(point: Vector, half_spaces: list[HalfSpace], tolerance: float = 1e-12) -> Vector | None:
    """The nearest point of up to two half-spaces: that of none of them, of each alone, or of the edge of both."""
    candidates = [[], *([one] for one in half_spaces), half_spaces]
    for active in candidates:
        moved = point
        if active:
            rows = np.array([one.normal for one in active])
            missing = np.array([one.offset for one in active]) - rows @ point
            weights = np.linalg.lstsq(rows @ rows.T, missing, rcond=None)[0]
            if np.any(weights < 0):
                continue
            moved = point + rows.T @ weights
        if all(one.normal @ moved >= one.offset - tolerance * max(1.0, abs(one.offset)) for one in half_spaces):
            return np.asarray(moved)
    return None
