"""The optimal power flow with several secrets where these are fixed: an ordinary network, and the slopes of its cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gridveil.core.choices import Formulation
from gridveil.core.errors import InputError
from gridveil.core.secret import SecretPart
from gridveil.core.secret_choice import COST, DEMAND, IMPEDANCE, LIMIT
from gridveil.sectors.model import Model, PartLayout, PricedFlow
from gridveil.sectors.power.arrays import structured_arrays
from gridveil.sectors.power.network import PowerNetwork
from gridveil.sectors.power.sector import POWER
from gridveil.sectors.power.veiled_network import CHARGING, VeiledNetwork
from gridveil.sectors.power.veiled_opf import DIRECTION, network_at

Vector = NDArray[np.float64]
Complexes = NDArray[np.complex128]

ROOM = 0.01  # share of what a branch carries that a raised rating leaves


@dataclass(frozen=True, eq=False)
class VeiledForm:
    """``OrdinaryForm`` of a network with several secrets."""

    network: VeiledNetwork
    layout: PartLayout

    def at(self, d: Vector) -> tuple[Model, Vector]:
        """The AC model of the network with these data, and its demands."""
        network, demand = network_at(self.network, self.layout, d)
        return POWER.model(network, Formulation.AC), demand

    def prices(self, d: Vector, flow: PricedFlow) -> Vector:
        """∂O/∂d by the envelope theorem: the slope of the Lagrangian with respect to each secret, per α."""
        network = network_at(self.network, self.layout, d)[0]
        slopes = self._slopes(network, flow)
        return np.concatenate([float(part.alpha) * slopes[part.field.name] for part in self.layout.parts])

    def _slopes(self, network: PowerNetwork, flow: PricedFlow) -> dict[str, Vector]:
        """Per unit of each secret's own value; those of complex values as real parts, then imaginary ones."""
        grid, on = network.grid, network.branch_on
        by_impedance, by_charging = _branch_slopes(network, flow)
        limited, charged = self.network.limited[on], self.network.charged[on]
        return {
            DEMAND: np.concatenate([flow.price_p[grid.load_bus], flow.price_q[grid.load_bus]]),
            COST: network.base_mva * flow.pg[: int(network.generator_on.sum())],
            LIMIT: -2 * grid.rate[limited] * (flow.flow_from + flow.flow_to)[limited],
            IMPEDANCE: np.concatenate([by_impedance.real, by_impedance.imag]),
            CHARGING: by_charging[charged],
        }

    def eased(self, d: Vector) -> Vector | None:
        """The same data with ratings at their public upper limit."""
        if self.network.part(LIMIT) is None:
            return None
        return self._with_ratings(d, lambda part, entries: np.full(len(entries), part.upper.real / float(part.alpha)))

    def raised(self, d: Vector, x: Vector) -> Vector:
        """The same data with ratings no less than what each branch carries, and a hundredth more."""
        network = network_at(self.network, self.layout, d)[0]
        n = network.grid.n_bus
        ends = _entering(network, x[n : 2 * n] * np.exp(1j * x[:n]))
        needed = (1 + ROOM) * np.max(np.abs(ends), axis=0)[self.network.limited[network.branch_on]]
        return self._with_ratings(d, lambda part, entries: np.maximum(entries, needed / float(part.alpha)))

    def _with_ratings(self, d: Vector, change: Callable[[SecretPart, Vector], Vector]) -> Vector:
        return np.concatenate(
            [change(part, own) if part.field.name == LIMIT else own for part, own in self.layout.split(d)]
        )

    @cached_property
    def growth(self) -> Vector:
        """One per α for each real part, with the sign in which the secret moves the cost."""
        columns = []
        for part in self.layout.parts:
            n = int(self.layout.served[part.run].sum())
            columns += [np.full(n, DIRECTION[part.field.name]), np.zeros(n)][: part.field.dimension]
        return np.concatenate(columns)


def veiled_form(network: VeiledNetwork, layout: PartLayout) -> VeiledForm | None:
    """The ordinary form; None where arrays cannot state it, or not branch by branch."""
    twice_limited = np.isfinite(network.grid.branch.current) & network.limited
    try:
        structured_arrays(network.grid)
    except InputError:
        return None
    return None if np.any(twice_limited) else VeiledForm(network, layout)


def _entering(network: PowerNetwork, v: Complexes) -> tuple[Complexes, Complexes]:
    """Power that enters each branch in service at its from and its to end."""
    grid = network.grid
    v_from, v_to = v[grid.from_bus], v[grid.to_bus]
    return v_from * np.conj(grid.y_ff * v_from + grid.y_ft * v_to), v_to * np.conj(
        grid.y_tf * v_from + grid.y_tt * v_to
    )


def _branch_slopes(network: PowerNetwork, flow: PricedFlow) -> tuple[Complexes, Vector]:
    """Of the Lagrangian, with respect to ln(r + jx) of each branch in service, and to ln of its charging.

    Power S that enters an end weighs Re(conj(w)·S) in the Lagrangian, to first order, where w is the price at the bus and
    what the limit of that end adds. With S linear in y = exp(−ln z) and in the charging, both slopes follow.
    """
    grid, branch, on = network.grid, network.branch, network.branch_on
    v, tap = flow.vm * np.exp(1j * flow.va), branch.tap[on]
    v_from, v_to = v[grid.from_bus] / tap, v[grid.to_bus]
    y, charging = 1 / branch.impedance[on], (branch.shunt_from + branch.shunt_to)[on].imag
    power_from, power_to = _entering(network, v)
    price = flow.price_p + 1j * flow.price_q
    at_from = price[grid.from_bus] + 2 * flow.flow_from * power_from
    at_to = price[grid.to_bus] + 2 * flow.flow_to * power_to
    # Re(conj(w)·v·conj(y·u)) = Re(y·w·conj(v)·u)
    by_y = at_from * np.conj(v_from) * (v_from - v_to) + at_to * np.conj(v_to) * (v_to - v_from)
    by_shunt = at_from * np.abs(v_from) ** 2 + at_to * np.abs(v_to) ** 2
    return -np.conj(y * by_y), -charging / 2 * by_shunt.imag
