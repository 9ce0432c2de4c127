"""HPR and O↑(δ): the two problems of the paper in which x and d move together, derived from one ParametricProgram."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gridveil.core.band import CostTarget, DataRows
from gridveil.core.lazy import lazy_module
from gridveil.programs import Bounds, NlpSolution, NlpSolver, ParametricProgram, Trust
from gridveil.programs.interior import narrowed
from gridveil.solvers.backend import HalfSpace

if TYPE_CHECKING:
    import casadi as ca
else:
    ca = lazy_module("casadi")

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

# The data that HPR and O↑ find often lie at the very edge of what is feasible. They leave this slack at the follower's limits
# (relative where those exceed 1), or an interior-point solver would find no interior there, and crawl or call it infeasible.
INTERIOR = 1e-5


@dataclass(frozen=True, eq=False)
class JointPoint:
    """Where a joint problem ended: x, d, the distance δ = ‖d − d̃‖², the proxy m(d) and f(x)."""

    x: Vector
    d: Vector
    delta: float
    proxy: float
    cost: float
    point: NlpSolution


class JointProblem:
    """Shared by HPR and O↑: variables (x, d), the rows g(x, d) of (HPR2, PP2) and the cost band of (HPR3, PP3).

    ``kept``: the matrix of the totals that bands keep besides; their bounds are those of each band's own rows.
    If ``smoothed``, the band is on the program's smoothed cost, which it then must have; costs of points are exact even so.
    """

    def __init__(
        self, program: ParametricProgram, *, smoothed: bool = False, verbose: bool = False, kept: Matrix | None = None
    ) -> None:
        self.program = program
        self._verbose = verbose
        self._noisy, target, scale = ca.MX.sym("d_noisy", program.n_d), ca.MX.sym("target"), ca.MX.sym("scale")
        self._point = ca.MX.sym("point", program.n_x + program.n_d)
        x, self._d = ca.vertsplit(self._point, [0, program.n_x, program.n_x + program.n_d])
        smooth = program.smoothed_cost if smoothed else None
        expressions = [program.cost, program.cost if smooth is None else smooth, program.g, program.proxy]
        cost, banded, self._g, self._proxy = ca.substitute(expressions, [program.x, program.d], [x, self._d])
        self._distance = ca.sumsqr(self._d - self._noisy)
        self._rows = ca.vertcat(self._g, (banded - target) / scale)
        if kept is not None:
            self._rows = ca.vertcat(self._rows, ca.mtimes(ca.sparsify(ca.DM(kept)), self._d))
        self._parameters = ca.vertcat(self._noisy, target, scale)
        self._measure = ca.Function("measure", [self._point, self._noisy], [self._distance, self._proxy, cost])

    def _solver(self, name: str, *, parameters: ca.MX, objective: ca.MX, rows: ca.MX) -> NlpSolver:
        return NlpSolver(
            name,
            x=self._point,
            p=parameters,
            f=objective,
            g=rows,
            adaptive=self.program.adaptive_barrier,
            verbose=self._verbose,
        )

    def _bounds(self, band: CostTarget, extra_lower: list[float], extra_upper: list[float]) -> Bounds:
        """Bounds of the shared rows, then of the problem's own."""
        program, half_width = self.program, band.beta / _scale(band)
        x_lower, x_upper = narrowed(program.x_lower, program.x_upper, INTERIOR)
        g_lower, g_upper = narrowed(program.g_lower, program.g_upper, INTERIOR)
        kept_lower, kept_upper = ([], []) if band.rows is None else (band.rows.lower, band.rows.upper)
        return Bounds(
            x_lower=np.concatenate([x_lower, program.d_lower]),
            x_upper=np.concatenate([x_upper, program.d_upper]),
            g_lower=np.concatenate([g_lower, [-half_width], kept_lower, extra_lower]),
            g_upper=np.concatenate([g_upper, [half_width], kept_upper, extra_upper]),
        )

    def _parameter_values(self, noisy: Vector, band: CostTarget) -> Vector:
        return np.concatenate([noisy, [band.value, _scale(band)]])

    def _joint(self, point: NlpSolution, noisy: Vector) -> JointPoint:
        distance, proxy, cost = (float(value) for value in self._measure(point.x, noisy))
        n_x = self.program.n_x
        return JointPoint(x=point.x[:n_x], d=point.x[n_x:], delta=distance, proxy=proxy, cost=cost, point=point)


class HighPointProgram(JointProblem):
    """(HPR): the nearest d that has *some* feasible x with a cost in the band, optimal or not."""

    def __init__(
        self, program: ParametricProgram, *, smoothed: bool = False, verbose: bool = False, kept: Matrix | None = None
    ) -> None:
        super().__init__(program, smoothed=smoothed, verbose=verbose, kept=kept)
        self._nlp = self._solver("highpoint", parameters=self._parameters, objective=self._distance, rows=self._rows)

    def solve(self, noisy: Vector, band: CostTarget, *, x: Vector, d: Vector, trust: Trust) -> JointPoint:
        """Solve from (x, d), which may depend on public data, d̃ and the band alone."""
        parameters, bounds = self._parameter_values(noisy, band), self._bounds(band, [], [])
        point = self._nlp.solve(parameters, bounds, np.concatenate([x, d]), None, trust)
        return self._joint(point, noisy)


class PushProgram(JointProblem):
    """O↑(δ): the d of largest proxy m(d) within δ of d̃ (PP4) that has some feasible x with a cost in the band."""

    def __init__(
        self, program: ParametricProgram, *, smoothed: bool = False, verbose: bool = False, kept: Matrix | None = None
    ) -> None:
        super().__init__(program, smoothed=smoothed, verbose=verbose, kept=kept)
        self._nlp = self._solver(
            "push", parameters=self._parameters, objective=-self._proxy, rows=ca.vertcat(self._rows, self._distance)
        )

    def solve(
        self,
        noisy: Vector,
        band: CostTarget,
        delta: float,
        *,
        x: Vector,
        d: Vector,
        warm: NlpSolution | None,
        trust: Trust,
    ) -> JointPoint:
        """Solve from (x, d), or warm from the end of an earlier problem with as many rows."""
        bounds = self._bounds(band, [-np.inf], [delta])
        point = self._nlp.solve(self._parameter_values(noisy, band), bounds, np.concatenate([x, d]), warm, trust)
        return self._joint(point, noisy)


class PriceCutProgram(JointProblem):
    """HPR with one more row, aᵀd ≥ b: the linearised bilevel constraint O(d) ≥ f̃ − β at a point where prices are known."""

    def __init__(
        self, program: ParametricProgram, *, smoothed: bool = False, verbose: bool = False, kept: Matrix | None = None
    ) -> None:
        super().__init__(program, smoothed=smoothed, verbose=verbose, kept=kept)
        normal = ca.MX.sym("normal", program.n_d)
        self._nlp = self._solver(
            "price_cut",
            parameters=ca.vertcat(self._parameters, normal),
            objective=self._distance,
            rows=ca.vertcat(self._rows, ca.dot(normal, self._d)),
        )

    def solve(
        self,
        noisy: Vector,
        band: CostTarget,
        cut: HalfSpace,
        *,
        x: Vector,
        d: Vector,
        warm: NlpSolution | None,
        trust: Trust,
    ) -> JointPoint:
        """Solve from (x, d), or warm from the end of an earlier problem with as many rows."""
        bounds = self._bounds(band, [cut.offset], [np.inf])
        parameters = np.concatenate([self._parameter_values(noisy, band), cut.normal])
        return self._joint(self._nlp.solve(parameters, bounds, np.concatenate([x, d]), warm, trust), noisy)


class BandProblems:
    """The joint problems with a cost band, on the cost itself or on its smoothed form; each compiled when first needed."""

    def __init__(
        self, program: ParametricProgram, *, smoothed: bool, verbose: bool, kept: Matrix | None = None
    ) -> None:
        self._make: dict[str, Any] = {"smoothed": smoothed, "verbose": verbose, "kept": kept}
        self._program = program
        self._kept = kept

    def keep(self, rows: DataRows | None) -> bool:
        """Whether these problems have the rows of a band: the very matrix, or none."""
        return self._kept is (None if rows is None else rows.matrix)

    @cached_property
    def highpoint(self) -> HighPointProgram:
        """HPR."""
        return HighPointProgram(self._program, **self._make)

    @cached_property
    def push(self) -> PushProgram:
        """O↑(δ)."""
        return PushProgram(self._program, **self._make)

    @cached_property
    def price_cut(self) -> PriceCutProgram:
        """HPR within a half-space."""
        return PriceCutProgram(self._program, **self._make)


class ElasticProgram(JointProblem):
    """HPR without its cost band: the d nearest to given data that has any feasible x, which is a good place to start from."""

    def __init__(self, program: ParametricProgram, *, verbose: bool = False) -> None:
        super().__init__(program, verbose=verbose)
        self._nlp = self._solver("elastic", parameters=self._noisy, objective=self._distance, rows=self._g)

    def solve(self, data: Vector, *, x: Vector, d: Vector, trust: Trust) -> JointPoint:
        """Solve from (x, d)."""
        program = self.program
        x_lower, x_upper = narrowed(program.x_lower, program.x_upper, INTERIOR)
        g_lower, g_upper = narrowed(program.g_lower, program.g_upper, INTERIOR)
        bounds = Bounds(
            x_lower=np.concatenate([x_lower, np.full(program.n_d, -np.inf)]),
            x_upper=np.concatenate([x_upper, np.full(program.n_d, np.inf)]),
            g_lower=g_lower,
            g_upper=g_upper,
        )
        return self._joint(self._nlp.solve(data, bounds, np.concatenate([x, d]), None, trust), data)


def _scale(band: CostTarget) -> float:
    """What the cost is measured in inside the solver, so that its row is of order one."""
    return max(abs(band.value), band.beta)
