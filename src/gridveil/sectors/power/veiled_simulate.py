"""Simulated secrets of a power network: from public facts alone, as demands are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridveil.core.errors import InputError, NoReleaseError
from gridveil.core.secret import SecretField
from gridveil.core.secret_choice import COST, DEMAND, IMPEDANCE, LIMIT
from gridveil.sectors.model import PartLayout
from gridveil.sectors.power.simulate import LOADING, simulate_loads, total_capacity
from gridveil.sectors.power.veiled_network import CHARGING, VeiledNetwork
from gridveil.sectors.sector import Solve
from gridveil.sectors.simulation import RETREAT, is_servable, words

Floats = NDArray[np.float64]

COSTS = (10.0, 60.0)  # $/MWh
RATING_SHARE = (0.3, 0.6)  # of the total generator capacity
REACTANCE = (0.02, 0.12)  # per unit
ANGLE = (1.2, 1.5)  # of r + jx: r between a third and a fourteenth of x
CHARGED = (0.01, 0.05)  # per unit


def simulate_secrets(
    network: VeiledNetwork, field: SecretField, nearest: Solve, generator: np.random.Generator, loading: float | None
) -> tuple[Floats, str]:
    """Simulate the program's d: random costs, ratings that carry a good share of all generation, usual impedances."""
    capacity = total_capacity(network.grid)
    if capacity is None:
        raise InputError("no generator has a finite capacity, so nothing can be simulated; state limits in the file")
    uniform = generator.uniform
    draw: dict[str, Callable[[int], Any]] = {
        DEMAND: lambda n: _loads(network, generator, loading),
        COST: lambda n: uniform(*COSTS, n),
        LIMIT: lambda n: capacity * uniform(*RATING_SHARE, n),
        IMPEDANCE: lambda n: np.log(uniform(*REACTANCE, n)) + 1j * uniform(*ANGLE, n),
        CHARGING: lambda n: np.log(uniform(*CHARGED, n)),
    }
    own = [part.within_limits(draw[part.field.name](len(part.field))) for part in field.parts]
    values = np.concatenate(own).astype(complex)
    layout = PartLayout(network.served, with_reactive=False, parts=network.parts)
    return _servable(layout, layout.to_program(values), nearest), words(loading or LOADING, "all generator capacity")


def _loads(network: VeiledNetwork, generator: np.random.Generator, loading: float | None) -> NDArray[np.complex128]:
    """Demands of all sites as they come, not yet made servable."""
    d, _ = simulate_loads(network.grid, lambda data: data, generator, loading)
    loads = np.zeros(len(network.grid.served), dtype=complex)
    loads[network.grid.served] = d[: len(d) // 2] + 1j * d[len(d) // 2 :]
    return loads


def _servable(layout: PartLayout, data: Floats, nearest: Solve) -> Floats:
    """Keep data that can be served; of the nearest ones that can, less of the demand, as they lie at the edge."""
    found = nearest(data)
    if found is None:
        raise NoReleaseError("found no simulated values that the network can serve; try another --loading")
    if is_servable(data, found):
        return data
    own = [RETREAT * entries if part.field.name == DEMAND else entries for part, entries in layout.split(found)]
    return np.concatenate(own)
