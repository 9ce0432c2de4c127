"""Our structured solver alone: whatever it does not solve counts as not solved."""

from __future__ import annotations

import numpy as np

from gridveil.benchmark.contestant import BenchProblem, Contestant, ContestantAnswer, Point
from gridveil.sectors.power.arrays import structured_arrays
from gridveil.solvers.structured import Dispatch, Solution, StructuredSolver
from gridveil.solvers.structured.warm_up import warm_up


class Structured(Contestant):
    """StructuredSolver on O(d). Loading its compiled code from disk counts as an import."""

    def __init__(self, problem: BenchProblem) -> None:
        warm_up()
        self._network = problem.network
        demand_p, demand_q = np.split(problem.served_demand, 2)
        self._task = Dispatch(demand_p=demand_p, demand_q=demand_q)
        self._solver: StructuredSolver
        self._solution: Solution

    def build(self) -> None:
        """Find order and fill."""
        self._solver = StructuredSolver(structured_arrays(self._network))
        self._solver.prepare()

    def solve(self) -> None:
        """Solve cold, with the independent check that every solve ends with."""
        self._solution = self._solver.solve(self._task)

    def answer(self) -> ContestantAnswer:
        """Read the solution."""
        found = self._solution
        return ContestantAnswer(
            converged=found.converged,
            detail=found.status.value,
            cost=found.cost,
            iterations=found.iterations,
            point=Point(va=found.va, vm=found.vm, pg=found.pg, qg=found.qg, dc=found.dc, susceptance=found.susceptance),
        )
