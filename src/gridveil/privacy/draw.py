"""From true to noisy demands: exact lattice noise, paid for in the ledger before it is drawn."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from gridveil.core.secret import SecretDemand
from gridveil.privacy.ledger import Ledger
from gridveil.privacy.mechanisms.exact_sampling import ExactNumber, LatticeMechanism, suggested_step
from gridveil.privacy.mechanisms.planar_laplace import PlanarLaplace
from gridveil.privacy.mechanisms.scalar_laplace import ScalarLaplace
from gridveil.privacy.noisy import MechanismFacts, NoisyDemand, PrivateCost


def mechanism_for(demand: SecretDemand, *, epsilon: ExactNumber, alpha: ExactNumber) -> LatticeMechanism:
    """Give the exact mechanism for a demand: planar for complex loads, scalar for real ones. α in per unit."""
    kind = PlanarLaplace if demand.is_complex else ScalarLaplace
    return kind(epsilon=epsilon, alpha=alpha, step=suggested_step(epsilon=epsilon, alpha=alpha))


def draw_demand(demand: SecretDemand, mechanism: LatticeMechanism, ledger: Ledger, purpose: str) -> NoisyDemand:
    """Charge the ledger, then draw d̃ from operating-system entropy."""
    charge = ledger.charge(
        epsilon=mechanism.epsilon,
        alpha=mechanism.alpha,
        mechanism=repr(mechanism),
        purpose=purpose,
        rounding=mechanism.exact_scale * mechanism.epsilon - mechanism.alpha,
    )
    return NoisyDemand(
        values=np.asarray(mechanism.add_noise(demand.reveal()).values),
        mechanism=facts(mechanism),
        simulation=not mechanism.uses_system_entropy,
        charge_id=charge.id,
    )


def draw_cost(cost: float, *, sensitivity: str, epsilon: Fraction, alpha: Fraction, ledger: Ledger) -> PrivateCost:
    """Charge the ledger, then give a private version of the true cost.

    ``sensitivity`` bounds how much the cost can change when one site's demand moves by ``alpha``; the caller vouches for it.
    """
    mechanism = ScalarLaplace(
        epsilon=epsilon, alpha=sensitivity, step=suggested_step(epsilon=epsilon, alpha=sensitivity)
    )
    ledger.charge(epsilon=epsilon, alpha=alpha, mechanism=f"cost: {mechanism!r}", purpose="cost target")
    value = float(mechanism.add_noise(np.array([cost])).values[0])
    return PrivateCost(value=value, scale=mechanism.scale, epsilon=float(epsilon))


def facts(mechanism: LatticeMechanism) -> MechanismFacts:
    """Give a mechanism's public parameters as plain numbers."""
    return MechanismFacts(
        name=type(mechanism).__name__,
        epsilon=float(mechanism.epsilon),
        alpha=float(mechanism.alpha),
        step=float(mechanism.step),
        scale=mechanism.scale,
        expected_square=mechanism.expected_square,
        proof_note=mechanism.proof_note,
    )
