"""Power networks with further secrets as a ``Sector``: the power sector's, but for the model and what is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridveil.core.choices import Formulation
from gridveil.core.errors import InputError
from gridveil.core.secret import SecretField
from gridveil.core.secret_choice import COST, DEMAND, IMPEDANCE, LIMIT
from gridveil.sectors.case import Case
from gridveil.sectors.model import Model, PartLayout
from gridveil.sectors.power.sector import POWER, PUBLIC_FACTS
from gridveil.sectors.power.simulate import total_capacity
from gridveil.sectors.power.veiled_form import veiled_form
from gridveil.sectors.power.veiled_network import CHARGING, VeiledNetwork, filled
from gridveil.sectors.power.veiled_opf import veiled_opf
from gridveil.sectors.sector import PublicFact, Solve
from gridveil.sectors.view import BeforeAndAfter, Frames, Graph, Sites, ValuePart

Floats = NDArray[np.float64]

# What may be secret is listed with the case, as declared or not.
MAY_BE_SECRET = ("branch parameters and limits", "generator limits and costs")
ALWAYS_PUBLIC = (
    PublicFact(
        words="taps, phase shifts and angle limits of branches",
        columns=("branch.tap", "branch.shift", "branch.angle_min", "branch.angle_max", "branch.current"),
    ),
    PublicFact(
        words="power limits of generators",
        columns=(
            *("generator.bus_id", "generator.in_service"),
            *("generator.p_min", "generator.p_max", "generator.q_min", "generator.q_max"),
        ),
    ),
)


class VeiledSector:
    """Power networks of which more than the demands is secret. A file of one is an ordinary power network."""

    kind = VeiledNetwork.kind
    formulations = (Formulation.AC,)
    structured = True
    public_facts = (*(fact for fact in PUBLIC_FACTS if fact.words not in MAY_BE_SECRET), *ALWAYS_PUBLIC)
    flow_words = POWER.flow_words
    node_word = POWER.node_word
    value_parts = (
        ValuePart(name="value", symbol="v", unit="", column="value"),
        ValuePart(name="second part of the value", symbol="w", unit="", column="second"),
    )

    def built_in_names(self) -> list[str]:
        """There are none: a case becomes one when secrets are declared."""
        return []

    def recognises(self, source: str) -> bool:
        """No file says what of it is secret."""
        return False

    def file_of(self, source: str) -> Path | None:
        """Find the file behind a source."""
        return POWER.file_of(source)

    def writes(self, file_format: str) -> bool:
        """Whether the power sector can."""
        return POWER.writes(file_format)

    def write(
        self, network: VeiledNetwork, values: NDArray[Any], folder: Path, file_format: str, *, title: str
    ) -> Path:
        """Write the network with released values in place of its stand-ins."""
        grid, demand = filled(network, values)
        return POWER.write(grid, demand, folder, file_format, title=title)

    def read_back(self, network: VeiledNetwork, path: Path) -> Case:
        """Read a written network as its reader would: an ordinary power case, with nothing hidden."""
        return POWER.read_back(network.grid, path)

    def model(self, network: VeiledNetwork, formulation: Formulation) -> Model:
        """Build the AC optimal power flow with all secrets as data. There is no relaxation of it."""
        layout = PartLayout(network.served, with_reactive=False, parts=network.parts)
        return Model(
            kind=self.kind,
            formulation=formulation,
            program=veiled_opf(network, layout),
            layout=layout,
            ordinary=veiled_form(network, layout),
            supply=total_capacity(network.grid),
        )

    def describe(self, network: VeiledNetwork) -> dict[str, object]:
        """Count as the power sector does; ratings and costs are those that are public or have a participant."""
        counts = dict(POWER.describe(network.grid))
        if network.part(LIMIT) is not None:
            counts["branches_with_limit"] = int(network.limited.sum())
        if network.part(COST) is not None:
            counts.pop("generators_with_cost")
        return counts | {"secrets": [part.field.name for part in network.parts]}

    def identity(self, network: VeiledNetwork) -> tuple[str, ...]:
        """The same data set as without further secrets: one ledger for all."""
        return POWER.identity(network.grid)

    def size(self, network: VeiledNetwork) -> int:
        """Count buses."""
        return POWER.size(network.grid)

    def graph(self, network: VeiledNetwork) -> Graph:
        """Draw buses and branches in service; generators stand at their bus, branches at the bus that they start from."""
        drawn, places = POWER.graph(network.grid), []
        start = network.grid.branch.from_bus
        at = {
            DEMAND: network.grid.load.bus,
            COST: network.grid.generator.bus,
            LIMIT: start[network.limited],
            IMPEDANCE: start,
            CHARGING: start[network.charged],
        }
        places = [at[part.field.name] for part in network.parts]
        return Graph(n=drawn.n, start=drawn.start, end=drawn.end, supplied=drawn.supplied, place=np.concatenate(places))

    def usual_sizes(self, network: VeiledNetwork) -> None:
        """Values are of several kinds: no size stands for all of them."""

    def revealing_numbers(self, network: VeiledNetwork) -> Mapping[str, Floats]:
        """The power sector's, without what is secret here."""
        return POWER.revealing_numbers(network.grid)

    def simulate(
        self,
        network: VeiledNetwork,
        field: SecretField,
        nearest: Solve,
        generator: np.random.Generator,
        loading: float | None,
    ) -> tuple[Floats, str]:
        """Simulate all secrets from public facts alone."""
        from gridveil.sectors.power.veiled_simulate import simulate_secrets

        return simulate_secrets(network, field, nearest, generator, loading)

    def public_frames(self, network: VeiledNetwork) -> Frames:
        """Show the network with its stand-ins."""
        return POWER.public_frames(network.grid)

    def solution_frames(self, network: VeiledNetwork, formulation: Formulation, x: Floats) -> Frames:
        """Show generators and buses; flows need the values."""
        frames = POWER.solution_frames(network.grid, formulation, x)
        return {name: frame for name, frame in frames.items() if name != "branches"}

    def compare(
        self, network: VeiledNetwork, sites: Sites, before: Floats, after: Floats, title: Callable[[str], str]
    ) -> BeforeAndAfter:
        """There is no comparison of flows: their impedances are not in the network."""
        raise InputError("a case with further secrets has no comparison of operating points yet")

    def read(self, source: str, options: Any, sites: Any) -> Case:
        """Cases are read by the power sector, and hidden after that."""
        return POWER.read(source, options, sites)

    def read_places(self, source: str) -> Any:
        """Names and coordinates of buses."""
        return POWER.read_places(source)
