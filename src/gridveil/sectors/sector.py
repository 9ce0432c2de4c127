"""The interface of a sector: everything that gridveil needs to know about one kind of network.

A sector is one object in its own package (``sectors/power/sector.py``), listed in ``registry``. Nothing outside
``sectors/`` asks what kind a network is: it asks the network's sector.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gridveil.core.choices import Formulation
from gridveil.core.secret import SecretField
from gridveil.sectors.case import Case
from gridveil.sectors.geometry import Places
from gridveil.sectors.model import Model
from gridveil.sectors.sites import SiteRule
from gridveil.sectors.view import BeforeAndAfter, Frames, Graph, Sites, ValuePart

Floats = NDArray[np.float64]
Solve = Callable[[Floats], Floats | None]
"""The data nearest to given ones that the network can serve, or None if none were found."""


@dataclass(frozen=True, kw_only=True)
class PublicFact:
    """One thing that a release publishes as it is in the source file.

    ``columns`` are the fields of the sector's public tables that hold it: the writer's allow-list is the union of all
    facts' columns.
    """

    words: str
    columns: tuple[str, ...]


class Sector(Protocol):
    """One kind of network. Properties may be plain class attributes; networks are those that ``read`` of the same sector made."""

    @property
    def kind(self) -> str:
        """One word, as ``Network.kind`` has it: ``power``."""
        ...

    @property
    def formulations(self) -> tuple[Formulation, ...]:
        """The first is the default; where there is only one, it is used whatever is requested."""
        ...

    @property
    def structured(self) -> bool:
        """Whether models come as plain arrays where a network allows it, so that the structured solver can take them."""
        ...

    @property
    def public_facts(self) -> tuple[PublicFact, ...]:
        """The public facts, from which ``inspect``, the card and the writer's allow-list are derived."""
        ...

    @property
    def flow_words(self) -> str:
        """What is solved, in words: ``optimal power flow``."""
        ...

    @property
    def node_word(self) -> str:
        """What a node is called: ``bus``."""
        ...

    @property
    def value_parts(self) -> tuple[ValuePart, ...]:
        """The real components of one value: one, or two where values are complex."""
        ...

    def built_in_names(self) -> list[str]:
        """List the names that stand for cases of this kind."""
        ...

    def recognises(self, source: str) -> bool:
        """Whether a path or built-in name holds a network of this kind. Must not fail on what it does not know."""
        ...

    def file_of(self, source: str) -> Path | None:
        """Find the file behind a source; None for a built-in network that has none."""
        ...

    def read(self, source: str, options: Any, sites: SiteRule) -> Case:
        """Read and check a case; what cannot be used is an InputError. Options of other sectors are one too."""
        ...

    def read_places(self, source: str) -> Places:
        """Read names and coordinates, for drawings on the curator's side."""
        ...

    def writes(self, file_format: str) -> bool:
        """Whether networks can be written in a format; ``write`` chooses another one where they cannot."""
        ...

    def write(self, network: Any, values: NDArray[Any], folder: Path, file_format: str, *, title: str) -> Path:
        """Write the public network with released values (per unit), in the source's format where that can be written."""
        ...

    def read_back(self, network: Any, path: Path) -> Case:
        """Read a written network as its reader would, values in the same unit as before."""
        ...

    def model(self, network: Any, formulation: Formulation) -> Model:
        """Build the optimal flow in one of the sector's formulations."""
        ...

    def describe(self, network: Any) -> dict[str, object]:
        """Describe the network in plain values that reveal no secret."""
        ...

    def identity(self, network: Any) -> tuple[str, ...]:
        """List what a data set is known by, sorted: names of nodes and edges (``a--b``).

        Units, base values, limits, states of switches, the list of participants, the name of the file and its format do not
        enter: none of them may lead to another ledger.
        """
        ...

    def size(self, network: Any) -> int:
        """Count nodes."""
        ...

    def graph(self, network: Any) -> Graph:
        """Return the network's graph: edges in use, supplied nodes and the node of each participant."""
        ...

    def revealing_numbers(self, network: Any) -> Mapping[str, Floats]:
        """Collect public numbers that somebody could have made from the secret, per unit of the secret's base."""
        ...

    def simulate(
        self, network: Any, field: SecretField, nearest: Solve, generator: np.random.Generator, loading: float | None
    ) -> tuple[Floats, str]:
        """Simulate data from public facts alone: the program's d, and a description of how they were made."""
        ...

    def usual_sizes(self, network: Any) -> Floats | None:
        """Guess the size of the values from public facts alone, without solving anything: per unit, one per participant.

        Good for an order of magnitude. None where public facts tell nothing.
        """
        ...

    def public_frames(self, network: Any) -> Frames:
        """Show the public network as pandas frames."""
        ...

    def solution_frames(self, network: Any, formulation: Formulation, x: Floats) -> Frames:
        """Show an operating point as pandas frames; the first one is the dispatch."""
        ...

    def compare(
        self, network: Any, sites: Sites, before: Floats, after: Floats, title: Callable[[str], str]
    ) -> BeforeAndAfter:
        """Compare two operating points for the curator's report; ``title`` formats the id of a node."""
        ...


def identity_texts(nodes: Sequence[str], start: Sequence[int], end: Sequence[int]) -> tuple[str, ...]:
    """List an identity's texts: each node and pair of joined nodes once, whatever the direction and number of edges.

    Formats differ in which end they name first and in how they tell parallel edges apart.
    """
    edges = {"--".join(sorted((nodes[i], nodes[j]))) for i, j in zip(start, end, strict=True)}
    kinds = (("node", set(nodes)), ("edge", edges))
    return tuple(sorted(f"{kind} {text}" for kind, texts in kinds for text in texts))
