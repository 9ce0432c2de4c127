"""A case: the public network and, apart from it, the secret demands."""

from __future__ import annotations

from dataclasses import dataclass

from gridveil.core.secret import SecretDemand
from gridveil.sectors.gas.network import GasNetwork
from gridveil.sectors.power.network import PowerNetwork

Network = PowerNetwork | GasNetwork


@dataclass(frozen=True, eq=False, kw_only=True)
class Case:
    """One network and its true demands (per unit), in the order of the network's demand sites.

    ``file_format`` is the format it was read in, so that a release can be written in the same one.
    ``notes`` says what the reader simplified.
    """

    name: str
    network: Network
    demand: SecretDemand
    file_format: str
    notes: tuple[str, ...] = ()
