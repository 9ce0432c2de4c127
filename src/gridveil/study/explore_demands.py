"""Demands to explore settings on, made from public data alone: topology, capacities and the sites of loads."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridveil.core.errors import InputError, NoReleaseError
from gridveil.core.secret import SecretDemand
from gridveil.sectors.case import Network
from gridveil.sectors.gas.network import GasNetwork
from gridveil.sectors.model import DemandLayout
from gridveil.sectors.power.network import PowerNetwork
from gridveil.solvers.ipopt import Engine

Vector = NDArray[np.float64]

POWER_LOADING, GAS_LOADING = 0.5, 0.9
SPREAD = 0.5  # σ of the lognormal factor between sites that are connected alike
POWER_FACTOR = (0.92, 1.0)
MOVED = 0.01  # relative: demands further than this from their nearest feasible ones cannot be served
RETREAT = 0.9  # of the nearest feasible demands, which sit at the very edge of what the network can carry
GROWTH, MOST_STEPS = 1.5, 60


def simulated_demand(
    network: Network, layout: DemandLayout, engine: Engine, *, seed: int = 0, loading: float | None = None
) -> SecretDemand:
    """Give made-up demands (per unit, one per site) that the network can serve; the seed makes them repeatable.

    Random shares, larger where the branches at a site carry more, are scaled to ``loading``: a share of the total generator
    capacity or, for gas, of what the network can deliver in these shares. Demands that cannot be served are replaced by
    the nearest ones that can, less a tenth.
    """
    if loading is not None and not 0 < loading <= 1:
        raise InputError("the loading must be a share above 0 and up to 1, such as 0.5; correct --loading")
    generator = np.random.default_rng(seed)
    if isinstance(network, GasNetwork):
        shares = _shares(np.ones(network.n_site), generator)
        data = (loading or GAS_LOADING) * _deliverable(network, engine, shares) * shares
    else:
        shares = _shares(_connection(network), generator)
        active = (loading or POWER_LOADING) * _capacity(network) * shares
        reactive = active * np.tan(np.arccos(generator.uniform(*POWER_FACTOR, len(active))))
        data = np.concatenate([active, reactive])
    nearest = engine.nearest_feasible(data)
    if nearest.converged and _relative(nearest.d, data) > MOVED:
        data = RETREAT * nearest.d
    if not (nearest.converged and engine.solve_afresh(data).converged):
        raise NoReleaseError("found no simulated demands that the network can serve; try another --loading")
    empty: NDArray[Any] = np.zeros(len(layout.served), dtype=complex if layout.with_reactive else float)
    return SecretDemand(layout.to_sites(data, empty))


def _shares(weight: Vector, generator: np.random.Generator) -> Vector:
    shares = weight * generator.lognormal(0.0, SPREAD, len(weight))
    return np.asarray(shares / shares.sum())


def _connection(network: PowerNetwork) -> Vector:
    """Give, for each served site, the total rating of the branches at its bus; unlimited ones count as the median."""
    grid = network.grid
    limited = np.isfinite(grid.rate)
    usual = float(np.median(grid.rate[limited])) if np.any(limited) else 1.0
    rate = np.where(limited, grid.rate, usual)
    total = np.zeros(grid.n_bus)
    np.add.at(total, grid.from_bus, rate)
    np.add.at(total, grid.to_bus, rate)
    return np.asarray(np.where(total > 0, total, usual)[grid.load_bus])


def _capacity(network: PowerNetwork) -> float:
    largest = network.grid.generator.p_max
    capacity = float(np.sum(np.clip(largest[np.isfinite(largest)], 0.0, None)))
    if capacity == 0:
        raise InputError("no generator has a finite capacity, so no demands can be simulated; state limits in the file")
    return capacity


def _deliverable(network: GasNetwork, engine: Engine, shares: Vector) -> float:
    """Give the total of the feasible demands nearest to the first total, growing step by step, that is too much."""
    total = max(1.0, float(network.injection.sum())) / network.flow_base
    for _ in range(MOST_STEPS):
        nearest = engine.nearest_feasible(total * shares)
        if not nearest.converged or _relative(nearest.d, total * shares) > MOVED:
            return float(nearest.d.sum())
        total *= GROWTH
    return total


def _relative(found: Vector, wanted: Vector) -> float:
    return float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))
