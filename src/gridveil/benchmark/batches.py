"""Throughput of batches of O(d) beside the structured solver on the same scenarios, in one run, every answer checked."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gridveil.benchmark.public_case import file_problem
from gridveil.core.choices import BatchEngine
from gridveil.core.errors import InputError
from gridveil.sectors.power.arrays import structured_arrays
from gridveil.solvers.batch.backends import engine_for
from gridveil.solvers.batch.contract import BatchAnswer, BatchStatus, Scenarios
from gridveil.solvers.batch.draws import uniform_rows
from gridveil.solvers.batch.network import lower_network
from gridveil.solvers.batch.solver import BatchSolver
from gridveil.solvers.structured import Dispatch, StructuredSolver

SEED, SPREAD = 7, 0.1
WARM_UP = 32  # scenarios that load the kernels before the clock runs
HEADINGS = ("case", "solved", "per s", "kernels", "points", "core", "memory")
LEGEND = (
    "solved scenarios per second: with transfers of loads and costs (per s), of the kernels alone, with all points fetched, and by "
    "the structured solver on one core"
)


@dataclass(frozen=True, kw_only=True)
class BatchRow:
    """One case: rates are of solved scenarios, with the transfer of demands and costs unless the name says otherwise."""

    case: str
    engine: str
    scenarios: int
    solved: int
    failures: dict[str, int]
    """Scenarios that were not solved, by status."""
    per_second: float
    per_second_kernels: float
    per_second_points: float
    """With all primal and dual solutions fetched too."""
    check_seconds: float
    """Of the check of every scenario, which no rate includes."""
    worst_residual: float
    memory_bytes: int | None
    """That slots on the device took at most, in whichever pass; None where the processor solved all, in a slot for each core."""
    beside: int
    """Scenarios, the first ones, that the structured solver has solved beside it, on one core."""
    beside_per_second: float
    beside_unsolved: int
    """Of those, solved there and not in the batch."""
    worst_cost_gap: float
    """Largest relative difference of the two costs."""

    def cells(self) -> tuple[str, ...]:
        """As the terminal shows it."""
        memory = "-" if self.memory_bytes is None else f"{self.memory_bytes / 1e9:.2f} GB"
        rates = (self.per_second, self.per_second_kernels, self.per_second_points, self.beside_per_second)
        return (self.case, f"{self.solved}/{self.scenarios}", *(f"{rate:.0f}" for rate in rates), memory)

    @property
    def failed(self) -> str:
        """The scenarios that were not solved, in words; empty if all were."""
        counts = ", ".join(f"{count} {name.lower()}" for name, count in self.failures.items())
        return f"{self.case}: {self.scenarios - self.solved} not solved: {counts}" if counts else ""

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def shaken(demand_p: Any, demand_q: Any, count: int) -> Scenarios:
    """Every load independently up to 10 % away from its demand, in P and Q; the first scenario as in the file."""
    n = len(demand_p)
    factor = 1.0 + SPREAD * (2.0 * uniform_rows(SEED, 0, 0, count, 2 * n) - 1.0)
    factor[0] = 1.0
    return Scenarios(demand_p=factor[:, :n] * demand_p, demand_q=factor[:, n:] * demand_q)


def bench_batches(source: str, choice: BatchEngine, scenarios: int, beside: int) -> BatchRow:
    """Measure one public case: a warm-up, the batch with costs alone, the batch with points, the structured solver."""
    if choice is BatchEngine.STRUCTURED:
        raise InputError("batches are compared with the structured solver; choose native, gpu or auto")
    engine = engine_for(choice)
    if engine is None:
        raise InputError("there is neither a GPU nor a compiler for batches; install CuPy or g++")
    problem = file_problem(source)
    demand = problem.demand[problem.network.served]
    arrays = structured_arrays(problem.network)
    given = shaken(demand.real, demand.imag, scenarios)
    solver = BatchSolver(lower_network(arrays), engine, usual=(demand.real, demand.imag))
    solver.dispatch(given.rows(slice(0, WARM_UP)))
    answer = solver.dispatch(given, keep=False)
    costs = solver.timing
    solver.dispatch(given)
    points = solver.timing
    solved = int(answer.converged.sum())
    return BatchRow(
        case=Path(source).stem,
        engine=engine.name,
        scenarios=scenarios,
        solved=solved,
        failures=_failures(answer),
        per_second=solved / (costs.kernels + costs.transfers),
        per_second_kernels=solved / costs.kernels,
        per_second_points=solved / (points.kernels + points.transfers),
        check_seconds=costs.check,
        worst_residual=float(answer.residuals[answer.converged].max(initial=0.0)),
        memory_bytes=getattr(engine, "most_memory", None) or None,
        **_beside(StructuredSolver(arrays), given.rows(slice(0, beside)), answer),
    )


def _failures(answer: BatchAnswer) -> dict[str, int]:
    codes, counts = np.unique(answer.status[~answer.converged], return_counts=True)
    return {BatchStatus(code).name: int(count) for code, count in zip(codes, counts, strict=True)}


def _beside(solver: StructuredSolver, given: Scenarios, answer: BatchAnswer) -> dict[str, Any]:
    tasks = [Dispatch(demand_p=p, demand_q=q) for p, q in zip(given.demand_p, given.demand_q, strict=True)]
    for task in tasks[:1]:
        solver.solve(task)
    begin = time.perf_counter()
    found = [solver.solve(task) for task in tasks]
    seconds = time.perf_counter() - begin
    known = np.array([one.converged for one in found], bool)
    cost = np.array([one.cost for one in found])
    both = known & answer.converged[: len(found)]
    gap = np.abs(answer.cost[: len(found)][both] / cost[both] - 1.0)
    return {
        "beside": len(found),
        "beside_per_second": float(known.sum() / seconds) if found else 0.0,
        "beside_unsolved": int((known & ~answer.converged[: len(found)]).sum()),
        "worst_cost_gap": float(gap.max(initial=0.0)),
    }
