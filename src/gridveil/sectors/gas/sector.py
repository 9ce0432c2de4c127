"""Gas networks as a ``Sector``. Its parts are imported where they are used: a power network needs none of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gridveil.core.choices import Formulation
from gridveil.core.errors import InputError
from gridveil.core.secret import Secret, SecretField
from gridveil.sectors.builtin import resolve_case
from gridveil.sectors.case import Case
from gridveil.sectors.gas.boundary import GasBoundary
from gridveil.sectors.gas.generator import BUILT_IN
from gridveil.sectors.gas.network import GasNetwork, gas_network_from_tables, public_gas_tables, withdrawal_field
from gridveil.sectors.gas.read import is_gas_file, read_gas_file
from gridveil.sectors.gas.simulate import simulate_withdrawals, usual_withdrawals
from gridveil.sectors.gas.tables import Ints
from gridveil.sectors.geometry import Places
from gridveil.sectors.model import DataLayout, Model
from gridveil.sectors.sector import PublicFact, Sector, Solve, identity_texts
from gridveil.sectors.sites import AS_STATED, SiteRule
from gridveil.sectors.view import BeforeAndAfter, Frames, Graph, Sites, ValuePart

Floats = NDArray[np.float64]

GASLIB, MATGAS = "gaslib", "matgas"
EDGES = ("pipe", "link", "compressor", "regulator")

PUBLIC_FACTS = (
    PublicFact(
        words="topology: junctions, pipes, links, compressors and regulators",
        columns=("junction.id", *(f"{edge}.{end}_junction" for edge in EDGES for end in ("from", "to"))),
    ),
    PublicFact(
        words="parameters and flow limits of pipes, compressors and regulators",
        columns=(
            *("pipe.diameter", "pipe.length", "pipe.friction_factor", "pipe.flow_min", "pipe.flow_max"),
            *("compressor.ratio_min", "compressor.ratio_max", "compressor.flow_min", "compressor.flow_max"),
            *("regulator.ratio_min", "regulator.ratio_max", "regulator.flow_min", "regulator.flow_max"),
        ),
    ),
    PublicFact(
        words="properties of the gas and its speed of sound",
        columns=(
            *("gas.heat_capacity_ratio", "gas.temperature", "gas.compressibility"),
            *("gas.molar_mass", "gas.stated_sound_speed"),
        ),
    ),
    PublicFact(words="pressure limits", columns=("junction.p_min", "junction.p_max")),
    PublicFact(words="regulated pressures", columns=("junction.slack_pressure",)),
    PublicFact(
        words="fixed injections of other supplies (their sum is near the total demand)",
        columns=("receipt.junction", "receipt.injection"),
    ),
    PublicFact(words="which junctions have delivery sites, and how many", columns=("delivery_junction",)),
)


class GasSector:
    """Transmission networks of gas: Model 2 of the paper, withdrawals of deliveries."""

    kind = GasNetwork.kind
    formulations = (Formulation.AC,)
    structured = False
    public_facts = PUBLIC_FACTS
    flow_words = "optimal gas flow"
    node_word = "junction"
    value_parts = (ValuePart(name="withdrawal", symbol="q", unit="kg/s", column="kg_per_s"),)

    def built_in_names(self) -> list[str]:
        """List the generated networks."""
        return list(BUILT_IN)

    def recognises(self, source: str) -> bool:
        """Whether a source is a generated network, or a file that says it is a gas network."""
        return source in BUILT_IN or is_gas_file(Path(source))

    def file_of(self, source: str) -> Path | None:
        """Find the file; generated networks have none."""
        return None if source in BUILT_IN else resolve_case(source)

    def read(self, source: str, options: object, sites: SiteRule) -> Case:
        """Read and check a case; a GasBoundary states what the file leaves open."""
        path = self.file_of(source)
        name, tables = (source, BUILT_IN[source]()) if path is None else (path.stem, read_gas_file(path, sites))
        if not isinstance(options, GasBoundary | None):
            raise InputError("the junctions of a gas network keep their names, which are its ids; leave out --names")
        boundary = options or GasBoundary()
        network, withdrawal = gas_network_from_tables(tables, boundary)
        secret = Secret(field=withdrawal_field(network), values=withdrawal)
        return Case(
            name=name,
            network=network,
            secret=secret,
            file_format=tables.file_format,
            notes=tables.notes,
            sites_declared=tables.sites_declared,
            unprotected=tables.unprotected,
        )

    def read_places(self, source: str) -> Places:
        """Read names and coordinates of junctions."""
        from gridveil.sectors.gas.places import gas_places

        path = self.file_of(source)
        return Places() if path is None else gas_places(path)

    def writes(self, file_format: str) -> bool:
        """Whether a format is GasLib's or MatGas."""
        return file_format in (GASLIB, MATGAS)

    def write(self, network: GasNetwork, values: Floats, folder: Path, file_format: str, *, title: str) -> Path:
        """Write the network with released withdrawals, as MatGas unless the source was of GasLib."""
        from gridveil.sectors.gas.gaslib_write import write_gaslib
        from gridveil.sectors.gas.matgas_write import matgas_text

        tables = public_gas_tables(network, values)
        if file_format == GASLIB:
            return write_gaslib(tables, folder, title=title)
        path = folder / "network.m"
        path.write_text(matgas_text(tables, title=title, with_fixed_injections=True))
        return path

    def read_back(self, network: GasNetwork, path: Path) -> Case:
        """Read a written network; the flow base is in no file."""
        return self.read(str(path), GasBoundary(flow_base=network.flow_base), AS_STATED)

    def model(self, network: GasNetwork, formulation: Formulation) -> Model:
        """Build the optimal gas flow."""
        from gridveil.sectors.gas.ogf import optimal_gas_flow

        return Model(
            kind=self.kind,
            formulation=formulation,
            program=optimal_gas_flow(network),
            layout=DataLayout(np.ones(network.n_site, dtype=bool), with_reactive=False),
            cost_vanishes=True,
        )

    def describe(self, network: GasNetwork) -> dict[str, object]:
        """Count junctions, edges and sites, and state the boundary conditions."""
        slack = {network.junction.id[k]: float(network.junction.slack_pressure[k]) for k in network.slack}
        return {
            "junctions": network.n_junction,
            "pipes": len(network.pipe.id),
            "links": len(network.link.id),
            "compressors": len(network.compressor.id),
            "regulators": len(network.regulator.id),
            "slack_junctions": slack,
            "fixed_supplies": len(network.receipt.junction),
            "sound_speed_m_per_s": network.sound_speed,
            "flow_base_kg_per_s": network.flow_base,
            "demand_unit": network.demand_unit.value,
            "demand_sites": network.n_site,
        }

    def identity(self, network: GasNetwork) -> tuple[str, ...]:
        """List names of junctions and the ends of all edges."""
        start, end = _ends(network)
        return identity_texts(network.junction.id, start.tolist(), end.tolist())

    def size(self, network: GasNetwork) -> int:
        """Count junctions."""
        return network.n_junction

    def graph(self, network: GasNetwork) -> Graph:
        """Draw junctions, and pipes, links and stations alike."""
        start, end = _ends(network)
        supplied = np.union1d(network.slack, network.receipt.junction)
        return Graph(n=network.n_junction, start=start, end=end, supplied=supplied, place=network.site_junction)

    def revealing_numbers(self, network: GasNetwork) -> Mapping[str, Floats]:
        """Collect flow limits, fixed injections and the base."""
        base = network.flow_base
        return {
            "pipe maximum flow": network.pipe.flow_max / base,
            "compressor maximum flow": network.compressor.flow_max / base,
            "fixed injection": network.receipt.injection / base,
            "flow base": np.array([1.0]),
        }

    def simulate(
        self,
        network: GasNetwork,
        field: SecretField,
        nearest: Solve,
        generator: np.random.Generator,
        loading: float | None,
    ) -> tuple[Floats, str]:
        """Simulate withdrawals."""
        return simulate_withdrawals(network, nearest, generator, loading)

    def usual_sizes(self, network: GasNetwork) -> Floats | None:
        """Share what supplies can bring evenly among the sites."""
        return usual_withdrawals(network)

    def public_frames(self, network: GasNetwork) -> Frames:
        """Show junctions, pipes, compressors and sites."""
        from gridveil.sectors.gas.frames import public_gas_frames

        return public_gas_frames(network)

    def solution_frames(self, network: GasNetwork, formulation: Formulation, x: Floats) -> Frames:
        """Show compressors, junctions, pipes and regulators."""
        from gridveil.sectors.gas.frames import gas_solution_frames

        return gas_solution_frames(network, x)

    def compare(
        self, network: GasNetwork, sites: Sites, before: Floats, after: Floats, title: Callable[[str], str]
    ) -> BeforeAndAfter:
        """Compare two operating points; what the sites draw closes the balance of the regulated supplies."""
        from gridveil.sectors.gas.operating import gas_state
        from gridveil.sectors.gas.view import gas_before_and_after

        base = network.flow_base
        first = gas_state(network, before, sites.true / base)
        return gas_before_and_after(network, sites, first, gas_state(network, after, sites.released / base), title)


def _ends(network: GasNetwork) -> tuple[Ints, Ints]:
    edges = (network.pipe, network.link, network.compressor, network.regulator)
    return (
        np.concatenate([edge.from_junction for edge in edges]),
        np.concatenate([edge.to_junction for edge in edges]),
    )


GAS: Sector = GasSector()
