"""Synthetic gas networks of any size, from a seed: transmission systems of zones, each behind a compressor station.

They are built backwards from an operating point, so each is feasible by construction:

- Zones form a tree. A station lifts the gas to DISCHARGE and the zone's trunk lets it fall to SUCTION at its far end, where
  the next stations stand, some with an entry that feeds in part of what lies beyond. Demands hang on laterals.
- Diameters are standard sizes; lengths follow from the flow and the loss that the operating point needs.
- Cross links between laterals of a zone close loops. What one carries at the operating point is taken from the demand at
  its start and added to the one at its end, so the other flows stay as they are.

Compression cannot be avoided: the loss along a trunk depends on flows only, not on the pressure level, and without
compression one zone takes the gas from SUPPLY to below LEAST. So the optimal cost is positive.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from gridveil.core.errors import InputError
from gridveil.sectors.gas.tables import (
    GasProperties,
    GasTables,
    JunctionTable,
    PipeTable,
    delivery_table,
    link_table,
    receipt_table,
    station_table,
)

SUPPLY, DISCHARGE, SUCTION = 5.0e6, 7.0e6, 5.3e6  # Pa
LEAST, MOST = 4.0e6, 8.0e6  # Pa
LARGEST_RATIO = 1.8
LINE_FLOW = 600.0  # kg/s: a trunk that carries more gets parallel lines
SOUND_SPEED = 350.0  # m/s
ROUGHNESS = 5e-5  # m
DIAMETERS = (0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.4)
TRUNK_LENGTH = (12e3, 35e3)  # m, before it is fitted to the diameter
LATERAL_LENGTH = (4e3, 30e3)
LATERAL_LOSS = (0.01, 0.08)  # share of p²
DEMAND = (1.5, 11.0)  # kg/s
CROSS_LINK_LENGTH = (3e3, 120e3)
CROSS_LINK_SHARE = 0.25  # of the smaller demand at its ends


@dataclass
class _Plan:
    """A network under construction together with its operating point; junctions are numbered from 0."""

    rng: np.random.Generator
    squared: list[float] = field(default_factory=list)
    demand: list[float] = field(default_factory=list)
    pipes: list[tuple[int, int, float, float]] = field(default_factory=list)
    stations: list[tuple[int, int]] = field(default_factory=list)
    entries: list[tuple[int, float]] = field(default_factory=list)

    def junction(self, squared: float) -> int:
        self.squared.append(squared)
        self.demand.append(0.0)
        return len(self.squared) - 1

    def between(self, limits: tuple[float, float]) -> float:
        return limits[0] + (limits[1] - limits[0]) * float(self.rng.random())

    def pipe(self, start: int, loss: float, length: float, flow: float, lines: int = 1) -> int:
        """Add a pipe (or parallel lines) to a new junction that loses ``loss`` of p²; the length is fitted to a standard size."""
        end = self.junction(self.squared[start] - loss)
        fitted = [(size, _length(size, loss, flow / lines)) for size in DIAMETERS]
        diameter, real_length = min(fitted, key=lambda pair: abs(math.log(pair[1] / length)))
        self.pipes += [(start, end, diameter, real_length)] * lines
        return end


@dataclass(frozen=True)
class _Zone:
    parent: int | None
    laterals: tuple[tuple[float, ...], ...]
    """Demands along each lateral, from the trunk outwards."""

    @property
    def demand(self) -> float:
        return sum(map(sum, self.laterals))


def generate_gas_network(*, deliveries: int, stations: int, seed: int) -> GasTables:
    """Generate a network with this many deliveries and compressor stations; deterministic in its arguments."""
    if stations < 1 or deliveries < 2 * stations:
        raise InputError("a synthetic gas network needs at least one compressor station and two deliveries for each")
    plan = _Plan(np.random.default_rng(seed))
    zones = _zones(plan, deliveries, stations)
    entry_share = [plan.between((0.3, 0.6)) if plan.rng.random() < 0.5 else 0.0 for _ in zones]
    beyond = [0.0] * len(zones)
    for k in reversed(range(len(zones))):
        parent = zones[k].parent
        if parent is not None:
            beyond[parent] += zones[k].demand + (1 - entry_share[k]) * beyond[k]
    source = plan.junction(SUPPLY**2)
    ends: list[int] = []
    for k, zone in enumerate(zones):
        start = source if zone.parent is None else ends[zone.parent]
        ends.append(_build_zone(plan, zone, start, (1 - entry_share[k]) * beyond[k]))
        if entry_share[k] * beyond[k] > 0:
            plan.entries.append((ends[k], entry_share[k] * beyond[k]))
    return _tables(plan, source)


def _zones(plan: _Plan, deliveries: int, stations: int) -> list[_Zone]:
    """Draw the tree of zones (at most two behind one) and the laterals with their demands."""
    parents: list[int | None] = [None]
    for k in range(1, stations):
        open_zones = [zone for zone in range(k) if parents.count(zone) < 2]
        chain = plan.rng.random() < 0.6 and parents.count(k - 1) < 2
        parents.append(k - 1 if chain else open_zones[int(plan.rng.random() * len(open_zones))])
    laterals: list[list[list[float]]] = [[] for _ in range(stations)]
    for k in range(deliveries):
        zone = laterals[k % stations if k < 2 * stations else int(plan.rng.random() * stations)]
        demand = DEMAND[0] + (DEMAND[1] - DEMAND[0]) * float(plan.rng.random()) ** 2
        if zone and len(zone[-1]) < 3 and plan.rng.random() < 0.4:
            zone[-1].append(demand)
        else:
            zone.append([demand])
    return [_Zone(parent, tuple(map(tuple, rows))) for parent, rows in zip(parents, laterals, strict=True)]


def _build_zone(plan: _Plan, zone: _Zone, start: int, leaving: float) -> int:
    """Add a station, a trunk, its laterals and cross links; return the far end of the trunk, which ``leaving`` kg/s leave."""
    node = plan.junction(DISCHARGE**2)
    plan.stations.append((start, node))
    segments = max(2, math.ceil(len(zone.laterals) / 3))
    drawn = [plan.between(TRUNK_LENGTH) for _ in range(segments)]
    at = [1 + int(plan.rng.random() * segments) for _ in zone.laterals]
    if leaving <= 0:
        at[0] = segments  # gas must flow to the very end, or the trunk would lose less than it should
    sites: list[int] = []
    for k, length in enumerate(drawn, start=1):
        flow = leaving + sum(sum(row) for row, place in zip(zone.laterals, at, strict=True) if place >= k)
        loss = (DISCHARGE**2 - SUCTION**2) * length / sum(drawn)
        lines = math.ceil(flow / LINE_FLOW) + (plan.rng.random() < 0.2)
        node = plan.pipe(node, loss, length, flow, lines)
        for row, place in zip(zone.laterals, at, strict=True):
            if place == k:
                sites += _build_lateral(plan, node, row)
    _close_loops(plan, sites)
    return node


def _build_lateral(plan: _Plan, start: int, demands: tuple[float, ...]) -> list[int]:
    sites, node = [], start
    for k, demand in enumerate(demands):
        loss = plan.between(LATERAL_LOSS) * plan.squared[node]
        node = plan.pipe(node, loss, plan.between(LATERAL_LENGTH), sum(demands[k:]))
        plan.demand[node] = demand
        sites.append(node)
    return sites


def _close_loops(plan: _Plan, sites: list[int]) -> None:
    """Add a cross link between every fourth site and the next, where a standard size gives it a sensible length."""
    for first, second in zip(sites[1::4], sites[2::4], strict=False):
        high, low = (first, second) if plan.squared[first] > plan.squared[second] else (second, first)
        flow = CROSS_LINK_SHARE * min(plan.demand[first], plan.demand[second])
        lengths = {size: _length(size, plan.squared[high] - plan.squared[low], flow) for size in DIAMETERS}
        fitting = [size for size, length in lengths.items() if CROSS_LINK_LENGTH[0] <= length <= CROSS_LINK_LENGTH[1]]
        if fitting:
            plan.pipes.append((high, low, fitting[0], lengths[fitting[0]]))
            plan.demand[high] -= flow
            plan.demand[low] += flow


def _friction(diameter: float) -> float:
    return (2 * math.log10(diameter / ROUGHNESS) + 1.138) ** -2


def _length(diameter: float, loss: float, flow: float) -> float:
    """Length (m) at which a pipe with this flow loses ``loss`` of p²: Weymouth's equation solved for L."""
    area = math.pi * diameter**2 / 4
    return loss * diameter * area**2 / (_friction(diameter) * SOUND_SPEED**2 * flow**2)


def _tables(plan: _Plan, source: int) -> GasTables:
    n, pipes = len(plan.squared), plan.pipes
    slack = np.full(n, np.nan)
    slack[source] = SUPPLY
    diameter = np.array([pipe[2] for pipe in pipes])
    sites = [place for place, demand in enumerate(plan.demand) if demand > 0]
    unlimited = np.full(len(pipes), np.inf)
    return GasTables(
        junction=JunctionTable(
            id=tuple(str(k + 1) for k in range(n)),
            p_min=np.full(n, LEAST),
            p_max=np.full(n, MOST),
            slack_pressure=slack,
        ),
        pipe=PipeTable(
            id=tuple(str(k + 1) for k in range(len(pipes))),
            from_junction=np.array([pipe[0] for pipe in pipes], dtype=np.int64),
            to_junction=np.array([pipe[1] for pipe in pipes], dtype=np.int64),
            diameter=diameter,
            length=np.array([pipe[3] for pipe in pipes]),
            friction_factor=np.array([_friction(size) for size in diameter.tolist()]),
            flow_min=-unlimited,
            flow_max=unlimited,
        ),
        link=link_table(),
        compressor=station_table(
            id=[str(k + 1) for k in range(len(plan.stations))],
            from_junction=[start for start, _ in plan.stations],
            to_junction=[end for _, end in plan.stations],
            ratio_min=[1.0] * len(plan.stations),
            ratio_max=[LARGEST_RATIO] * len(plan.stations),
            flow_min=[-np.inf] * len(plan.stations),
            flow_max=[np.inf] * len(plan.stations),
        ),
        regulator=station_table(),
        receipt=receipt_table([place for place, _ in plan.entries], [flow for _, flow in plan.entries]),
        delivery=delivery_table(sites, [plan.demand[place] for place in sites]),
        gas=GasProperties(stated_sound_speed=SOUND_SPEED),
        file_format="generated",
        notes=(f"synthetic network, feasible by construction: {len(sites)} deliveries, {len(plan.stations)} stations",),
    )


BUILT_IN: Mapping[str, Callable[[], GasTables]] = {
    "veilgas": lambda: generate_gas_network(deliveries=6, stations=2, seed=1),
    "veilgas-national": lambda: generate_gas_network(deliveries=180, stations=22, seed=1),
}
