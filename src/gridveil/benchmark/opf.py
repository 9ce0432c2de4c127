"""O(d) by one contestant on one case: timed in a separate process and compared with the others."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gridveil.benchmark.contestant import BenchProblem, ContestantAnswer
from gridveil.benchmark.process import measure_apart
from gridveil.benchmark.public_case import BenchCase, at_file_demand
from gridveil.benchmark.registry import ALL
from gridveil.benchmark.residuals import dispatch_cost, violations

COST_TOLERANCE = 1e-4  # relative: how far a cost may be from the best one
RESIDUAL_TOLERANCE = 1e-4  # per unit or radians

CONVERGED = "converged"
ELSEWHERE = "converged elsewhere"
INACCURATE = "inaccurate"
NOT_INSTALLED = "not installed"

Update = Callable[..., None]


@dataclass(frozen=True, kw_only=True)
class OpfRow:
    """One contestant on one case: cost in $/h, residual per unit, times of the build and of the best solve."""

    case: str
    buses: int
    solver: str
    status: str
    cost: float | None = None
    build_seconds: float | None = None
    solve_seconds: float | None = None
    iterations: int | None = None
    residual: float | None = None
    baseline_gap: float | None = None
    peak_mb: float | None = None
    repeats: int = 0
    note: str = ""


def opf_row(case: BenchCase, solver: str, repeats: int, limit: float) -> OpfRow:
    """Measure in a separate process; any outcome becomes a row."""
    row = OpfRow(case=case.name, buses=case.buses, solver=solver, status=NOT_INSTALLED)
    missing = ALL[solver].missing
    if missing:
        return replace(row, note=f"needs {', '.join(missing)}")
    request = {"task": "opf", "case": case.source, "solver": solver, "repeats": repeats, "limit": limit}
    report = measure_apart(request, limit)
    report.pop("stage", None)
    return replace(row, **report)


def measure_opf(source: str, solver: str, repeats: int, limit: float, update: Update) -> None:
    """In the worker: build once, solve several times cold, keep the shortest time, and check the answer."""
    begin = time.perf_counter()

    def measure(problem: BenchProblem) -> None:
        update(stage="import")
        contestant = ALL[solver].load()(problem)
        update(stage="build")
        clock = time.perf_counter()
        contestant.build()
        update(stage="solve 1", build_seconds=time.perf_counter() - clock)
        best = math.inf
        for k in range(1, repeats + 1):
            clock = time.perf_counter()
            contestant.solve()
            last = time.perf_counter() - clock
            best = min(best, last)
            if k == 1:
                answer = contestant.answer()
                found = check_answer(problem, answer)
            update(stage=f"solve {k + 1}", solve_seconds=best, repeats=k, **found)
            if not answer.converged or time.perf_counter() - begin + last > limit:
                break

    at_file_demand(source, measure)


def check_answer(problem: BenchProblem, answer: ContestantAnswer) -> dict[str, Any]:
    """Status, cost, iterations and residual of an answer, as far as they are numbers."""
    found: dict[str, Any] = {"iterations": answer.iterations}
    if not answer.converged or answer.point is None:
        return found | {"status": "not converged", "note": answer.detail}
    measured = violations(problem.network, problem.demand, answer.point)
    cost = answer.cost if math.isfinite(answer.cost) else None
    found |= {"cost": cost, "residual": min(measured.largest, sys.float_info.max)}
    if measured.largest > RESIDUAL_TOLERANCE:
        return found | {"status": INACCURATE, "note": f"{measured.worst_family} off by {measured.largest:.1e}"}
    spent = dispatch_cost(problem.network, answer.point)
    if not math.isclose(spent, answer.cost, rel_tol=COST_TOLERANCE):
        return found | {"status": INACCURATE, "note": f"its dispatch costs {spent:.6g}, not {answer.cost:.6g}"}
    return found | {"status": CONVERGED}


def judged(rows: Sequence[OpfRow], published: float | None) -> list[OpfRow]:
    """The rows of one case, each cost compared with the best: PGLib's, or the lowest of the accurate ones."""
    costs = [row.cost for row in rows if row.status == CONVERGED and row.cost is not None]
    reference = published if published is not None else min(costs, default=math.nan)
    best = min([*costs, reference])
    return [_beside(row, reference, best) for row in rows]


def _beside(row: OpfRow, reference: float, best: float) -> OpfRow:
    if row.cost is None or not math.isfinite(reference):
        return row
    compared = replace(row, baseline_gap=(row.cost - reference) / abs(reference) if reference else None)
    if row.status == CONVERGED and not math.isclose(row.cost, best, rel_tol=COST_TOLERANCE):
        return replace(compared, status=ELSEWHERE, note=f"the best cost known is {best:.6g}")
    return compared
