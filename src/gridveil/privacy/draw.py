"""From true to noisy demands: exact lattice noise for a release, seeded noise for a simulation."""

from __future__ import annotations

import numpy as np

from gridveil.privacy.exact_sampling import LatticeMechanism, suggested_step
from gridveil.privacy.noisy import NoisyDemand
from gridveil.privacy.planar_laplace import PlanarLaplace
from gridveil.privacy.scalar_laplace import ScalarLaplace
from gridveil.secret import SecretDemand


def mechanism_for(demand: SecretDemand, *, epsilon: str, alpha: str) -> LatticeMechanism:
    """Give the exact mechanism for a demand: planar for complex loads, scalar for real ones. α in per unit."""
    kind = PlanarLaplace if demand.is_complex else ScalarLaplace
    return kind(epsilon=epsilon, alpha=alpha, step=suggested_step(epsilon=epsilon, alpha=alpha))


def draw(demand: SecretDemand, mechanism: LatticeMechanism) -> NoisyDemand:
    """Draw d̃ from operating-system entropy. Every call spends the mechanism's ε."""
    values = mechanism.add_noise(demand.reveal()).values
    return NoisyDemand(
        values=np.asarray(values),
        epsilon=float(mechanism.epsilon),
        alpha=float(mechanism.alpha),
        mechanism=repr(mechanism),
        expected_square=mechanism.expected_square,
        simulation=not mechanism.uses_system_entropy,
    )
