"""A safe lower bound on the cost from a solve on the bus graph, with the conic solver behind it."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gridveil.programs.conic import Affine, BoundStatus, SocBound
from gridveil.sectors.power.soc import CostModel, cost_model
from gridveil.sectors.power.soc_graph.lowering import LoweredGrid
from gridveil.sectors.power.soc_graph.multipliers import program_multipliers
from gridveil.sectors.power.soc_graph.solve import GraphSolution, solve_on_graph

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]

WIDEST_MARGIN = 1e-5
"""Of the value: what a bound may lose to make it safe. Beyond it the conic solver may know better, and is asked."""
NEAR_GAP, NEAR_RESIDUAL = 1e-5, 1e-4
"""How far from an optimum the solve may end for its bound to be the last word. Where a branch is at its limit, that of α says
nearly the same, and rounding ends the iteration there with prices that are right long before all balances are."""


def cost_bound_on_graph(lowered: LoweredGrid, demand: Complexes) -> SocBound:
    """Bound the AC-OPF optimum from below, in $/h, for P + jQ per unit of each site of grid.load_bus.

    The multipliers are those of the solve on the graph; what they prove, a value or that there is no feasible point, is worked
    out by `ConicProgram`, so it holds however the solve ended. If they prove too little, the conic solver bounds as well and the
    larger value is kept, both being safe.
    """
    clock = time.perf_counter()
    model = cost_model(lowered.grid, demand)
    solution = solve_on_graph(lowered, demand)
    proof = _Proof.of(lowered, solution, model)
    value = proof.value
    margin = solution.value - value
    if solution.within(NEAR_GAP, NEAR_RESIDUAL) and margin <= WIDEST_MARGIN * max(abs(solution.value), model.scale):
        status = BoundStatus.SOLVED
    elif proof.excludes():
        status, value, margin = BoundStatus.INFEASIBLE, math.inf, math.nan
    else:
        return _with_conic_solver(model, value, solution.iterations, clock)
    return SocBound(
        value=value,
        status=status,
        seconds=time.perf_counter() - clock,
        iterations=solution.iterations,
        margin=margin,
    )


@dataclass(frozen=True, eq=False)
class _Proof:
    """Stacked rows of a model, and multipliers in their dual cone."""

    model: CostModel
    rows: Affine
    z: Floats

    @staticmethod
    def of(lowered: LoweredGrid, solution: GraphSolution, model: CostModel) -> _Proof:
        rows, layout = model.program.stacked()
        if not (np.all(np.isfinite(solution.prices)) and np.all(np.isfinite(solution.multipliers))):
            return _Proof(model, rows, np.full(len(rows.constant), np.nan))
        return _Proof(model, rows, program_multipliers(lowered, solution, model, rows, layout))

    @cached_property
    def value(self) -> float:
        """A safe lower bound; −inf where the multipliers prove none."""
        return self.model.program.safe_value(self.rows, self.z)

    def excludes(self) -> bool:
        """Whether there is no feasible point."""
        return self.model.program.excludes(self.rows, self.z)


def _with_conic_solver(model: CostModel, value: float, iterations: int, clock: float) -> SocBound:
    conic = model.program.lower_bound(scale=model.scale)
    if value > (-math.inf if conic.value is None else conic.value):
        conic = replace(conic, value=value, status=BoundStatus.INACCURATE, margin=math.nan)
    return replace(conic, seconds=time.perf_counter() - clock, iterations=conic.iterations + iterations)
