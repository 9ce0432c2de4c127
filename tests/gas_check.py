"""An operating point against the equations of Model 2, element by element in SI units; shares nothing with the solver's model."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gridveil.sectors.gas.network import GasNetwork, GasPoint

Vector = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class GasCheck:
    """Largest violations, all relative, and the exact objective of the paper (μ = 1, kg/s)."""

    balance: float
    """Σ in − Σ out at a junction, over the largest flow in the network."""
    pipes: float
    """p_i² − p_j² − W·q|q|, over the larger of p_i² and p_j²; links have W = 0."""
    stations: float
    """R·p_i − p_j over p_j, for compressors and regulators."""
    limits: float
    """How far a pressure, flow or ratio is outside its limits, over the limit (flows: over the largest flow)."""
    cost: float

    @property
    def worst(self) -> float:
        """The largest of all violations."""
        return max(self.balance, self.pipes, self.stations, self.limits)


def check_gas_point(network: GasNetwork, demand: Vector, point: GasPoint) -> GasCheck:
    """Evaluate a point for demands in kg/s, one per site."""
    largest = _largest_flow(point, demand)
    return GasCheck(
        balance=_balance(network, demand, point) / largest,
        pipes=_pipes(network, point),
        stations=_stations(network, point),
        limits=_limits(network, point, largest),
        cost=_cost(network, point),
    )


def _largest_flow(point: GasPoint, demand: Vector) -> float:
    flows = [*point.pipe_flow, *point.link_flow, *point.compressor_flow, *point.regulator_flow, *demand]
    return max((abs(float(flow)) for flow in flows), default=0.0) or 1.0


def _balance(network: GasNetwork, demand: Vector, point: GasPoint) -> float:
    surplus = [0.0] * len(network.junction.id)
    for table, flows in (
        (network.pipe, point.pipe_flow),
        (network.link, point.link_flow),
        (network.compressor, point.compressor_flow),
        (network.regulator, point.regulator_flow),
    ):
        for start, end, flow in zip(table.from_junction, table.to_junction, flows, strict=True):
            surplus[start] -= float(flow)
            surplus[end] += float(flow)
    for place, supply in zip(network.receipt.junction, network.receipt.injection, strict=True):
        surplus[place] += float(supply)
    for place, withdrawal in zip(network.site_junction, demand, strict=True):
        surplus[place] -= float(withdrawal)
    regulated = [math.isfinite(pressure) for pressure in network.junction.slack_pressure]
    return max((abs(value) for value, free in zip(surplus, regulated, strict=True) if not free), default=0.0)


def _pipes(network: GasNetwork, point: GasPoint) -> float:
    pipe, worst = network.pipe, 0.0
    for k, flow in enumerate(map(float, point.pipe_flow)):
        start, end = float(point.pressure[pipe.from_junction[k]]), float(point.pressure[pipe.to_junction[k]])
        diameter = float(pipe.diameter[k])
        flux = flow * network.sound_speed / (math.pi * (diameter / 2) ** 2)
        loss = math.copysign(float(pipe.friction_factor[k] * pipe.length[k]) / diameter * flux**2, flow)
        worst = max(worst, abs((start - end) * (start + end) - loss) / max(start, end) ** 2)
    for k in range(len(network.link.id)):
        start = float(point.pressure[network.link.from_junction[k]])
        end = float(point.pressure[network.link.to_junction[k]])
        worst = max(worst, abs(start**2 - end**2) / max(start, end) ** 2)
    return worst


def _stations(network: GasNetwork, point: GasPoint) -> float:
    worst = 0.0
    for table, ratios in (
        (network.compressor, point.compressor_ratio),
        (network.regulator, point.regulator_ratio),
    ):
        for start, end, ratio in zip(table.from_junction, table.to_junction, ratios, strict=True):
            inlet, outlet = float(point.pressure[start]), float(point.pressure[end])
            worst = max(worst, abs(float(ratio) * inlet - outlet) / outlet)
    return worst


def _limits(network: GasNetwork, point: GasPoint, largest: float) -> float:
    worst = 0.0
    junction = network.junction
    for k, pressure in enumerate(map(float, point.pressure)):
        fixed = float(junction.slack_pressure[k])
        lower, upper = (fixed, fixed) if math.isfinite(fixed) else (float(junction.p_min[k]), float(junction.p_max[k]))
        worst = max(worst, (lower - pressure) / upper, (pressure - upper) / upper)
    for lower_flows, upper_flows, flows in (
        (network.pipe.flow_min, network.pipe.flow_max, point.pipe_flow),
        (network.compressor.flow_min, network.compressor.flow_max, point.compressor_flow),
        (network.regulator.flow_min, network.regulator.flow_max, point.regulator_flow),
    ):
        for lower, upper, flow in zip(lower_flows, upper_flows, flows, strict=True):
            worst = max(worst, float(lower - flow) / largest, float(flow - upper) / largest)
    for table, ratios in ((network.compressor, point.compressor_ratio), (network.regulator, point.regulator_ratio)):
        for lower, upper, ratio in zip(table.ratio_min, table.ratio_max, ratios, strict=True):
            worst = max(worst, float(lower - ratio), float(ratio - upper) / max(1.0, float(upper)))
    return worst


def _cost(network: GasNetwork, point: GasPoint) -> float:
    gamma = network.gas.heat_capacity_ratio
    return math.fsum(
        abs(float(flow)) * (max(float(ratio), 1.0) ** (2 * (gamma - 1) / gamma) - 1)
        for flow, ratio in zip(point.compressor_flow, point.compressor_ratio, strict=True)
    )
