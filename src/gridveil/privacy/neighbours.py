"""Two demands that an attacker must not tell apart, for audits on public networks."""

from __future__ import annotations

import numpy as np

from gridveil.core.secret import SecretDemand
from gridveil.privacy.draw import facts
from gridveil.privacy.mechanisms.exact_sampling import LatticeMechanism
from gridveil.privacy.noisy import NoisyDemand
from gridveil.sectors.case import Case


def neighbours(case: Case, site: int, alpha: float) -> tuple[SecretDemand, SecretDemand]:
    """Give the case's demands with one site moved by −α/2 and by +α/2 (active power)."""
    values = case.demand.reveal()
    shift = np.zeros(len(values))
    shift[site] = alpha / 2
    return SecretDemand(values - shift), SecretDemand(values + shift)


def draw_for_audit(demand: SecretDemand, mechanism: LatticeMechanism) -> NoisyDemand:
    """Draw without a ledger, and say that it is no release: the demands of an audit are public ones."""
    values = np.asarray(mechanism.add_noise(demand.reveal()).values)
    return NoisyDemand(values=values, mechanism=facts(mechanism), simulation=True)
