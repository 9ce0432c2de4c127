"""What a batch leaves unsolved goes to the structured solver, one scenario at a time."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gridveil.solvers.batch.check import check_batch
from gridveil.solvers.batch.contract import BatchAnswer, BatchStatus, Points, Scenarios
from gridveil.solvers.batch.lowering import gen_on
from gridveil.solvers.batch.network import BatchNetwork, opf_arrays

if TYPE_CHECKING:
    from gridveil.sectors.power.arrays import OpfArrays
    from gridveil.solvers.structured.problem import Solution
    from gridveil.solvers.structured.solver import StructuredSolver

_OF_BRANCH = ("branch_from", "branch_to", "y_ff", "y_ft", "y_tf", "y_tt", "rate", "angle_min", "angle_max")
_OF_GEN = ("gen_bus", "p_min", "p_max", "q_min", "q_max", "cost_0", "cost_1", "cost_2")
_CHANGEABLE = ("p_min", "p_max", "q_min", "q_max", "cost_1", "cost_2")


def most_promising(answer: BatchAnswer, most: int) -> NDArray[np.int64]:
    """So many scenarios without a solution, in their order: those whose soft balances buy power only after all others.

    Of 424 that a batch left of case300 with loads within ±10 %, that solver solves 9, none of them among the 239 that buy power.
    """
    left = np.flatnonzero(~answer.converged & ~answer.by_cpu)
    by_hope = np.argsort(answer.status[left] == BatchStatus.UNBALANCED, kind="stable")
    return np.sort(left[by_hope[:most]])


@dataclass(frozen=True, eq=False, kw_only=True)
class Leftovers:
    """Solves what is left by the structured solver.

    That solver confirms an infeasible scenario by trying everything, a hundred times as long as a batch takes to doubt it.
    """

    network: BatchNetwork
    most: int
    """Scenarios that are tried: see ``most_promising``. Others keep the status they have."""
    thorough: bool = True

    def solve(self, scenarios: Scenarios, answer: BatchAnswer) -> BatchAnswer:
        """The answer with what the structured solver makes of the scenarios without a solution."""
        left = most_promising(answer, self.most)
        if not len(left):
            return answer
        cost, status, residuals = answer.cost.copy(), answer.status.copy(), answer.residuals.copy()
        iterations, by_cpu = answer.iterations.copy(), answer.by_cpu.copy()
        points = None if answer.points is None else _copied(answer.points)
        for s in left.tolist():
            one = scenarios.rows(slice(s, s + 1))
            solution, branches, generators = self._solution(one)
            by_cpu[s] = True
            iterations[s] += solution.iterations
            if not solution.converged:
                if solution.status.name == "INFEASIBLE":
                    status[s] = BatchStatus.INFEASIBLE
                continue
            on = gen_on(self.network, one)
            found = _point(solution, branches, generators)
            checked = check_batch(self.network.grid, on, one, np.array([solution.cost]), found)
            cost[s], residuals[s], status[s] = solution.cost, checked[0], BatchStatus.CONVERGED
            for f in fields(found) if points is not None else ():
                getattr(points, f.name)[s] = getattr(found, f.name)[0]
        return replace(
            answer,
            cost=cost,
            status=status,
            residuals=residuals,
            iterations=iterations,
            by_cpu=by_cpu,
            points=points,
        )

    def _solution(self, one: Scenarios) -> tuple[Solution, NDArray[np.bool_], NDArray[np.bool_]]:
        """The structured solver's answer, and which branches and generators it knew of."""
        from gridveil.solvers.structured import Dispatch, StructuredSolver

        arrays, branches, generators = scenario_arrays(self.network, one)
        changed = not (branches.all() and generators.all()) or any(
            getattr(one, name) is not None for name in _CHANGEABLE
        )
        solver = StructuredSolver(arrays) if changed else self._unchanged
        task = Dispatch(demand_p=one.demand_p[0], demand_q=one.demand_q[0])
        return solver.solve(task, thorough=self.thorough), branches, generators

    @cached_property
    def _unchanged(self) -> StructuredSolver:
        """The solver of the network as it is, which orders its buses once for all scenarios."""
        from gridveil.solvers.structured import StructuredSolver

        grid = self.network.grid
        return StructuredSolver(opf_arrays({f.name: getattr(grid, f.name) for f in fields(grid)}))


def scenario_arrays(network: BatchNetwork, one: Scenarios) -> tuple[OpfArrays, NDArray[np.bool_], NDArray[np.bool_]]:
    """The network of one scenario, without what is switched off, and which branches and generators it still has."""
    grid = network.grid
    plain: dict[str, Any] = {f.name: getattr(grid, f.name) for f in fields(grid)}
    plain |= {name: given[0] for name in _CHANGEABLE if (given := getattr(one, name)) is not None}
    branches, generators = np.ones(len(grid.branch_from), bool), gen_on(network, one)[0]
    if one.branch_out is not None:
        branches[one.branch_out[0][one.branch_out[0] >= 0]] = False
    lines = generators[grid.line_gen]
    number = np.cumsum(generators) - 1
    plain |= {name: plain[name][branches] for name in _OF_BRANCH} | {name: plain[name][generators] for name in _OF_GEN}
    plain |= {"line_gen": number[grid.line_gen[lines]]}
    plain |= {name: plain[name][lines] for name in ("line_slope", "line_intercept")}
    return opf_arrays(plain), branches, generators


def _copied(points: Points) -> Points:
    return replace(points, **{f.name: getattr(points, f.name).copy() for f in fields(points)})


def _point(solution: Solution, branches: NDArray[np.bool_], generators: NDArray[np.bool_]) -> Points:
    """One row of points; what is switched off has zeros."""
    multipliers = solution.multipliers

    def spread(values: NDArray[np.float64], here: NDArray[np.bool_]) -> NDArray[np.float64]:
        row = np.zeros((1, len(here)))
        row[0, here] = values
        return row

    return Points(
        va=solution.va[None],
        vm=solution.vm[None],
        pg=spread(solution.pg, generators),
        qg=spread(solution.qg, generators),
        price_p=multipliers.price_p[None],
        price_q=multipliers.price_q[None],
        flow_from=spread(multipliers.flow_from, branches),
        flow_to=spread(multipliers.flow_to, branches),
        angle_above=spread(multipliers.angle_above, branches),
        angle_below=spread(multipliers.angle_below, branches),
    )
