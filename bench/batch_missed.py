"""What a batch misses: scenarios that it does not solve are all tried by the structured solver, as long as that tries.

    python bench/batch_missed.py case300_ieee:6000 case9241_pegase:300

Loads are those of bench/batch.py (±10 % of the file's, seed 7), the start is the optimum for the file's own, the engine the native
one, which has the kernels of a GPU.
"""

from __future__ import annotations

import sys
from time import perf_counter

from gridveil.benchmark.batches import shaken
from gridveil.benchmark.public_case import file_problem
from gridveil.core.choices import BatchEngine
from gridveil.sectors.power.arrays import structured_arrays
from gridveil.solvers.batch.backends import batch_backend
from gridveil.solvers.batch.network import lower_network


def missed(case: str, count: int) -> str:
    """One line on a case: what was solved in the batch, left over, and solved of that by the structured solver."""
    problem = file_problem(case)
    demand = problem.demand[problem.network.served]
    scenarios, network = shaken(demand.real, demand.imag, count), lower_network(structured_arrays(problem.network))
    begin = perf_counter()
    backend = batch_backend(network, BatchEngine.NATIVE, retries=count, usual=(demand.real, demand.imag))
    answer = backend.dispatch(scenarios)
    by_batch, by_cpu = (int((answer.converged & one).sum()) for one in (~answer.by_cpu, answer.by_cpu))
    share = by_batch / max(1, by_batch + by_cpu)
    return (
        f"{case}: {count} scenarios, {by_batch} solved in the batch, {count - by_batch} left, {by_cpu} of these solved by the "
        f"structured solver: {share:.4%} of all that it solves ({perf_counter() - begin:.0f} s)"
    )


if __name__ == "__main__":
    for word in sys.argv[1:]:
        name, _, scenarios = word.partition(":")
        print(missed(name, int(scenarios)), flush=True)
