"""Noise with a proof. ``MECHANISMS`` lists what a release can name, ``PROFILE_MECHANISMS`` what a series of profiles can."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from gridveil.core.errors import InputError
from gridveil.core.plugins import MECHANISMS as PLUG_INS
from gridveil.core.plugins import found_in, plugged_in, unknown
from gridveil.core.secret import SecretField
from gridveil.privacy.mechanisms.basis import Basis
from gridveil.privacy.mechanisms.discrete_gaussian import DiscreteGaussian
from gridveil.privacy.mechanisms.exact_sampling import (
    SYSTEM_ENTROPY,
    EntropySource,
    ExactNumber,
    positive_fraction,
    suggested_step,
)
from gridveil.privacy.mechanisms.max_norm import MaxNorm
from gridveil.privacy.mechanisms.mechanism import Mechanism
from gridveil.privacy.mechanisms.planar_laplace import PlanarLaplace
from gridveil.privacy.mechanisms.product import ProductNoise
from gridveil.privacy.mechanisms.profile import ProfileMechanism
from gridveil.privacy.mechanisms.scalar_laplace import ScalarLaplace
from gridveil.privacy.mechanisms.shared_shape import SharedShape
from gridveil.privacy.mechanisms.split_laplace import SplitLaplace

LAPLACE = "laplace"

Make = Callable[[SecretField, Fraction, Fraction, EntropySource], Mechanism]
"""Makes a mechanism for a field from ε, α (per unit) and a source of entropy."""


def _laplace(field: SecretField, epsilon: Fraction, alpha: Fraction, entropy: EntropySource) -> Mechanism:
    kind = PlanarLaplace if field.is_complex else ScalarLaplace
    return kind(epsilon=epsilon, alpha=alpha, step=suggested_step(epsilon=epsilon, alpha=alpha), entropy=entropy)


MECHANISMS: dict[str, Make] = {LAPLACE: _laplace}
_OWN = frozenset(MECHANISMS)


def mechanism_for(
    field: SecretField,
    *,
    epsilon: ExactNumber,
    alpha: ExactNumber,
    name: str = LAPLACE,
    entropy: EntropySource = SYSTEM_ENTROPY,
) -> Mechanism:
    """Make the named mechanism for a secret field: planar for complex values, scalar for real ones. α is per unit."""
    if field.parts:
        return product_for(field, epsilon=Fraction(epsilon), name=name, entropy=entropy)
    return mechanism_named(name)(field, Fraction(epsilon), Fraction(alpha), entropy)


def mechanism_named(name: str) -> Make:
    """Look up a mechanism by name: gridveil's own, a registered one, or a plug-in's."""
    found: Make | None = MECHANISMS.get(name) or plugged_in(PLUG_INS, name)
    if found is None:
        raise unknown("mechanism", name, MECHANISMS, PLUG_INS)
    return found


def mechanism_names() -> list[str]:
    """Names of all mechanisms; none of the plug-ins is loaded for this."""
    return list(dict.fromkeys([*MECHANISMS, *found_in(PLUG_INS)]))


def provider_of(name: str) -> str | None:
    """Who brings a mechanism that gridveil does not: its promise is theirs, and not audited here. None for our own."""
    if name in _OWN:
        return None
    return "code that the curator registered" if name in MECHANISMS else found_in(PLUG_INS)[name].package


def product_for(
    field: SecretField, *, epsilon: Fraction, name: str = LAPLACE, entropy: EntropySource = SYSTEM_ENTROPY
) -> ProductNoise:
    """Make the noise of a field of several parts: ε is divided by their shares, exactly, and each has its own α."""
    make = mechanism_named(name)
    return ProductNoise(field, [make(part.field, part.share * epsilon, part.alpha, entropy) for part in field.parts])


K_NORM, GAUSSIAN, SHARED_SHAPE = "k-norm", "gaussian", "shared-shape"

PROFILE_MECHANISMS: dict[str, Callable[..., ProfileMechanism]] = {
    LAPLACE: SplitLaplace,
    K_NORM: MaxNorm,
    GAUSSIAN: DiscreteGaussian,
    SHARED_SHAPE: SharedShape,
}


def profile_mechanism_for(
    field: SecretField,
    *,
    epsilon: ExactNumber,
    alpha: ExactNumber,
    basis: Basis,
    name: str | None = None,
    delta: ExactNumber | None = None,
    entropy: EntropySource = SYSTEM_ENTROPY,
) -> ProfileMechanism:
    """Make noise for whole profiles of a field; without a name, the K-norm mechanism, or the Gaussian if there is a δ."""
    chosen = name or (K_NORM if delta is None else GAUSSIAN)
    if chosen not in PROFILE_MECHANISMS:
        raise InputError(f"unknown mechanism for profiles {chosen!r}; choose one of {', '.join(PROFILE_MECHANISMS)}")
    if (chosen == GAUSSIAN) != (delta is not None):
        raise InputError("Gaussian noise and delta go together; give both or neither of them")
    more = {} if delta is None else {"delta": positive_fraction(delta, "delta")}
    return PROFILE_MECHANISMS[chosen](
        epsilon=epsilon, alpha=alpha, basis=basis, dimension=field.dimension, entropy=entropy, **more
    )
