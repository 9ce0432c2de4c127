"""The four problems by the structured solver, which takes a power network as arrays and accepts costs up to degree two."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gridveil.core.band import CostTarget
from gridveil.core.errors import InputError
from gridveil.programs import Status
from gridveil.sectors.model import Model
from gridveil.sectors.power.arrays import OpfArrays
from gridveil.solvers.backend import Answer, Capabilities, Effort, HalfSpace, Start, usual_effort
from gridveil.solvers.structured.problem import (
    Cut,
    DemandBox,
    DemandRows,
    Dispatch,
    Nearest,
    Push,
    Solution,
    SolveStatus,
    Task,
    WarmStart,
)
from gridveil.solvers.structured.settings import INTERIOR, NEARBY
from gridveil.solvers.structured.solver import StructuredSolver

Vector = NDArray[np.float64]

STRUCTURED = "structured"

_STATUS = {
    SolveStatus.CONVERGED: Status.CONVERGED,
    SolveStatus.INFEASIBLE: Status.INFEASIBLE,
    SolveStatus.ITERATION_LIMIT: Status.ITERATION_LIMIT,
}


class StructuredBackend:
    """Problems of one power network. A solve starts where the solver likes or at an earlier point, never at a mere guess."""

    name = STRUCTURED
    capabilities = Capabilities(accepts=lambda model: model.arrays is not None, restarts=False)

    def __init__(self, model: Model, *, patient: bool = True) -> None:
        """``patient``: whether a joint problem gets every remedy, or is left to another solver when a run leads nowhere.

        What the remedies find can lie farther away: these problems are not convex.
        """
        if model.arrays is None:
            raise InputError(f"the structured solver does not know {model.program.name}; choose --solver ipopt")
        self.program = model.program
        self._arrays, self._patient = model.arrays, patient

    @cached_property
    def _exact(self) -> StructuredSolver:
        """Of the network as it is, for dispatches."""
        return StructuredSolver(self._arrays(0.0))

    @cached_property
    def _roomy(self) -> StructuredSolver:
        """Of the network with some room at its limits, for joint problems.

        Demands that can only just be served have a dispatch with huge prices, which anybody's solver finds hard.
        """
        return StructuredSolver(self._arrays(INTERIOR))

    @cached_property
    def _box(self) -> DemandBox | None:
        program = self.program
        if np.all(np.isinf(program.d_lower)) and np.all(np.isinf(program.d_upper)):
            return None
        (p_low, q_low), (p_high, q_high) = _halves(program.d_lower), _halves(program.d_upper)
        return DemandBox(p_low=p_low, p_high=p_high, q_low=q_low, q_high=q_high)

    def prepare(self) -> None:
        """Find order and fill of the network, and compile what has never been compiled."""
        compile_once()
        self._exact.prepare()

    def portable(self, start: Start) -> bool:
        """Whether it is a start of this solver: multipliers of each task convert to those of the others."""
        return own_start(start) is not None

    def dispatch(self, d: Vector, *, start: Start | None = None, effort: Effort | None = None) -> Answer:
        """O(d), cold, from an earlier point, or warm."""
        effort = usual_effort(start, effort)
        if start is not None and not takes(effort):
            return self._refused(start, d, 0.0)
        solution = self.solve_dispatch(d, start, effort)
        return self._answer(solution, d, 0.0, np.concatenate([solution.site_price_p, solution.site_price_q]))

    def solve_dispatch(self, d: Vector, start: Start | None, effort: Effort) -> Solution:
        """O(d) with all of its multipliers; an effort that ``takes`` a start, if there is one."""
        p, q = _halves(d)
        task = Dispatch(demand_p=p, demand_q=q)
        if start is None:
            return self._exact.solve(task, thorough=effort is Effort.FULL)
        own, last = own_start(start), None if start.last is None else own_start(start.last)
        known = warmest(own, last, d) if effort is Effort.WARM else None
        if known is not None:
            return self._exact.solve_warm(task, known)
        return self._exact.solve_near(task, own or primal_start(self._exact, start.x, d))

    def nearest(
        self, noisy: Vector, band: CostTarget | None, *, start: Start | None = None, effort: Effort | None = None
    ) -> Answer:
        """HPR, with or without its band."""
        return self._solve_joint(self._nearest(noisy, band, None), noisy, start, usual_effort(start, effort))

    def cut(
        self, noisy: Vector, band: CostTarget, half_space: HalfSpace, *, start: Start, effort: Effort = Effort.NEAR
    ) -> Answer:
        """HPR within a half-space."""
        weight_p, weight_q = _halves(half_space.normal)
        row = Cut(weight_p=weight_p, weight_q=weight_q, least=half_space.offset)
        return self._solve_joint(self._nearest(noisy, band, row), noisy, start, effort)

    def push(
        self, noisy: Vector, band: CostTarget, delta: float, *, start: Start, effort: Effort = Effort.NEAR
    ) -> Answer:
        """O↑(δ)."""
        p, q = _halves(noisy)
        task = Push(
            target_p=p,
            target_q=q,
            cost_low=band.lower,
            cost_high=band.upper,
            delta=delta,
            box=self._box,
            kept=_kept(band),
        )
        return self._solve_joint(task, noisy, start, effort)

    def _nearest(self, noisy: Vector, band: CostTarget | None, cut: Cut | None) -> Nearest:
        p, q = _halves(noisy)
        low, high = (-np.inf, np.inf) if band is None else (band.lower, band.upper)
        return Nearest(target_p=p, target_q=q, cost_low=low, cost_high=high, cut=cut, box=self._box, kept=_kept(band))

    def _solve_joint(self, task: Task, noisy: Vector, start: Start | None, effort: Effort) -> Answer:
        if start is not None and not takes(effort):
            return self._refused(start, start.d, float(np.sum((start.d - noisy) ** 2)))
        known = None if start is None else own_start(start) or primal_start(self._roomy, start.x, start.d)
        solution = self._roomy.solve(task, warm=known, thorough=self._patient)
        d = np.concatenate([solution.demand_p, solution.demand_q])
        return self._answer(solution, d, float(np.sum((d - noisy) ** 2)), None)

    def _answer(self, solution: Solution, d: Vector, delta: float, prices: Vector | None) -> Answer:
        x = self.program_x(solution)
        return Answer(
            status=program_status(solution.status),
            x=x,
            d=d,
            cost=solution.cost,
            delta=delta,
            proxy=float(solution.demand_p.sum()),
            start=Start(x, d, STRUCTURED, solution.warm),
            solver=STRUCTURED,
            prices=prices,
            iterations=solution.iterations,
            seconds=solution.seconds,
            detail=solution.status.value,
        )

    def program_x(self, solution: Solution) -> Vector:
        """A solution as the program's x."""
        return _program_x(self._exact.arrays, solution)

    def _refused(self, start: Start, d: Vector, delta: float) -> Answer:
        """The answer to a caller who wants a guess to be kept to: without multipliers there is nothing to keep to it by."""
        return Answer(
            status=Status.FAILED,
            x=start.x,
            d=d,
            cost=float("nan"),
            delta=delta,
            proxy=float(_halves(d)[0].sum()),
            start=start,
            solver=STRUCTURED,
            detail="starts from no guess",
        )


def compile_once() -> None:
    """Compile what has never been compiled: that takes a minute."""
    from gridveil.programs.compilation import compiled_before
    from gridveil.solvers.structured.warm_up import warm_up

    if not compiled_before():
        warm_up()


def program_status(status: SolveStatus) -> Status:
    """How a solve ended, in the words that all backends share."""
    return _STATUS.get(status, Status.FAILED)


def takes(effort: Effort) -> bool:
    """Whether to begin from a start: it is near enough, or the caller does not mind if it leads nowhere."""
    return effort in {Effort.NEAR, Effort.WARM, Effort.AGAIN, Effort.BRIEF}


def own_start(start: Start) -> WarmStart | None:
    """What this solver knows of a start, if it made it."""
    if start.maker != STRUCTURED:
        return None
    own: WarmStart = start.own
    return own


def warmest(own: WarmStart | None, last: WarmStart | None, d: Vector) -> WarmStart | None:
    """What a dispatch starts from: the joint point's own multipliers, as a rule.

    Where the band is slack these say nothing about prices, and those of the last dispatch serve instead; where the demands
    have hardly moved, the last dispatch is the better start altogether.
    """
    if own is None or last is None:
        return own or last
    if np.max(np.abs(d - last.target), initial=0.0) < NEARBY:
        return last
    return last.at(own) if last.priced and not own.priced else own


def _program_x(arrays: OpfArrays, solution: Solution) -> Vector:
    """A solution as the program's x: voltages, generation, DC lines, compensators, and levels of piecewise-linear costs."""
    piecewise, outputs = np.unique(arrays.line_output), np.concatenate([solution.pg, solution.qg, solution.dc])
    level = np.full(len(piecewise), -np.inf)
    lines = arrays.line_slope * outputs[arrays.line_output] + arrays.line_intercept
    np.maximum.at(level, np.searchsorted(piecewise, arrays.line_output), lines)
    return np.concatenate([solution.va, solution.vm, outputs, solution.susceptance, level])


def primal_start(solver: StructuredSolver, x: Vector, d: Vector) -> WarmStart:
    """A program's x, laid out as in ``_program_x``, at d as a start without multipliers."""
    arrays = solver.arrays
    n_outputs = 2 * len(arrays.gen_bus) + len(arrays.dc_from)
    sizes = [arrays.n_bus, arrays.n_bus, n_outputs, len(arrays.svc_bus)]
    va, vm, outputs, susceptance, _ = np.split(x, np.cumsum(sizes))
    demand_p, demand_q = _halves(d)
    return solver.start_from(
        va=va, vm=vm, outputs=outputs, susceptance=susceptance, demand_p=demand_p, demand_q=demand_q
    )


def _kept(band: CostTarget | None) -> DemandRows | None:
    """The totals that the band asks to keep."""
    if band is None or band.rows is None:
        return None
    weight_p, weight_q = np.hsplit(band.rows.matrix, 2)
    return DemandRows(weight_p=weight_p, weight_q=weight_q, low=band.rows.lower, high=band.rows.upper)


def _halves(d: Vector) -> tuple[Vector, Vector]:
    """Active and reactive demands."""
    return d[: len(d) // 2], d[len(d) // 2 :]
