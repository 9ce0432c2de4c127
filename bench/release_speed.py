"""What a release costs, in single cold AC-OPF solves of the same network, measured in one run.

    python bench/release_speed.py [--alpha 0.1] [--seeds 9] case118_ieee case300_ieee

The release is Algorithm 1 from d̃ to a verified d*; compiling the problems is done once beforehand, as for the AC-OPF.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from gridveil.bilevel.algorithm1 import solve_bilevel
from gridveil.bilevel.engine import Engine
from gridveil.networks.formulation import Formulation
from gridveil.networks.load import load_case
from gridveil.networks.model import build_model
from gridveil.privacy.curator import solve_true
from gridveil.privacy.noisy import CostTarget, TargetSource
from gridveil.privacy.simulation import simulate_laplace

OPF_REPEATS = 5


def measure(source: str, alpha: float, seeds: int) -> None:
    """Print the median time of a release, beside that of one AC-OPF."""
    case = load_case(source)
    model = build_model(case.network, Formulation.AC)
    engine = Engine(model.program)
    single = []
    for _ in range(OPF_REPEATS):
        clock = time.perf_counter()
        true = solve_true(case, model, engine.follower.solve)
        single.append(time.perf_counter() - clock)
    opf = float(np.median(single))
    band = CostTarget(value=true.cost, beta=0.01 * true.cost, source=TargetSource.PUBLIC)
    times, verified, optimisations = [], 0, []
    for seed in range(-1, seeds):  # the first compiles the problems and is not counted
        noisy = simulate_laplace(case.demand, epsilon=1.0, alpha=alpha, seed=seed + 1)
        result = solve_bilevel(engine, model.layout.to_program(noisy.values), band)
        if seed >= 0:
            times.append(result.seconds)
            verified += result.verified
            optimisations.append(result.optimisations)
    median = float(np.median(times))
    print(
        f"{case.name:28} alpha {alpha:<5g} AC-OPF {opf:8.4f} s   release median {median:8.4f} s, worst {max(times):8.4f} s   "
        f"= {median / opf:5.1f} AC-OPFs   verified {verified}/{seeds}   optimisations {np.mean(optimisations):.1f}",
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
