"""Power networks as typed arrays in per unit on base_mva: the public part of a power case."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from gridveil.sectors.power.costs import GeneratorCosts
from gridveil.sectors.power.given_names import NO_NAMES, GivenNames

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False, kw_only=True)
class Buses:
    """Buses in file order."""

    id: Ints
    isolated: Bools
    reference: Bools
    v_min: Floats
    v_max: Floats
    shunt: Complexes
    """Shunt admittance G + jB per unit: draws conj(shunt)·|V|²."""
    base_kv: Floats
    area: Ints
    zone: Ints


@dataclass(frozen=True, eq=False, kw_only=True)
class Branches:
    """Lines and transformers in file order; ``from_bus`` and ``to_bus`` are positions in Buses."""

    from_bus: Ints
    to_bus: Ints
    impedance: Complexes
    shunt_from: Complexes
    shunt_to: Complexes
    tap: Complexes
    """Complex turns ratio at the from side."""
    rate: Floats
    """Limit on |S| at either end, inf where there is none."""
    angle_min: Floats
    angle_max: Floats
    in_service: Bools


@dataclass(frozen=True, eq=False, kw_only=True)
class Generators:
    """Generators in file order; dispatchable loads are generators with negative limits."""

    bus: Ints
    p_min: Floats
    p_max: Floats
    q_min: Floats
    q_max: Floats
    cost: GeneratorCosts
    in_service: Bools


@dataclass(frozen=True, eq=False, kw_only=True)
class LoadSites:
    """Where loads stand (public); what they draw is in the case's SecretValues, in the same order."""

    bus: Ints
    in_service: Bools


@dataclass(frozen=True, eq=False, kw_only=True)
class Grid:
    """The energised part of a network, renumbered without gaps: what an optimal power flow sees."""

    bus: Buses
    from_bus: Ints
    to_bus: Ints
    y_ff: Complexes
    y_ft: Complexes
    y_tf: Complexes
    y_tt: Complexes
    reactance_susceptance: Floats
    """x / (r² + x²), the branch susceptance of the DC form."""
    rate: Floats
    angle_min: Floats
    angle_max: Floats
    reference: Ints
    """Buses whose angle is zero: those of the file, and one for each island that has none."""
    generator: Generators
    load_bus: Ints
    """Bus of each served load site."""

    @property
    def n_bus(self) -> int:
        """Number of buses."""
        return len(self.bus.id)


@dataclass(frozen=True, eq=False, kw_only=True)
class PowerNetwork:
    """Topology, limits, costs and load sites: everything of a power case but the demands."""

    kind: ClassVar[str] = "power"

    base_mva: float
    bus: Buses
    branch: Branches
    generator: Generators
    load: LoadSites
    given: GivenNames = NO_NAMES

    @cached_property
    def served(self) -> Bools:
        """Whether each load site takes part in the power flow: in service, and not on an isolated bus."""
        return self.load.in_service & ~self.bus.isolated[self.load.bus]

    @cached_property
    def branch_on(self) -> Bools:
        """Whether each branch carries power: in service between two buses that are not isolated."""
        ends_on = ~self.bus.isolated[self.branch.from_bus] & ~self.bus.isolated[self.branch.to_bus]
        return self.branch.in_service & ends_on

    @cached_property
    def generator_on(self) -> Bools:
        """Whether each generator can produce: in service on a bus that is not isolated."""
        return self.generator.in_service & ~self.bus.isolated[self.generator.bus]

    @cached_property
    def grid(self) -> Grid:
        """The energised part of the network."""
        kept = np.flatnonzero(~self.bus.isolated)
        number = np.full(len(self.bus.id), -1)
        number[kept] = np.arange(len(kept))
        branch, on = self.branch, self.branch_on
        from_bus, to_bus = number[branch.from_bus[on]], number[branch.to_bus[on]]
        series, tap = 1 / branch.impedance[on], branch.tap[on]
        bus = _select_buses(self.bus, kept)
        return Grid(
            bus=bus,
            from_bus=from_bus,
            to_bus=to_bus,
            y_ff=(series + branch.shunt_from[on]) / np.abs(tap) ** 2,
            y_ft=-series / np.conj(tap),
            y_tf=-series / tap,
            y_tt=series + branch.shunt_to[on],
            reactance_susceptance=-series.imag,
            rate=branch.rate[on],
            angle_min=branch.angle_min[on],
            angle_max=branch.angle_max[on],
            reference=_references(bus.reference, islands(len(kept), from_bus, to_bus)),
            generator=_select_generators(self.generator, np.flatnonzero(self.generator_on), number),
            load_bus=number[self.load.bus[self.served]],
        )


def islands(n_bus: int, from_bus: Ints, to_bus: Ints) -> Ints:
    """Number the islands: the island of each bus."""
    graph = coo_array((np.ones(len(from_bus)), (from_bus, to_bus)), shape=(n_bus, n_bus))
    return np.asarray(connected_components(graph, directed=False)[1], dtype=np.int64)


def _references(stated: Bools, island: Ints) -> Ints:
    lacking = np.setdiff1d(island, island[stated])
    first_of_island = np.unique(island, return_index=True)[1]
    return np.union1d(np.flatnonzero(stated), first_of_island[lacking])


def _select_buses(bus: Buses, kept: Ints) -> Buses:
    return Buses(**{name: getattr(bus, name)[kept] for name in Buses.__dataclass_fields__})


def _select_generators(generator: Generators, kept: Ints, bus_number: Ints) -> Generators:
    return Generators(
        bus=bus_number[generator.bus[kept]],
        p_min=generator.p_min[kept],
        p_max=generator.p_max[kept],
        q_min=generator.q_min[kept],
        q_max=generator.q_max[kept],
        cost=generator.cost.select(kept),
        in_service=generator.in_service[kept],
    )
