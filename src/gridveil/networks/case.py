"""A case: the public network and, apart from it, the secret demands."""

from __future__ import annotations

from dataclasses import dataclass

from gridveil.networks.gas import GasNetwork
from gridveil.networks.power import PowerNetwork
from gridveil.secret import SecretDemand

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
