"""Violations of circuit laws and limits at an operating point, computed independently of every model in gridveil."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from gridveil.benchmark.contestant import Complexes, Floats, Point
from gridveil.sectors.power.network import PowerNetwork


@dataclass(frozen=True, kw_only=True)
class Violations:
    """Largest violation of each family, per unit or radians; inf where the point is no number."""

    balance: float
    voltage: float
    generation: float
    flow: float
    angle: float

    @property
    def largest(self) -> float:
        """The residual of the point."""
        return float(max(asdict(self).values()))

    @property
    def worst_family(self) -> str:
        """The family that the largest violation belongs to."""
        return max(asdict(self).items(), key=lambda item: item[1])[0]


def violations(network: PowerNetwork, demand: Complexes, point: Point) -> Violations:
    """Measure a point; ``demand`` is per load site, per unit."""
    bus, generator = network.bus, network.generator
    energised, producing = ~bus.isolated, network.generator_on
    magnitude, voltage = np.zeros(len(bus.id)), np.zeros(len(bus.id), dtype=complex)
    magnitude[energised], voltage[energised] = point.vm, point.vm * np.exp(1j * point.va)
    from_power, to_power = _branch_powers(network, voltage)
    branch, on = network.branch, network.branch_on
    surplus = -np.conj(bus.shunt) * magnitude**2
    np.add.at(surplus, generator.bus[producing], point.pg + 1j * point.qg)
    np.subtract.at(surplus, network.load.bus[network.served], demand[network.served])
    np.subtract.at(surplus, branch.from_bus[on], from_power)
    np.subtract.at(surplus, branch.to_bus[on], to_power)
    balance = surplus[energised]
    angle = np.zeros(len(bus.id))
    angle[energised] = point.va
    across = angle[branch.from_bus[on]] - angle[branch.to_bus[on]]
    return Violations(
        balance=_largest(np.abs(balance.real), np.abs(balance.imag)),
        voltage=_outside(point.vm, bus.v_min[energised], bus.v_max[energised]),
        generation=max(
            _outside(point.pg, generator.p_min[producing], generator.p_max[producing]),
            _outside(point.qg, generator.q_min[producing], generator.q_max[producing]),
        ),
        flow=_largest(np.abs(from_power) - branch.rate[on], np.abs(to_power) - branch.rate[on]),
        angle=_outside(across, branch.angle_min[on], branch.angle_max[on]),
    )


def generation_cost(network: PowerNetwork, pg: Floats) -> float:
    """Cost of a dispatch in $/h: polynomials, or the highest of the lines of a piecewise-linear curve."""
    producing = np.flatnonzero(network.generator_on)
    power = np.zeros(len(network.generator.bus))
    power[producing] = pg
    cost = network.generator.cost
    each = np.polynomial.polynomial.polyval(power, cost.polynomial, tensor=False)
    level = np.full(len(power), -np.inf)
    np.maximum.at(level, cost.line_generator, cost.line_slope * power[cost.line_generator] + cost.line_intercept)
    each[cost.piecewise] += level[cost.piecewise]
    return float(np.sum(each[producing]))


def _branch_powers(network: PowerNetwork, voltage: Complexes) -> tuple[Complexes, Complexes]:
    """Power that enters each branch in service at its two ends, by Kirchhoff's and Ohm's laws behind an ideal transformer."""
    branch, on = network.branch, network.branch_on
    at_from, at_to = voltage[branch.from_bus[on]], voltage[branch.to_bus[on]]
    tap = branch.tap[on]
    behind = at_from / tap
    through = (behind - at_to) / branch.impedance[on]
    from_current = (through + branch.shunt_from[on] * behind) / np.conj(tap)
    to_current = branch.shunt_to[on] * at_to - through
    return at_from * np.conj(from_current), at_to * np.conj(to_current)


def _outside(value: Floats, low: Floats, high: Floats) -> float:
    return _largest(low - value, value - high)


def _largest(*excess: Floats) -> float:
    worst = float(np.max(np.concatenate(excess), initial=0.0))
    return np.inf if np.isnan(worst) else worst
