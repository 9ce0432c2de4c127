"""What a release costs, in single cold AC-OPF solves of the same network, measured in one run.

    python bench/release_speed.py [--alpha 0.1] [--seeds 9] case118_ieee case300_ieee

The release is the default method from d̃ to a verified d*, by both solvers; the AC-OPF is Ipopt's. Compiling the problems is
done once beforehand, as for the AC-OPF.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from gridveil.bilevel.auto import solve_auto
from gridveil.bilevel.engine import Engine
from gridveil.bilevel.engines import engine_for
from gridveil.bilevel.method import Solver
from gridveil.networks.load import load_case
from gridveil.networks.model import build_model
from gridveil.privacy.curator import solve_true
from gridveil.privacy.noisy import CostTarget, TargetSource
from gridveil.privacy.simulation import simulate_laplace

OPF_REPEATS = 5


def measure(source: str, alpha: float, seeds: int) -> None:
    """Print the median time of a release by each solver, beside that of one AC-OPF by Ipopt."""
    case = load_case(source)
    model = build_model(case.network)
    reference = Engine(model.program)
    single = []
    for _ in range(OPF_REPEATS):
        clock = time.perf_counter()
        true = solve_true(case, model, reference.follower.solve)
        single.append(time.perf_counter() - clock)
    opf = float(np.median(single))
    band = CostTarget(value=true.cost, beta=0.01 * true.cost, source=TargetSource.PUBLIC)
    for solver in Solver:
        engine = engine_for(case.network, model, solver)
        results = []
        for seed in range(seeds + 1):
            noisy = simulate_laplace(case.demand, epsilon=1.0, alpha=alpha, seed=seed)
            results.append(solve_auto(engine, model.layout.to_program(noisy.values), band))
        results = results[1:]  # the first compiles the problems and is not counted
        times = [result.seconds for result in results]
        median = float(np.median(times))
        print(
            f"{case.name:24} alpha {alpha:<4g} {solver.value:10} AC-OPF {opf:7.4f} s   release median {median:8.4f} s,"
            f" worst {max(times):8.4f} s = {median / opf:5.2f} AC-OPFs   verified {sum(r.verified for r in results)}/{seeds}"
            f"   optimisations {np.mean([r.optimisations for r in results]):.1f}",
            flush=True,
        )


def main() -> None:
    """Measure every case named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="+")
    parser.add_argument("--alpha", type=float, default=0.1)
    parser.add_argument("--seeds", type=int, default=9)
    options = parser.parse_args()
    for source in options.cases:
        measure(source, options.alpha, options.seeds)


if __name__ == "__main__":
    main()
