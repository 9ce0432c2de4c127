"""Optimal gas flow: Model 2 of the paper, equation by equation, over whole arrays.

x = (π, q, q_s, R): squared pressures, flows of pipes and links, flows and pressure ratios of stations (compressors, then
regulators), all scaled to order one by public data. Three things make the interior-point solver robust on it:

- squared pressures, so that the pipe equation is linear in them;
- the ratio R as a variable of its own. It could be eliminated (R² = π_j / π_i), but then most high-point relaxations of
  GasLib-135 fail, while with R they converge in some twenty iterations;
- a start with flows that balance some demand. Where q = 0 the pipe equation has no slope in q.

The program is nonconvex and has several local optima: ``random_starts`` give further public x from which costs are checked.

q|q| is continuously differentiable as it stands. |q| in the objective is replaced, only for flows below SMOOTHING flow
scales, by the quartic that meets it with two continuous derivatives: see ``smooth_abs`` and ``cost_error_bound``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import accumulate

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array
from scipy.sparse.linalg import splu

from gridveil.programs import ParametricProgram
from gridveil.programs.families import Rows, Variable, assemble, constant, equal_to_zero, pick, sum_at, symbols
from gridveil.sectors.gas.network import GasNetwork, GasPoint

Vector = NDArray[np.float64]
Ints = NDArray[np.int64]

SMOOTHING = 1e-4  # width of the smoothed |q|, in flow scales
WIDE_SMOOTHING = 0.1  # the same for joint problems that cycle at the kink; the exact follower judges their point
OVERSHOOT = 3 / 8  # how far smooth_abs lies above |q| at q = 0, in widths
TYPICAL_LOSS = 0.01  # share of p² that a typical pipe loses at the flow scale
LEAST_START_FLOW = 0.05  # in flow scales: no pipe starts where its equation has no slope
START_RATIO = 1.1
RANDOM_STARTS = 4  # beside the usual one, for whoever checks a cost: Model 2 is nonconvex and has several local optima
RANDOM_RATIO = 0.5  # random starts draw ratios up to this much above their least
RANDOM_FLOW = 2.0  # standard deviation of random flows, in flow scales


@dataclass(frozen=True, eq=False)
class ScaledGas:
    """The arrays of Model 2 in scaled units: pressures in ``pressure`` Pa, flows in ``flow`` kg/s."""

    pressure: float
    flow: float
    n_junction: int
    balanced: Ints
    """Junctions with a balance row: all but the slacks, whose supply is free."""
    edge_from: Ints
    edge_to: Ints
    weight: Vector
    """Scaled resistance of pipes, 0 for links."""
    edge_flow: tuple[Vector, Vector]
    station_from: Ints
    station_to: Ints
    station_flow: tuple[Vector, Vector]
    ratio: tuple[Vector, Vector]
    n_compressor: int
    pressure_squared: tuple[Vector, Vector]
    injection: Vector
    site_junction: Ints
    flow_base: float
    """Of demands, in flow scales."""
    exponent: float
    """2(γ−1)/γ."""

    @property
    def sizes(self) -> list[int]:
        """Where π, q, q_s and R begin in x, and where x ends."""
        n_station = len(self.station_from)
        return list(accumulate([0, self.n_junction, len(self.edge_from), n_station, n_station]))


def scaled_gas(network: GasNetwork) -> ScaledGas:
    """Scale a network: pressures by the highest regulated one, flows by what costs a typical pipe TYPICAL_LOSS of p²."""
    pressure = float(np.nanmax(network.junction.slack_pressure))
    resistance = network.resistance
    lossy = resistance[resistance > 0]
    flow = pressure * float(np.sqrt(TYPICAL_LOSS / np.median(lossy))) if lossy.size else 1.0
    station = network.station
    slack_pressure = network.junction.slack_pressure
    regulated = np.isfinite(slack_pressure)
    n_link = len(network.link.id)
    free = np.full(n_link, np.inf)
    gamma = network.gas.heat_capacity_ratio
    return ScaledGas(
        pressure=pressure,
        flow=flow,
        n_junction=network.n_junction,
        balanced=np.flatnonzero(~regulated),
        edge_from=np.concatenate([network.pipe.from_junction, network.link.from_junction]),
        edge_to=np.concatenate([network.pipe.to_junction, network.link.to_junction]),
        weight=np.concatenate([resistance * (flow / pressure) ** 2, np.zeros(n_link)]),
        edge_flow=(
            np.concatenate([network.pipe.flow_min, -free]) / flow,
            np.concatenate([network.pipe.flow_max, free]) / flow,
        ),
        station_from=station.from_junction,
        station_to=station.to_junction,
        station_flow=(station.flow_min / flow, station.flow_max / flow),
        ratio=(station.ratio_min, station.ratio_max),
        n_compressor=len(network.compressor.id),
        pressure_squared=(
            (np.where(regulated, slack_pressure, network.junction.p_min) / pressure) ** 2,
            (np.where(regulated, slack_pressure, network.junction.p_max) / pressure) ** 2,
        ),
        injection=network.injection / flow,
        site_junction=network.site_junction,
        flow_base=network.flow_base / flow,
        exponent=2 * (gamma - 1) / gamma,
    )


def optimal_gas_flow(network: GasNetwork) -> ParametricProgram:
    """O(d) with d the demands of the sites in units of the flow base; cost in kg/s, as the paper's objective with μ = 1."""
    gas = scaled_gas(network)
    typical = _typical_demand(gas)
    start = ogf_start(network, typical)
    pieces = np.split(start, gas.sizes[1:-1])
    bounds = (gas.pressure_squared, gas.edge_flow, gas.station_flow, gas.ratio)
    variables = [Variable(lower, upper, piece) for (lower, upper), piece in zip(bounds, pieces, strict=True)]
    x, (pressure, flow, station_flow, ratio) = symbols(variables)
    d = ca.MX.sym("d", len(gas.site_junction))
    rows = [
        constraint_flow_balance(gas, flow, station_flow, d),
        constraint_weymouth(gas, pressure, flow),
        constraint_compression(gas, pressure, ratio),
    ]
    return assemble(
        "OGF",
        x,
        d,
        variables,
        rows,
        objective_compression(gas, station_flow, ratio, SMOOTHING),
        smoothed_cost=objective_compression(gas, station_flow, ratio, WIDE_SMOOTHING),
        cost_unit="kg/s",
        adaptive_barrier=True,
        typical=typical,
        starts=(start, *random_starts(network, typical, count=RANDOM_STARTS, seed=0)),
        more_starts=(partial(ogf_start, network),),
    )


def constraint_flow_balance(gas: ScaledGas, flow: ca.MX, station_flow: ca.MX, d: ca.MX) -> Rows:
    """(10) with q_i of (13): what leaves a junction is what is supplied there less what is withdrawn; slacks are free."""
    leaving = _incidence(gas.edge_from, gas.edge_to, gas.n_junction) @ flow
    through = _incidence(gas.station_from, gas.station_to, gas.n_junction) @ station_flow
    withdrawn = gas.flow_base * (sum_at(gas.site_junction, gas.n_junction) @ d)
    balance = leaving + through + withdrawn - constant(gas.injection)
    return equal_to_zero(pick(balance, gas.balanced))


def constraint_weymouth(gas: ScaledGas, pressure: ca.MX, flow: ca.MX) -> Rows:
    """(15): π_i − π_j = w·q|q|; links have w = 0."""
    loss = _incidence(gas.edge_from, gas.edge_to, gas.n_junction).T @ pressure
    return equal_to_zero(loss - constant(gas.weight) * flow * ca.fabs(flow))


def constraint_compression(gas: ScaledGas, pressure: ca.MX, ratio: ca.MX) -> Rows:
    """(14) with L = 0: R²·π_i = π_j; for regulators R is at most one."""
    inlet = sum_at(gas.station_from, gas.n_junction).T @ pressure
    outlet = sum_at(gas.station_to, gas.n_junction).T @ pressure
    return equal_to_zero(ratio**2 * inlet - outlet)


def objective_compression(gas: ScaledGas, station_flow: ca.MX, ratio: ca.MX, width: float) -> ca.MX:
    """(9) with μ = 1, in kg/s; max{R, 1} is R for compressors and 1 for regulators, which therefore cost nothing."""
    n = gas.n_compressor
    return gas.flow * ca.dot(smooth_abs(station_flow[:n], width), ratio[:n] ** gas.exponent - 1)


def smooth_abs(q: ca.MX, width: float) -> ca.MX:
    """Smoothed |q|: exact where |q| ≥ width, and below that the quartic that continues it with two derivatives.

    It lies above |q| by OVERSHOOT widths at most, at q = 0.
    """
    inside = ca.fmin(ca.fmax(q / width, -1), 1) ** 2
    return ca.fmax(ca.fabs(q), width) + width * (-(inside**2) + 6 * inside - 5) / 8


def cost_error_bound(network: GasNetwork) -> float:
    """Bound how far the smoothed cost can exceed the exact one (kg/s): every compressor idle at its largest ratio."""
    gas = scaled_gas(network)
    return SMOOTHING * OVERSHOOT * gas.flow * float(np.sum(network.compressor.ratio_max**gas.exponent - 1))


def ogf_start(network: GasNetwork, d: Vector) -> Vector:
    """Construct an x with the least-squares flows that balance the demands d, and pressures mid-range.

    d must not be the true demands: public guesses or noisy demands only.
    """
    gas = scaled_gas(network)
    edges = np.concatenate([gas.edge_from, gas.station_from]), np.concatenate([gas.edge_to, gas.station_to])
    supply = gas.injection.copy()
    np.subtract.at(supply, gas.site_junction, gas.flow_base * d)
    flow = _least_flows(*edges, supply, gas.balanced)
    flow = np.where(np.abs(flow) < LEAST_START_FLOW, np.copysign(LEAST_START_FLOW, flow), flow)
    n_edge = len(gas.edge_from)
    lower, upper = gas.pressure_squared
    ratio = np.full(len(gas.station_from), START_RATIO)
    pieces = [(lower + upper) / 2, flow[:n_edge], flow[n_edge:], ratio]
    limits = [gas.pressure_squared, gas.edge_flow, gas.station_flow, gas.ratio]
    return np.concatenate([np.clip(piece, *limit) for piece, limit in zip(pieces, limits, strict=True)])


def random_starts(network: GasNetwork, d: Vector, *, count: int, seed: int) -> Iterator[Vector]:
    """Draw x spread over the limits of pressures and ratios, with random flows around balanced ones; d as for ``ogf_start``."""
    generator, gas = np.random.default_rng(seed), scaled_gas(network)
    _, flow, station_flow, _ = np.split(ogf_start(network, d), gas.sizes[1:-1])
    lower, upper = gas.pressure_squared
    for _ in range(count):
        ratio = gas.ratio[0] + RANDOM_RATIO * generator.random(len(gas.ratio[0]))
        yield np.concatenate(
            [
                lower + (upper - lower) * generator.random(len(lower)),
                np.clip(flow + RANDOM_FLOW * generator.standard_normal(len(flow)), *gas.edge_flow),
                np.clip(station_flow + RANDOM_FLOW * generator.standard_normal(len(station_flow)), *gas.station_flow),
                np.clip(ratio, *gas.ratio),
            ]
        )


def ogf_point(network: GasNetwork, x: Vector) -> GasPoint:
    """Convert x to SI units."""
    gas = scaled_gas(network)
    squared, flow, station_flow, ratio = np.split(x, gas.sizes[1:-1])
    n_pipe, n = len(network.pipe.id), gas.n_compressor
    return GasPoint(
        pressure=gas.pressure * np.sqrt(np.maximum(squared, 0.0)),
        pipe_flow=gas.flow * flow[:n_pipe],
        link_flow=gas.flow * flow[n_pipe:],
        compressor_flow=gas.flow * station_flow[:n],
        compressor_ratio=ratio[:n],
        regulator_flow=gas.flow * station_flow[n:],
        regulator_ratio=ratio[n:],
    )


def _typical_demand(gas: ScaledGas) -> Vector:
    """A public guess: the fixed supplies (or, without any, one flow scale) spread evenly over the sites."""
    n_site = len(gas.site_junction)
    return np.full(n_site, max(1.0, float(gas.injection.sum())) / (n_site * gas.flow_base))


def _least_flows(start: Ints, end: Ints, supply: Vector, balanced: Ints) -> Vector:
    """Solve min ‖q‖² subject to B·q = supply at the balanced junctions: q = Bᵀy with B·Bᵀ·y = supply."""
    edge = np.arange(len(start))
    signs = np.concatenate([np.ones(len(start)), -np.ones(len(end))])
    places = np.concatenate([start, end]), np.concatenate([edge, edge])
    rows = csc_array((signs, places), shape=(len(supply), len(start))).tocsr()[balanced]
    return np.asarray(rows.T @ splu((rows @ rows.T).tocsc()).solve(supply[balanced]))


def _incidence(start: Ints, end: Ints, n: int) -> ca.DM:
    return sum_at(start, n) - sum_at(end, n)
