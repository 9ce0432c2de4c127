"""Violations of circuit laws and limits at an operating point, computed independently of every model in gridveil."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from gridveil.benchmark.contestant import Complexes, Floats, Point
from gridveil.sectors.power.costs import GeneratorCosts
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
    bus, energised = network.bus, ~network.bus.isolated
    magnitude, voltage = np.zeros(len(bus.id)), np.zeros(len(bus.id), dtype=complex)
    magnitude[energised], voltage[energised] = point.vm, point.vm * np.exp(1j * point.va)
    from_power, to_power = _branch_powers(network, voltage)
    branch, on = network.branch, network.branch_on
    surplus = -np.conj(bus.shunt) * magnitude**2
    feeders = _feeders(network)
    np.add.at(surplus, feeders.bus, point.pg + 1j * point.qg)
    line, lines_on = network.dc_line, network.dc_line_on
    lost = line.loss_0[lines_on] + point.dc * line.loss_1[lines_on]
    np.subtract.at(surplus, line.from_bus[lines_on], point.dc)
    np.add.at(surplus, line.to_bus[lines_on], point.dc - lost)
    shunt, shunts_on = network.compensator, network.compensator_on
    compensated = shunt.bus[shunts_on]
    np.subtract.at(surplus, compensated, np.conj(1j * point.susceptance) * magnitude[compensated] ** 2)
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
            _outside(point.pg, feeders.p_min, feeders.p_max),
            _outside(point.qg, feeders.q_min, feeders.q_max),
            _outside(point.dc, line.p_min[lines_on], line.p_max[lines_on]),
            _outside(point.susceptance, shunt.b_min[shunts_on], shunt.b_max[shunts_on]),
        ),
        flow=_largest(
            np.abs(from_power) - branch.rate[on],
            np.abs(to_power) - branch.rate[on],
            np.abs(from_power) / magnitude[branch.from_bus[on]] - branch.current[on],
            np.abs(to_power) / magnitude[branch.to_bus[on]] - branch.current[on],
        ),
        angle=_outside(across, branch.angle_min[on], branch.angle_max[on]),
    )


@dataclass(frozen=True, eq=False)
class _Feeders:
    """Where power is fed and within which limits, in the order of a Point."""

    bus: NDArray[np.int64]
    p_min: Floats
    p_max: Floats
    q_min: Floats
    q_max: Floats


def _feeders(network: PowerNetwork) -> _Feeders:
    generator, producing = network.generator, network.generator_on
    storage, stored = network.storage, network.storage_on
    line, on = network.dc_line, network.dc_line_on
    nothing = np.zeros(2 * int(on.sum()))
    return _Feeders(
        bus=np.concatenate([generator.bus[producing], storage.bus[stored], line.from_bus[on], line.to_bus[on]]),
        p_min=np.concatenate([generator.p_min[producing], storage.p_min[stored], nothing]),
        p_max=np.concatenate([generator.p_max[producing], storage.p_max[stored], nothing]),
        q_min=np.concatenate(
            [generator.q_min[producing], storage.q_min[stored], line.q_from_min[on], line.q_to_min[on]]
        ),
        q_max=np.concatenate(
            [generator.q_max[producing], storage.q_max[stored], line.q_from_max[on], line.q_to_max[on]]
        ),
    )


def dispatch_cost(network: PowerNetwork, point: Point) -> float:
    """Cost of a dispatch in $/h: active and reactive power of generators, and power of DC lines."""
    producing, count = network.generator_on, int(network.generator_on.sum())
    generator, line = network.generator, network.dc_line
    return (
        _cost(generator.cost, producing, point.pg[:count])
        + _cost(generator.reactive_cost, producing, point.qg[:count])
        + _cost(line.cost, network.dc_line_on, point.dc)
    )


def _cost(cost: GeneratorCosts, on: NDArray[np.bool_], power: Floats) -> float:
    """Polynomials, or the highest of the lines of a piecewise-linear curve."""
    every = np.zeros(len(on))
    every[on] = power
    each = np.polynomial.polynomial.polyval(every, cost.polynomial, tensor=False)
    level = np.full(len(every), -np.inf)
    np.maximum.at(level, cost.line_generator, cost.line_slope * every[cost.line_generator] + cost.line_intercept)
    each[cost.piecewise] += level[cost.piecewise]
    return float(np.sum(each[on]))


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
