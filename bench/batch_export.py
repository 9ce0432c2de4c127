"""Write public networks as .npz files from which bench/batch.py runs on NumPy and CuPy alone.

    python bench/batch_export.py [--cases case118_ieee,...] [--references 64] [--out .gpu-data]

Each file holds the lowered network, its demands, and the costs that the structured solver finds for the first scenarios of
``bench/batch.py`` (±10 % on P and Q of every load, seed 7), NaN where it finds none.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from batch import SEED, SPREAD, shaken
from gridveil.benchmark.public_case import power_case_at
from gridveil.sectors.power.arrays import structured_arrays
from gridveil.solvers.batch.network import lower_network
from gridveil.solvers.structured import Dispatch, StructuredSolver

CASES = "case118_ieee,case300_ieee,case1354_pegase,case2869_pegase,case9241_pegase"


def export(name: str, references: int, folder: Path) -> None:
    """Write one network."""
    case, network = power_case_at(name)
    demand = case.values.reveal()[network.served]  # public benchmark data
    arrays = structured_arrays(network)
    solver = StructuredSolver(arrays)
    scenarios = shaken(demand.real, demand.imag, SPREAD, SEED, 0, references)
    answers = [
        solver.solve(Dispatch(demand_p=p, demand_q=q))
        for p, q in zip(scenarios.demand_p, scenarios.demand_q, strict=True)
    ]
    costs = np.array([answer.cost if answer.converged else np.nan for answer in answers])
    lower_network(arrays).save(
        folder / f"{name}.npz", demand_p=demand.real, demand_q=demand.imag, reference_costs=costs
    )
    print(f"{name}: {np.isfinite(costs).sum()} of {references} scenarios solved")


def main() -> None:
    """Read the command line and write all networks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", default=CASES)
    parser.add_argument("--references", type=int, default=64)
    parser.add_argument("--out", type=Path, default=Path(".gpu-data"))
    given = parser.parse_args()
    given.out.mkdir(exist_ok=True)
    for name in given.cases.split(","):
        export(name, given.references if "9241" not in name else min(given.references, 4), given.out)


if __name__ == "__main__":
    main()
