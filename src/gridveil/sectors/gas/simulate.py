"""Simulated withdrawals of a gas network: random shares of the total that it can deliver in these shares."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gridveil.sectors.gas.network import GasNetwork
from gridveil.sectors.sector import Solve
from gridveil.sectors.simulation import is_servable, made_servable, random_shares, words

Floats = NDArray[np.float64]

LOADING = 0.9
GROWTH, MOST_STEPS = 1.5, 60


def simulate_withdrawals(
    network: GasNetwork, nearest: Solve, generator: np.random.Generator, loading: float | None
) -> tuple[Floats, str]:
    """Simulate the program's d, a share ``loading`` of what the network can deliver."""
    level = loading or LOADING
    shares = random_shares(np.ones(network.n_site), generator)
    data = made_servable(level * _deliverable(network, nearest, shares) * shares, nearest)
    return data, words(level, "what the network can deliver")


def usual_withdrawals(network: GasNetwork) -> Floats | None:
    """Guess the withdrawals, units of the flow base: what pipes at the slack junctions and fixed supplies bring, shared evenly.

    A pipe carries at most √((p_max² − p_min²)/W). None where no supply has a pipe with finite limits.
    """
    pipe, junction = network.pipe, network.junction
    start, end = pipe.from_junction, pipe.to_junction
    drop = np.maximum(junction.p_max[start] ** 2 - junction.p_min[end] ** 2, 0.0)
    capacity = np.minimum(np.sqrt(drop / network.resistance), pipe.flow_max)
    source = np.union1d(network.slack, np.concatenate([network.station.from_junction, network.station.to_junction]))
    near = np.isfinite(capacity) & (np.isin(start, source) | np.isin(end, source))
    total = float(network.injection.sum()) + (
        float(np.median(capacity[near])) * len(network.slack) if near.any() else 0.0
    )
    return np.full(network.n_site, total / network.n_site / network.flow_base) if total > 0 and network.n_site else None


def _deliverable(network: GasNetwork, nearest: Solve, shares: Floats) -> float:
    """Total of the feasible demands nearest to the first total, growing step by step, that is too much.

    Where none are found near it, the last total that could be served.
    """
    total = max(1.0, float(network.injection.sum())) / network.flow_base
    for _ in range(MOST_STEPS):
        found = nearest(total * shares)
        if found is None:
            return total / GROWTH
        if not is_servable(total * shares, found):
            return float(found.sum())
        total *= GROWTH
    return total
