"""Power networks as a ``Sector``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridveil.core.choices import Formulation, Names
from gridveil.core.errors import InputError
from gridveil.core.graph import components
from gridveil.core.kept import ZONES
from gridveil.core.secret import SecretField
from gridveil.sectors.builtin import PGLIB_PREFIX, SHIPPED, pglib_names, resolve_case
from gridveil.sectors.case import Case
from gridveil.sectors.geometry import Places
from gridveil.sectors.model import DataLayout, Model
from gridveil.sectors.power.acopf import ac_opf
from gridveil.sectors.power.arrays import structured_arrays
from gridveil.sectors.power.case import power_case
from gridveil.sectors.power.dcopf import dc_opf
from gridveil.sectors.power.export import public_tables
from gridveil.sectors.power.frames import power_solution_frames, public_power_frames
from gridveil.sectors.power.network import PowerNetwork
from gridveil.sectors.power.operating import power_state
from gridveil.sectors.power.places import power_places
from gridveil.sectors.power.read import read_power_file
from gridveil.sectors.power.relaxation import PowerRelaxation
from gridveil.sectors.power.simulate import simulate_loads, total_capacity, usual_loads
from gridveil.sectors.power.view import power_before_and_after
from gridveil.sectors.power.write import can_write, writable_format, write_power_network
from gridveil.sectors.sector import PublicFact, Sector, Solve, identity_texts
from gridveil.sectors.sites import AS_STATED, SiteRule, listed_sites
from gridveil.sectors.view import BeforeAndAfter, Frames, Graph, Sites, ValuePart

Floats = NDArray[np.float64]

PUBLIC_FACTS = (
    PublicFact(
        words="topology: buses, branches and what of them is in service",
        columns=(
            *("bus.id", "bus.isolated", "bus.reference", "bus.base_kv", "bus.area", "bus.zone"),
            *("branch.from_id", "branch.to_id", "branch.in_service"),
        ),
    ),
    PublicFact(
        words="branch parameters and limits",
        columns=(
            *("branch.r", "branch.x", "branch.g_from", "branch.b_from", "branch.g_to", "branch.b_to"),
            *("branch.tap", "branch.shift", "branch.rate", "branch.current", "branch.angle_min", "branch.angle_max"),
        ),
    ),
    PublicFact(words="voltage limits", columns=("bus.v_min", "bus.v_max")),
    PublicFact(words="shunts", columns=("bus.shunt_g", "bus.shunt_b")),
    PublicFact(
        words="generator limits and costs",
        columns=(
            *("generator.bus_id", "generator.in_service", "generator.cost", "generator.reactive_cost"),
            *("generator.p_min", "generator.p_max", "generator.q_min", "generator.q_max"),
        ),
    ),
    PublicFact(
        words="DC lines: ends, limits, losses and costs",
        columns=(
            *("dc_line.from_id", "dc_line.to_id", "dc_line.in_service", "dc_line.cost"),
            *("dc_line.p_min", "dc_line.p_max", "dc_line.loss_0", "dc_line.loss_1"),
            *("dc_line.q_from_min", "dc_line.q_from_max", "dc_line.q_to_min", "dc_line.q_to_max"),
        ),
    ),
    PublicFact(
        words="power limits of storage units",
        columns=(
            *("storage.bus_id", "storage.in_service"),
            *("storage.p_min", "storage.p_max", "storage.q_min", "storage.q_max"),
        ),
    ),
    PublicFact(
        words="limits of static var compensators",
        columns=("compensator.bus_id", "compensator.b_min", "compensator.b_max", "compensator.in_service"),
    ),
    PublicFact(words="the base of per-unit values", columns=("base_mva",)),
    PublicFact(words="names of buses and load sites, where they are kept", columns=("given",)),
    PublicFact(words="which buses have load sites, and how many", columns=("load_bus_id", "load_in_service")),
)


class PowerSector:
    """Transmission networks: AC or DC optimal power flow, loads P + jQ."""

    kind = PowerNetwork.kind
    formulations = (Formulation.AC, Formulation.DC)
    structured = True
    public_facts = PUBLIC_FACTS
    flow_words = "optimal power flow"
    node_word = "bus"
    value_parts = (
        ValuePart(name="active power", symbol="P", unit="MW", column="p_mw"),
        ValuePart(name="reactive power", symbol="Q", unit="MVAr", column="q_mvar"),
    )

    def built_in_names(self) -> list[str]:
        """List the networks shipped with gridveil, and PGLib's."""
        return [*SHIPPED, *pglib_names()]

    def recognises(self, source: str) -> bool:
        """Accept every source: only reading tells whether powerio knows its format. So the registry asks this sector last."""
        return True

    def file_of(self, source: str) -> Path | None:
        """Find the file behind a path or a name."""
        return resolve_case(source)

    def read(self, source: str, options: object, sites: SiteRule) -> Case:
        """Read and check a case; ``options`` says whether names of buses and loads are kept. Without it they are not."""
        if not isinstance(options, Names | None):
            raise InputError(
                "a power network has no boundary conditions; leave out --preset, --slack, --sound-speed, --flow-base and "
                "--demand-unit"
            )
        path = resolve_case(source)
        tables = read_power_file(path, sites)
        return power_case(path.stem.removeprefix(PGLIB_PREFIX), tables, options or Names.PSEUDONYMS)

    def read_places(self, source: str) -> Places:
        """Read names and coordinates of buses."""
        return power_places(resolve_case(source))

    def writes(self, file_format: str) -> bool:
        """Whether powerio can write a format."""
        return can_write(file_format)

    def write(self, network: PowerNetwork, values: NDArray[Any], folder: Path, file_format: str, *, title: str) -> Path:
        """Write the network with released loads, in MATPOWER's format where the source's can only be read."""
        return write_power_network(public_tables(network, values), folder, writable_format(file_format), title=title)

    def read_back(self, network: PowerNetwork, path: Path) -> Case:
        """Read a written network; its file states the base. MATPOWER's has no table of loads, so the list of sites is given."""
        places = [str(bus) for bus in network.bus.id[network.load.bus]]
        return self.read(str(path), None, listed_sites(places) if path.suffix == ".m" else AS_STATED)

    def model(self, network: PowerNetwork, formulation: Formulation) -> Model:
        """Build the AC or the DC optimal power flow; AC with its arrays (costs up to degree two) and its relaxation."""
        ac = formulation is Formulation.AC
        quadratic = not np.any(network.grid.cost.polynomial[3:] != 0)
        return Model(
            kind=self.kind,
            formulation=formulation,
            program=ac_opf(network) if ac else dc_opf(network),
            layout=DataLayout(network.served, with_reactive=ac),
            arrays=(lambda interior: structured_arrays(network, interior)) if ac and quadratic else None,
            relaxation=PowerRelaxation(network.grid) if ac else None,
            supply=total_capacity(network),
            losses=(lambda x, d: _losses(network, x, d)) if ac else None,
        )

    def describe(self, network: PowerNetwork) -> dict[str, object]:
        """Count buses, branches, generators and load sites."""
        grid, cost = network.grid, network.generator.cost
        with_cost = np.union1d(np.flatnonzero(np.any(cost.polynomial != 0, axis=0)), cost.piecewise)
        return {
            "base_mva": network.base_mva,
            "buses": len(network.bus.id),
            "buses_energised": grid.n_bus,
            "islands": len(np.unique(components(grid.n_bus, grid.from_bus, grid.to_bus))),
            "reference_buses": [int(bus) for bus in grid.bus.id[grid.reference]],
            "branches": len(network.branch.rate),
            "branches_in_service": int(network.branch_on.sum()),
            "branches_with_limit": int(np.isfinite(grid.rate).sum()),
            "generators": len(network.generator.bus),
            "generators_in_service": int(network.generator_on.sum()),
            "generators_with_cost": len(with_cost),
            "load_sites": len(network.load.bus),
            "load_sites_served": int(network.served.sum()),
        } | _element_counts(network)

    def identity(self, network: PowerNetwork) -> tuple[str, ...]:
        """List bus ids and the ends of all branches and DC lines, in service or not."""
        names = [str(bus) for bus in network.bus.id]
        edges = (network.branch, network.dc_line)
        start, end = ([int(bus) for one in edges for bus in getattr(one, side)] for side in ("from_bus", "to_bus"))
        return identity_texts(names, start, end)

    def size(self, network: PowerNetwork) -> int:
        """Count buses."""
        return len(network.bus.id)

    def graph(self, network: PowerNetwork) -> Graph:
        """Draw buses, and branches and DC lines in service."""
        branch, line = network.branch, network.dc_line
        edges = ((branch, network.branch_on), (line, network.dc_line_on))
        start, end = (np.concatenate([getattr(one, s)[on] for one, on in edges]) for s in ("from_bus", "to_bus"))
        return Graph(
            n=len(network.bus.id),
            start=start,
            end=end,
            supplied=np.unique(network.generator.bus[network.generator_on]),
            place=network.load.bus,
        )

    def participant_labels(self, network: PowerNetwork, name: str) -> NDArray[np.int64]:
        """The zone or area of each load site, as the file has it: ``name`` is ``zones`` or ``areas``."""
        labels = network.bus.zone if name == ZONES else network.bus.area
        return labels[network.load.bus]

    def revealing_numbers(self, network: PowerNetwork) -> Mapping[str, Floats]:
        """Collect limits, shunts and the base."""
        generator, branch, bus = network.generator, network.branch, network.bus
        return {
            "generator maximum active power": generator.p_max,
            "generator minimum active power": generator.p_min,
            "generator maximum reactive power": generator.q_max,
            "generator minimum reactive power": generator.q_min,
            "branch rating": branch.rate,
            "branch current limit": branch.current,
            "DC line maximum power": network.dc_line.p_max,
            "DC line minimum power": network.dc_line.p_min,
            "storage discharging power": network.storage.p_max,
            "storage charging power": network.storage.p_min,
            "compensator maximum susceptance": network.compensator.b_max,
            "compensator minimum susceptance": network.compensator.b_min,
            "bus shunt conductance": bus.shunt.real,
            "bus shunt susceptance": bus.shunt.imag,
            "base MVA": np.array([1.0]),
        }

    def simulate(
        self,
        network: PowerNetwork,
        field: SecretField,
        nearest: Solve,
        generator: np.random.Generator,
        loading: float | None,
    ) -> tuple[Floats, str]:
        """Simulate loads for the AC program."""
        return simulate_loads(network, nearest, generator, loading)

    def usual_sizes(self, network: PowerNetwork) -> Floats | None:
        """Share half of the generator capacity among the sites as their branches suggest."""
        return usual_loads(network)

    def public_frames(self, network: PowerNetwork) -> Frames:
        """Show buses, branches, generators and sites."""
        return public_power_frames(network)

    def solution_frames(self, network: PowerNetwork, formulation: Formulation, x: Floats) -> Frames:
        """Show generators, buses and branches."""
        return power_solution_frames(network, formulation, x)

    def compare(
        self, network: PowerNetwork, sites: Sites, before: Floats, after: Floats, title: Callable[[str], str]
    ) -> BeforeAndAfter:
        """Compare two AC dispatches."""
        return power_before_and_after(network, sites, power_state(network, before), power_state(network, after), title)


def _losses(network: PowerNetwork, x: Floats, d: Floats) -> float:
    """Active power of all that feeds, less that of the loads; x begins with angles, magnitudes and active outputs."""
    first = 2 * network.grid.n_bus
    return float(np.sum(x[first : first + len(network.grid.generator.bus)]) - np.sum(d[: len(d) // 2]))


def _element_counts(network: PowerNetwork) -> dict[str, object]:
    """Count what most networks have none of, if there is any."""
    counts = {
        "branches_with_current_limit": int(np.isfinite(network.grid.current).sum()),
        "dc_lines_in_service": int(network.dc_line_on.sum()),
        "storage_units_in_service": int(network.storage_on.sum()),
        "compensators_in_service": int(network.compensator_on.sum()),
    }
    return {name: count for name, count in counts.items() if count}


POWER: Sector = PowerSector()
