"""Noise with a proof. ``MECHANISMS`` lists the families that a release can name."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from gridveil.core.errors import InputError
from gridveil.core.secret import SecretField
from gridveil.privacy.mechanisms.exact_sampling import SYSTEM_ENTROPY, EntropySource, ExactNumber, suggested_step
from gridveil.privacy.mechanisms.mechanism import Mechanism
from gridveil.privacy.mechanisms.planar_laplace import PlanarLaplace
from gridveil.privacy.mechanisms.scalar_laplace import ScalarLaplace

LAPLACE = "laplace"

Make = Callable[[SecretField, Fraction, Fraction, EntropySource], Mechanism]
"""Makes a mechanism for a field from ε, α (per unit) and a source of entropy."""


def _laplace(field: SecretField, epsilon: Fraction, alpha: Fraction, entropy: EntropySource) -> Mechanism:
    kind = PlanarLaplace if field.is_complex else ScalarLaplace
    return kind(epsilon=epsilon, alpha=alpha, step=suggested_step(epsilon=epsilon, alpha=alpha), entropy=entropy)


MECHANISMS: dict[str, Make] = {LAPLACE: _laplace}


def mechanism_for(
    field: SecretField,
    *,
    epsilon: ExactNumber,
    alpha: ExactNumber,
    name: str = LAPLACE,
    entropy: EntropySource = SYSTEM_ENTROPY,
) -> Mechanism:
    """Make the named mechanism for a secret field: planar for complex values, scalar for real ones. α is per unit."""
    if name not in MECHANISMS:
        raise InputError(f"unknown mechanism {name!r}; choose one of {', '.join(MECHANISMS)}")
    return MECHANISMS[name](field, Fraction(epsilon), Fraction(alpha), entropy)
