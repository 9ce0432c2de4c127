"""The native engine beside the structured solver (numba), on one core each: the same scenarios, cold, in turns, in one run.

    python bench/native_per_core.py --cases case118_ieee,case1354_pegase --out native.csv

Every load is drawn within ±10 % of the file's. Times are the best of several rounds, per scenario; the check of the answers,
which the structured solver makes too, is in both.
"""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path
from time import perf_counter

import numpy as np

from gridveil.benchmark.batches import shaken
from gridveil.benchmark.public_case import file_problem
from gridveil.sectors.power.arrays import structured_arrays
from gridveil.solvers.batch.engine_native import NativeEngine
from gridveil.solvers.batch.network import lower_network
from gridveil.solvers.batch.solver import BatchSolver
from gridveil.solvers.structured import Dispatch, StructuredSolver

CASES = "case14_ieee,case118_ieee,case300_ieee,case500_goc,case1354_pegase,case2869_pegase"
BUSES = 40_000  # of all scenarios of a case together


def compare(case: str, rounds: int) -> dict[str, str]:
    """Best times of one case, and whether the answers agree."""
    problem = file_problem(case)
    demand, arrays = problem.demand[problem.network.served], structured_arrays(problem.network)
    count = max(8, BUSES // len(arrays.v_min))
    scenarios = shaken(demand.real, demand.imag, count)
    native, structured = BatchSolver(lower_network(arrays), NativeEngine(threads=1)), StructuredSolver(arrays)
    tasks = [Dispatch(demand_p=p, demand_q=q) for p, q in zip(scenarios.demand_p, scenarios.demand_q, strict=True)]
    native.dispatch(scenarios.rows(slice(0, 8)))
    structured.solve(tasks[0])
    seconds: dict[str, list[float]] = {"native": [], "structured": []}
    for _ in range(rounds):
        begin = perf_counter()
        answer = native.dispatch(scenarios, keep=False)
        seconds["native"].append(perf_counter() - begin)
        begin = perf_counter()
        found = [structured.solve(task) for task in tasks]
        seconds["structured"].append(perf_counter() - begin)
    known = np.array([one.converged for one in found])
    both = known & answer.converged
    gap = np.abs(answer.cost / np.array([one.cost for one in found]) - 1.0)[both].max(initial=0.0)
    per_scenario = {name: 1e3 * min(times) / count for name, times in seconds.items()}
    return {
        "case": case,
        "scenarios": str(count),
        "native_solved": str(int(answer.converged.sum())),
        "structured_solved": str(int(known.sum())),
        "native_ms": f"{per_scenario['native']:.3f}",
        "structured_ms": f"{per_scenario['structured']:.3f}",
        "structured_over_native": f"{per_scenario['structured'] / per_scenario['native']:.2f}",
        "largest_cost_gap": f"{gap:.1e}",
    }


def main() -> None:
    """Compare all cases and write a row each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=CASES)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    rows = [compare(case, given.rounds) for case in given.cases.split(",")]
    files = [sys.stdout, *([given.out.open("w", newline="")] if given.out else [])]
    for file in files:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
