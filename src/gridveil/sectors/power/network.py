"""Power networks as typed arrays in per unit on base_mva: the public part of a power case."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from gridveil.core.graph import components
from gridveil.sectors.power.costs import GeneratorCosts, joined_costs, no_costs
from gridveil.sectors.power.elements import (
    Compensators,
    DcLines,
    StorageUnits,
    energised,
    no_compensators,
    no_dc_lines,
    no_storage,
    select,
)
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
    current: Floats
    """Limit on |I| at either end, inf where there is none."""
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
    reactive_cost: GeneratorCosts
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
    current: Floats
    angle_min: Floats
    angle_max: Floats
    reference: Ints
    """Buses whose angle is zero: those of the file, and one for each island that has none."""
    generator: Generators
    """All that feeds power: generators, then storage units, then the from and the to ends of DC lines, which feed Q alone."""
    dc_line: DcLines
    compensator: Compensators
    load_bus: Ints
    """Bus of each served load site."""

    @property
    def n_unit(self) -> int:
        """Number of generators and storage units: the first rows of ``generator``."""
        return len(self.generator.bus) - 2 * len(self.dc_line.from_bus)

    @cached_property
    def active_cost(self) -> GeneratorCosts:
        """Cost of the active power of ``generator``, then of each DC line."""
        return joined_costs(self.generator.cost, self.dc_line.cost)

    @cached_property
    def cost(self) -> GeneratorCosts:
        """Cost of the active and of the reactive power of ``generator``, then of each DC line."""
        return joined_costs(self.generator.cost, self.generator.reactive_cost, self.dc_line.cost)

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
    dc_line: DcLines = field(default_factory=no_dc_lines)
    storage: StorageUnits = field(default_factory=no_storage)
    compensator: Compensators = field(default_factory=no_compensators)
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
    def dc_line_on(self) -> Bools:
        """Whether each DC line can carry power: in service between two buses that are not isolated."""
        return energised(self.dc_line, self.bus.isolated)

    @cached_property
    def storage_on(self) -> Bools:
        """Whether each storage unit can feed or draw: in service on a bus that is not isolated."""
        return energised(self.storage, self.bus.isolated)

    @cached_property
    def compensator_on(self) -> Bools:
        """Whether each compensator works: in service on a bus that is not isolated."""
        return energised(self.compensator, self.bus.isolated)

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
        generator = _select_generators(self.generator, np.flatnonzero(self.generator_on), number)
        storage = select(self.storage, np.flatnonzero(self.storage_on), number)
        dc_line = select(self.dc_line, np.flatnonzero(self.dc_line_on), number)
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
            current=branch.current[on],
            angle_min=branch.angle_min[on],
            angle_max=branch.angle_max[on],
            reference=_references(bus.reference, components(len(kept), from_bus, to_bus)),
            generator=_with_units(generator, storage, dc_line),
            dc_line=dc_line,
            compensator=select(self.compensator, np.flatnonzero(self.compensator_on), number),
            load_bus=number[self.load.bus[self.served]],
        )


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
        reactive_cost=generator.reactive_cost.select(kept),
        in_service=generator.in_service[kept],
    )


def _with_units(generator: Generators, storage: StorageUnits, dc_line: DcLines) -> Generators:
    """Append storage units and the ends of DC lines to generators: feeders without cost."""
    idle = np.zeros(len(dc_line.from_bus))
    free = len(storage.bus) + 2 * len(idle)
    return Generators(
        bus=np.concatenate([generator.bus, storage.bus, dc_line.from_bus, dc_line.to_bus]),
        p_min=np.concatenate([generator.p_min, storage.p_min, idle, idle]),
        p_max=np.concatenate([generator.p_max, storage.p_max, idle, idle]),
        q_min=np.concatenate([generator.q_min, storage.q_min, dc_line.q_from_min, dc_line.q_to_min]),
        q_max=np.concatenate([generator.q_max, storage.q_max, dc_line.q_from_max, dc_line.q_to_max]),
        cost=joined_costs(generator.cost, no_costs(free)),
        reactive_cost=joined_costs(generator.reactive_cost, no_costs(free)),
        in_service=np.ones(len(generator.bus) + free, dtype=bool),
    )
