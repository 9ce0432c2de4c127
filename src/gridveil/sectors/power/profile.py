"""What people read off a network's optimum: prices, binding lines, losses, balances of zones, severity of outages."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from gridveil.core.kept import AREAS, ZONES
from gridveil.programs.compilation import compilation_is_postponed
from gridveil.sectors.partition import graph_partition
from gridveil.sectors.power.network import Grid, PowerNetwork
from gridveil.sectors.power.operating import power_state
from gridveil.sectors.view import Graph

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
BINDING = 0.999  # share of its limit from which a line counts as full
ZONES_OF_GRAPH = 10  # where the file has neither zones nor areas
MOST_OUTAGES = 10
WORST_BALANCE = 1e-8  # of a unit of power, at any bus: more, and a flow by the DC law is solved again with pivots
BRIDGE = 1e-6  # of its own flow that an outage leaves to other lines: less, and the line is a bridge


@dataclass(frozen=True, kw_only=True)
class OperatingProfile:
    """The optimum of one set of demands in numbers that people use; empty where there is none. MW and $/MWh.

    Of demands that are secret it is as secret as they are.
    """

    solved: bool
    cost: float | None = None
    losses: float | None = None
    prices: tuple[float, ...] = ()
    """Of active power, at each served load site."""
    price_quantiles: tuple[float, ...] = ()
    """At ``QUANTILES`` of the sites."""
    binding: tuple[int, ...] = ()
    """Positions of full lines among the energised branches."""
    loading: tuple[float, ...] = ()
    """Share of its limit that each energised branch carries; NaN without a limit."""
    zone_demand: tuple[float, ...] = ()
    zone_generation: tuple[float, ...] = ()
    severity: tuple[float, ...] = ()
    """Worst loading of any other line after the outage of each line asked for; NaN where that would island a part."""


def bus_zones(network: PowerNetwork) -> tuple[str, Ints]:
    """The zone of each energised bus: by the file's zones or areas, else by a partition of the graph; and which of these."""
    grid = network.grid
    for name, labels in ((ZONES, grid.bus.zone), (AREAS, grid.bus.area)):
        numbers = np.unique(labels, return_inverse=True)[1]
        if numbers.max(initial=0) > 0:
            return name, numbers.astype(np.int64)
    graph = Graph(n=grid.n_bus, start=grid.from_bus, end=grid.to_bus, supplied=grid.generator.bus, place=grid.load_bus)
    parts = min(ZONES_OF_GRAPH, max(len(grid.load_bus), 1))
    return f"{parts} zones of the graph", graph_partition(graph, parts) if parts > 1 else np.zeros(grid.n_bus, np.int64)


def operating_profile(
    network: PowerNetwork, x: Floats, d: Floats, prices: Floats, cost: float, outages: tuple[int, ...]
) -> OperatingProfile:
    """The profile of an optimum x at the program's d, with ∂O/∂d as ``prices``; ``outages`` are positions of branches."""
    grid, base = network.grid, network.base_mva
    state, n = power_state(network, x), len(grid.load_bus)
    zone = bus_zones(network)[1]
    count = int(zone.max(initial=0)) + 1
    demand = np.bincount(zone[grid.load_bus], d[:n], minlength=count) * base
    units = grid.generator.bus[: grid.n_unit]
    generation = np.bincount(zone[units], state.generation.real, minlength=count)
    nodal = prices[:n] / base
    return OperatingProfile(
        solved=True,
        cost=float(cost),
        losses=float(state.generation.real.sum() - d[:n].sum() * base),
        prices=tuple(nodal.tolist()),
        price_quantiles=tuple(np.quantile(nodal, QUANTILES).tolist()) if n else (),
        binding=tuple(np.flatnonzero(state.loading >= BINDING).tolist()),
        loading=tuple(state.loading.tolist()),
        zone_demand=tuple(demand.tolist()),
        zone_generation=tuple(generation.tolist()),
        severity=tuple(outage_severity(grid, x, outages).tolist()),
    )


def worst_lines(profile: OperatingProfile, most: int = MOST_OUTAGES) -> tuple[int, ...]:
    """The fullest lines of an optimum, fullest first: those whose outage is looked at."""
    loading = np.nan_to_num(np.array(profile.loading), nan=-1.0)
    order = np.argsort(-loading, kind="stable")[:most]
    return tuple(order[loading[order] > 0].tolist())


def outage_severity(grid: Grid, x: Floats, outages: tuple[int, ...]) -> Floats:
    """Worst loading of the other lines after each outage: AC flows of the optimum, redistributed by the DC law.

    An outage of line k leaves PTDF_lk/(1 − PTDF_kk) of its active flow to line l; reactive flows stay. (L,) rates in |S|.
    """
    if not outages:
        return np.zeros(0)
    n = grid.n_bus
    voltage = x[n : 2 * n] * np.exp(1j * x[:n])
    at_from, at_to = voltage[grid.from_bus], voltage[grid.to_bus]
    flow = at_from * np.conj(grid.y_ff * at_from + grid.y_ft * at_to)
    found = np.full(len(outages), np.nan)
    for position, (line, shares) in enumerate(zip(outages, _transfer_shares(grid, outages), strict=True)):
        if abs(1 - shares[line]) < BRIDGE:
            continue
        active = flow.real + shares / (1 - shares[line]) * flow.real[line]
        loading = np.hypot(active, flow.imag) / np.where(grid.rate > 0, grid.rate, np.inf)
        loading[line] = 0.0
        found[position] = float(np.max(loading))
    return found


@lru_cache(maxsize=2)  # several optima of one network are looked at, one after the other
def _transfer_shares(grid: Grid, lines: tuple[int, ...]) -> Floats:
    """PTDF: what each branch carries of a unit sent from the start of each line to its end, (lines, branches), by the DC law."""
    chosen, susceptance = np.array(lines, dtype=np.int64), grid.reactance_susceptance
    injection, column = np.zeros((grid.n_bus, len(lines))), np.arange(len(lines))
    np.add.at(injection, (grid.from_bus[chosen], column), 1.0)
    np.subtract.at(injection, (grid.to_bus[chosen], column), 1.0)
    grounded = np.isin(np.arange(grid.n_bus), grid.reference)
    for angles in (_angles_by_kernel, _angles_by_scipy):
        angle = angles(grid, injection, grounded)
        if angle is None:
            continue
        carried = susceptance[:, None] * (angle[grid.from_bus] - angle[grid.to_bus])
        missing = injection.copy()
        np.subtract.at(missing, grid.from_bus, carried)
        np.add.at(missing, grid.to_bus, carried)
        if np.all(np.abs(missing[~grounded]) <= WORST_BALANCE):
            break
    return np.asarray(carried.T)


def _angles_by_kernel(grid: Grid, injection: Floats, grounded: NDArray[np.bool_]) -> Floats | None:
    """Angles (N, k) of a DC power flow; None where kernels are not compiled. Reactances of both signs may spoil them."""
    if compilation_is_postponed():
        return None
    from gridveil.programs.bus_order import analyse
    from gridveil.programs.potentials import driven_potentials

    order = analyse(grid.n_bus, grid.from_bus, grid.to_bus, np.zeros(grid.n_bus, dtype=bool))
    at = order.position
    return driven_potentials(
        order,
        at[grid.from_bus],
        at[grid.to_bus],
        weight=grid.reactance_susceptance,
        injection=injection[order.bus_at],
        grounded=grounded[order.bus_at],
    )[at]


def _angles_by_scipy(grid: Grid, injection: Floats, grounded: NDArray[np.bool_]) -> Floats:
    """The same by a factorisation with pivots."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.linalg import splu

    susceptance, free = grid.reactance_susceptance, np.flatnonzero(~grounded)
    rows = np.concatenate([grid.from_bus, grid.to_bus, grid.from_bus, grid.to_bus])
    columns = np.concatenate([grid.from_bus, grid.to_bus, grid.to_bus, grid.from_bus])
    entries = np.concatenate([susceptance, susceptance, -susceptance, -susceptance])
    whole = coo_matrix((entries, (rows, columns)), shape=(grid.n_bus, grid.n_bus)).tocsc()
    angle = np.zeros_like(injection)
    angle[free] = splu(whole[free][:, free]).solve(injection[free])
    return angle


def unsolved_profile(network: PowerNetwork, d: Floats) -> OperatingProfile:
    """What is left where there is no optimum: the demands of zones."""
    zone, n = bus_zones(network)[1], len(network.grid.load_bus)
    demand = np.bincount(zone[network.grid.load_bus], d[:n], minlength=int(zone.max(initial=0)) + 1)
    return OperatingProfile(solved=False, zone_demand=tuple((demand * network.base_mva).tolist()))


def profiled(network: object) -> PowerNetwork | None:
    """The network, if profiles can be made of it; None if it is of another sector."""
    return network if isinstance(network, PowerNetwork) else None
