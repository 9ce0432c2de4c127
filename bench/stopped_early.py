"""How the distance to the true demands depends on when Algorithm 1 stops: the mean after 2, 3, … optimisations.

    python bench/stopped_early.py [--networks case57_ieee,case118_ieee] [--alpha 10] [--seeds 16] [--most 16]

A released point comes nearer to the noisy demands with every halving of the bracket, and thereby farther from the true ones.
A run whose high point is in the band stops there, after one.
"""

from __future__ import annotations

import argparse
import math

import numpy as np
from numpy.typing import NDArray

from auto_against_bisection import load_network
from gridveil.bilevel.result import StepKind
from gridveil.bilevel.run import MethodRun
from gridveil.core.band import CostTarget
from gridveil.core.choices import CostTargetMode
from gridveil.core.methods import Solver
from gridveil.privacy.curator import published_values
from gridveil.privacy.mechanisms.simulation import NoiseSites, simulate_laplace
from gridveil.sectors.registry import build_model
from gridveil.solvers.backend import Backend
from gridveil.solvers.registry import backend_for
from gridveil.solvers.solves import Solves
from gridveil.study.trial import noise_stream

Vector = NDArray[np.float64]

PAPERS = "case57_ieee,case89_pegase,case118_ieee,case162_ieee_dtc,case189_edin,case300_ieee"
BETA = 0.01


def distances(backend: Backend, noisy: Vector, band: CostTarget, truth: Vector, most: int) -> list[float]:
    """Relative distance of the best point to the truth after 1, 2, …, ``most`` optimisations; NaN while there is none.

    Doubling, then halving, as Algorithm 1 does. A list of one if the high point is in the band; empty if there is none.
    """
    run = MethodRun(backend, noisy, band)
    ending = run.start_from_highpoint()
    if run.highpoint is None:
        return []
    if ending is not None:
        return [_relative(run.highpoint.d, truth)]
    found, lower, radius, upper = [math.nan], run.highpoint.delta, 2 * run.highpoint.delta, math.inf
    while len(found) < most:
        joint, follower = run.push(StepKind.BISECTION, radius)
        if follower is not None and run.band.contains(follower.cost):
            upper = joint.delta
            found.append(_relative(joint.d, truth))
        else:
            lower = radius
            found.append(found[-1])
        radius = (lower + upper) / 2 if math.isfinite(upper) else 2 * radius
    return found


def _relative(d: Vector, truth: Vector) -> float:
    return float(np.linalg.norm(d - truth) / np.linalg.norm(truth))


def measure(name: str, alpha: float, seeds: int, most: int) -> None:
    """Print, for one network, the mean number of optimisations and the mean distance when runs stop after k."""
    case = load_network(name)
    model = build_model(case.network)
    backend = backend_for(model, Solver.STRUCTURED)
    cost = Solves(backend).afresh(model.layout.to_program(published_values(case))).cost
    band = CostTarget(value=cost, beta=BETA * cost, source=CostTargetMode.PUBLIC)
    rows = []
    for seed in range(seeds):
        stream = noise_stream(name, seed)
        noise = simulate_laplace(case.values, epsilon=1.0, alpha=alpha, seed=stream, sites=NoiseSites.POSITIVE)
        noisy = model.layout.to_program(noise.values)
        true = model.layout.to_program(published_values(case))
        rows.append(distances(backend, noisy, band, true, most))
    rows = [row for row in rows if row]
    print(f"{name}, alpha {alpha:g}, {len(rows)} of {seeds} seeds")
    for k in range(2, most + 1):
        used = np.mean([min(k, len(row)) for row in rows])
        print(f"  {used:5.1f} optimisations: distance {np.nanmean([row[min(k, len(row)) - 1] for row in rows]):.2f}")


def main() -> None:
    """Measure each network."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", default=PAPERS)
    parser.add_argument("--alpha", type=float, default=10.0)
    parser.add_argument("--seeds", type=int, default=16)
    parser.add_argument("--most", type=int, default=16)
    options = parser.parse_args()
    for name in options.networks.split(","):
        measure(name, options.alpha, options.seeds, options.most)


if __name__ == "__main__":
    main()
