"""Simulated loads of a power network: random shares of the generator capacity, larger where branches carry more."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gridveil.core.errors import InputError
from gridveil.sectors.power.network import PowerNetwork
from gridveil.sectors.sector import Solve
from gridveil.sectors.simulation import made_servable, random_shares, words

Floats = NDArray[np.float64]

LOADING = 0.5
POWER_FACTOR = (0.92, 1.0)


def simulate_loads(
    network: PowerNetwork, nearest: Solve, generator: np.random.Generator, loading: float | None
) -> tuple[Floats, str]:
    """Simulate the d of the AC program, a share ``loading`` of the total generator capacity."""
    level = loading or LOADING
    capacity = total_capacity(network)
    if capacity is None:
        raise InputError("no generator has a finite capacity, so no demands can be simulated; state limits in the file")
    active = level * capacity * random_shares(_connection(network), generator)
    reactive = active * np.tan(np.arccos(generator.uniform(*POWER_FACTOR, len(active))))
    data = made_servable(np.concatenate([active, reactive]), nearest)
    return data, words(level, "the total generator capacity")


def usual_loads(network: PowerNetwork) -> Floats | None:
    """Guess active loads of the served sites, per unit: the simulated total, shared as branches suggest; None without limits.

    Shares go with the root of the branches' rating: loads differ less than the transit lines that pass their buses.
    """
    capacity, weight = total_capacity(network), np.sqrt(_connection(network))
    return None if capacity is None or not len(weight) else LOADING * capacity * weight / weight.sum()


def _connection(network: PowerNetwork) -> Floats:
    """Total rating of the branches at the bus of each served site; unlimited ones count as the median."""
    grid = network.grid
    limited = np.isfinite(grid.rate)
    usual = float(np.median(grid.rate[limited])) if np.any(limited) else 1.0
    rate = np.where(limited, grid.rate, usual)
    total = np.zeros(grid.n_bus)
    np.add.at(total, grid.from_bus, rate)
    np.add.at(total, grid.to_bus, rate)
    return np.asarray(np.where(total > 0, total, usual)[grid.load_bus])


def total_capacity(network: PowerNetwork) -> float | None:
    """Add up the finite generator limits, per unit; None if there are none."""
    largest = network.grid.generator.p_max
    return float(np.sum(np.clip(largest[np.isfinite(largest)], 0.0, None))) or None
