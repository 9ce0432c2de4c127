"""How often an audit catches a pipeline that spends twice the ε it claims, and how often it accuses a right one.

    python bench/audit_power.py [--audits 100] [--runs 2500]

At the level of draws: the noisy value of one participant and the noisy sum stand for the released value and the cost
target, so that thousands of audits are cheap. Repair only blurs them. The planted fault halves all noise.
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray

from gridveil.service.pipeline_audit import RUNS, SMALLEST_P_VALUE, contrast, together

EPSILON = 1.0
SHARES = {"derived": (1.0, 0.0), "private": (0.6, 0.4)}  # of ε, for the values and for the sum
STATISTICS = 6  # that an audit looks at

Rows = NDArray[np.float64]


def main() -> None:
    """Count audits that fail."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--audits", type=int, default=100)
    parser.add_argument("--runs", type=int, default=RUNS)
    arguments = parser.parse_args()
    generator = np.random.default_rng(0)
    for mode, shares in SHARES.items():
        for name, factor in (("half the noise", 2.0), ("as claimed", 1.0)):
            sides = (
                [seen(side, shares, factor, arguments.runs, generator) for side in (-0.5, 0.5)]
                for _ in range(arguments.audits)
            )
            failed = sum(smallest_p_value(*pair) * STATISTICS < SMALLEST_P_VALUE for pair in sides)
            print(
                f"{mode}, {name}: {failed} of {arguments.audits} audits of 2 x {arguments.runs} runs fail", flush=True
            )


def seen(centre: float, shares: tuple[float, float], factor: float, runs: int, generator: np.random.Generator) -> Rows:
    """What an attacker sees in as many runs, α being the unit: columns as the audit has them."""
    rows = np.zeros((runs, 5))
    radius, angle = generator.gamma(2.0, 1 / (factor * shares[0]), runs), generator.uniform(0, 2 * np.pi, runs)
    value = centre + radius * np.exp(1j * angle)
    rows[:, 0] = np.round(np.abs(value + 0.5) - np.abs(value - 0.5), 9)
    if shares[1]:
        rows[:, 2] = centre + generator.laplace(0.0, 1 / (factor * shares[1]), runs)
    return rows


def smallest_p_value(low: Rows, high: Rows) -> float:
    """The smallest p-value of the value, the target and both together."""
    pairs = [(low[:, 0], high[:, 0]), (low[:, 2], high[:, 2]), together(low, high)]
    return min(contrast(*pair, EPSILON)["p_value"] for pair in pairs)


if __name__ == "__main__":
    main()
