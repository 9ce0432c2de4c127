"""The follower O(d): the program solved for given data, with the prices ∂O/∂d that come with every solve."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gridveil.core.lazy import lazy_module
from gridveil.programs.nlp import Bounds, NlpSolution, NlpSolver, Status, Trust
from gridveil.programs.program import ParametricProgram

if TYPE_CHECKING:
    import casadi as ca
else:
    ca = lazy_module("casadi")

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FollowerSolution:
    """O(d) at one d: x and cost in the program's units, prices ∂O/∂d, and the whole point for a warm start."""

    status: Status
    cost: float
    x: Vector
    prices: Vector
    iterations: int
    seconds: float
    detail: str
    point: NlpSolution

    @property
    def converged(self) -> bool:
        """Whether cost and prices may be used."""
        return self.status is Status.CONVERGED


class Follower:
    """O(d) of one program: compiled once, when it is first needed, and solved for many d."""

    def __init__(self, program: ParametricProgram, *, verbose: bool = False) -> None:
        self.program = program
        self._verbose = verbose
        self._bounds = Bounds(
            x_lower=program.x_lower, x_upper=program.x_upper, g_lower=program.g_lower, g_upper=program.g_upper
        )

    @cached_property
    def build_seconds(self) -> float:
        """Prepare everything that solves share; how long that took."""
        clock = time.perf_counter()
        _ = self._solver, self._prices
        return time.perf_counter() - clock

    @cached_property
    def _solver(self) -> NlpSolver:
        program = self.program
        solver = NlpSolver(
            "follower",
            x=program.x,
            p=program.d,
            f=program.cost,
            g=program.g,
            adaptive=program.adaptive_barrier,
            verbose=self._verbose,
        )
        solver.compile()
        return solver

    @cached_property
    def _prices(self) -> ca.Function:
        return _price_function(self.program)

    def solve(
        self,
        d: Vector,
        *,
        start: Vector | None = None,
        warm: FollowerSolution | None = None,
        trust: Trust = Trust.ROUGH,
    ) -> FollowerSolution:
        """Solve for d: from the public start, from another x, or warm from an earlier solution at a nearby d."""
        x0 = self.program.x_start if start is None else start
        point = self._solver.solve(d, self._bounds, x0, None if warm is None else warm.point, trust)
        if point.converged and float(np.abs(d).sum()) < self.program.fine_below:
            point = self._solver.refine(d, self._bounds, point)
        return FollowerSolution(
            status=point.status,
            cost=point.objective,
            x=point.x,
            prices=np.asarray(self._prices(point.x, d, point.row_multipliers), dtype=float).ravel(),
            iterations=point.iterations,
            seconds=point.seconds,
            detail=point.detail,
            point=point,
        )


def _price_function(program: ParametricProgram) -> ca.Function:
    """Envelope theorem: ∂O/∂d is the partial derivative of the Lagrangian f + λᵀg with respect to d."""
    multipliers = ca.MX.sym("lambda", program.n_g)
    prices = ca.gradient(program.cost, program.d) + ca.jtimes(program.g, program.d, multipliers, True)
    return ca.Function("prices", [program.x, program.d, multipliers], [ca.densify(prices)])
