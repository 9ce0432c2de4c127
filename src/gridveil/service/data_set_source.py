"""What a data set is made of: the request, and the network with its demands and what may be said of their privacy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from gridveil.core.choices import Outages, TableLayout
from gridveil.core.errors import InputError
from gridveil.privacy.curator import published_values
from gridveil.sectors.power.case import power_network
from gridveil.sectors.power.given_names import NO_NAMES
from gridveil.sectors.power.network import PowerNetwork
from gridveil.sectors.registry import load_case
from gridveil.service.data_set_content import content_hash
from gridveil.service.public_files import CARD_FILE, file_hashes
from gridveil.service.publish import PUBLIC, SIMULATION

SPENDS_NOTHING = (
    "made from the files of the release alone: post-processing, which spends no epsilon; the promise of the card holds for "
    "this data set as it does for the release"
)
NOT_PRIVATE = "NOT PRIVATE: made from true or simulated demands, which it shows; no promise of privacy holds"


@dataclass(frozen=True, kw_only=True)
class DataSetRequest:
    """What is asked for; the rows depend on nothing else."""

    source: str
    """Folder of a release, or with ``not_private`` any power case."""
    scenarios: int
    loads: str
    outages: Outages = Outages.NONE
    layout: TableLayout = TableLayout.PGLEARN
    seed: int = 0
    retries: int = 20
    """Scenarios per shard that the structured solver tries where the batch finds no solution."""
    not_private: bool = False

    def __post_init__(self) -> None:
        """Refuse numbers that mean nothing."""
        if self.scenarios < 1 or self.seed < 0 or self.retries < 0:
            raise InputError("scenarios must be at least 1, seed and retries at least 0")


@dataclass(frozen=True, eq=False, kw_only=True)
class DataSetSource:
    """The network that scenarios are made of, with its demands (D,) per unit, and what may be said of their privacy."""

    network: PowerNetwork
    demand: NDArray[np.complex128]
    private: bool
    promise: dict[str, Any] | None
    """The card's, of a release that is private."""

    @property
    def notice(self) -> str:
        """The word on privacy that goes into every file."""
        return SPENDS_NOTHING if self.private else NOT_PRIVATE

    @cached_property
    def content(self) -> str:
        """SHA-256 of what goes into the rows: the public network, and demands that the data set shows anyway."""
        return content_hash(replace(self.network, given=NO_NAMES), self.demand)


def open_source(request: DataSetRequest) -> DataSetSource:
    """Read the released network with its card; without one, insist that nobody takes the result for private."""
    folder = Path(request.source)
    for place in (folder, folder / PUBLIC, folder / SIMULATION):
        files = sorted(place.glob("network*")) if (place / CARD_FILE).exists() else []
        if files:
            card = yaml.safe_load((place / CARD_FILE).read_text(encoding="utf-8"))
            if card["simulation"] and not request.not_private:
                raise InputError(
                    f"{place}: is a simulation, which protects nobody; --not-private takes it all the same"
                )
            own = _is_network_of(card, place)
            if not own and not request.not_private:
                raise InputError(
                    f"{place}: its network is not the one that the card was written for (gridveil verify says more); get the "
                    "folder again from its publisher, or take it with --not-private"
                )
            private = own and not card["simulation"]
            return _source(str(files[0]), private=private, promise=dict(card["promise"]))
    if not request.not_private:
        raise InputError(
            f"{request.source}: is no folder of a release with its card; a data set from true demands is not private, and "
            "needs --not-private"
        )
    return _source(request.source, private=False, promise=None)


def _is_network_of(card: dict[str, Any], place: Path) -> bool:
    """Whether the network beside a card is the one it was written for: its promise holds for no other demands."""
    there, stated = (
        [entry for entry in entries if str(entry["file"]).startswith("network")]
        for entries in (file_hashes(place), card.get("files", ()))
    )
    return there == stated


def _source(path: str, *, private: bool, promise: dict[str, Any] | None) -> DataSetSource:
    case = load_case(path)
    network = power_network(case)
    if network is None:
        raise InputError(f"{path}: is a {case.network.kind} network; data sets are made of power networks")
    demand = published_values(case)[network.served]
    return DataSetSource(network=network, demand=demand, private=private, promise=promise if private else None)
