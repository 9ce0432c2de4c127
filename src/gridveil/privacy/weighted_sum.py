"""A sum over participants with public weights: the one number, besides the noisy values, that a release may ask for.

Its sensitivity needs no optimisation and no look at the truth: if one participant's value moves by at most α, the sum
Σ Re(conj(y_i)·d_i) moves by at most α·max|y_i|. The sum is computed in exact integer arithmetic and rounded once, to the
lattice of the mechanism (docs/proofs/release.md, section 3).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridveil.core.errors import InputError
from gridveil.core.secret import SecretField
from gridveil.privacy.mechanisms.exact_sampling import SYSTEM_ENTROPY, EntropySource, suggested_step
from gridveil.privacy.mechanisms.scalar_laplace import ScalarLaplace
from gridveil.privacy.noisy import MechanismFacts

ROOT_BITS = 64  # significant bits of a square root that is rounded up


@dataclass(frozen=True, eq=False, kw_only=True)
class WeightedSum:
    """The query Σ Re(conj(y_i)·d_i); ``weights`` y are public, finite and not all zero, one per participant."""

    weights: NDArray[Any]

    def __post_init__(self) -> None:
        if not np.all(np.isfinite(self.weights)) or not np.any(self.weights != 0):
            raise InputError("the weights of a private sum must be finite and not all zero")

    @cached_property
    def steepness(self) -> Fraction:
        """An exact number not below max|y_i|: how much the sum can change per unit of one participant's value.

        In integers: a float hypot of tiny numbers can be too small by half.
        """
        return self.steepness_of(self.weights)

    @staticmethod
    def steepness_of(some: NDArray[Any]) -> Fraction:
        """An exact number not below the largest of some weights, and zero only if all of them vanish."""
        weights = np.atleast_1d(some)
        parts = zip(np.real(weights).tolist(), np.imag(weights).tolist(), strict=True)
        largest = max(Fraction(real) ** 2 + Fraction(imaginary) ** 2 for real, imaginary in parts)
        return root_above(largest) if largest else Fraction(0)

    def mechanism(
        self, *, epsilon: Fraction, alpha: Fraction, entropy: EntropySource = SYSTEM_ENTROPY
    ) -> ScalarLaplace:
        """Laplace noise that hides a move of one participant's value by α (per unit) at loss ε."""
        sensitivity = alpha * self.steepness
        step = suggested_step(epsilon=epsilon, alpha=sensitivity)
        return ScalarLaplace(epsilon=epsilon, alpha=sensitivity, step=step, entropy=entropy)

    def rounding(self, mechanism: ScalarLaplace) -> Fraction:
        """ρ of the sum's loss law in the unit of the values: what rounding to the lattice adds to every distance."""
        return mechanism.rounding / self.steepness

    def facts(self, mechanism: ScalarLaplace, alpha: Fraction) -> MechanismFacts:
        """Public parameters: α and ρ per unit of the values; step and scale in the unit of the sum."""
        return MechanismFacts(
            name="Laplace on a weighted sum",
            epsilon=float(mechanism.epsilon),
            alpha=float(alpha),
            rounding=float(self.rounding(mechanism)),
            step=float(mechanism.step),
            scale=mechanism.scale,
            expected_square=mechanism.expected_square,
            proof_note="docs/proofs/release.md",
        )

    def exact_value(self, values: NDArray[Any]) -> Fraction:
        """The sum for true values, without any rounding."""
        return exact_dot(np.real(self.weights), np.real(values)) + exact_dot(np.imag(self.weights), np.imag(values))


@dataclass(frozen=True, eq=False, kw_only=True)
class PartSum(WeightedSum):
    """The same over several secrets. One participant of each may move by its own α, all of them at once.

    So the sum moves by at most Σ_f α_f·max|y_i| over the participants i of each secret f: the α that callers name is not
    used, as each part has its own.
    """

    field: SecretField

    @cached_property
    def steepnesses(self) -> tuple[Fraction, ...]:
        """For each part an exact number not below its largest weight."""
        return tuple(WeightedSum.steepness_of(self.weights[part.run]) for part in self.field.parts)

    @property
    def sensitivity(self) -> Fraction:
        """What neighbours can move the sum by, in its unit."""
        each = zip(self.field.parts, self.steepnesses, strict=True)
        return sum((part.alpha * steep for part, steep in each), Fraction(0))

    def mechanism(
        self, *, epsilon: Fraction, alpha: Fraction, entropy: EntropySource = SYSTEM_ENTROPY
    ) -> ScalarLaplace:
        """Laplace noise that hides a move of one participant of each secret by its α, at loss ε."""
        step = suggested_step(epsilon=epsilon, alpha=self.sensitivity)
        return ScalarLaplace(epsilon=epsilon, alpha=self.sensitivity, step=step, entropy=entropy)

    def rounding(self, mechanism: ScalarLaplace) -> Fraction:
        """There is no single law of the distance; charges use that of each part."""
        return Fraction(0)


def root_above(square: Fraction) -> Fraction:
    """A number that is not below the square root, by less than 2^(1 − ROOT_BITS) of it."""
    short = 2 * ROOT_BITS - square.numerator.bit_length() + square.denominator.bit_length()
    shift = max(short // 2 + 1, 0)
    return Fraction(math.isqrt((square.numerator << 2 * shift) // square.denominator) + 1, 1 << shift)


def exact_dot(first: NDArray[np.float64], second: NDArray[np.float64]) -> Fraction:
    """Σ a_i·b_i of floats as an exact rational number, in integers over a common power of two."""
    pairs = [(_parts(a), _parts(b)) for a, b in zip(first.tolist(), second.tolist(), strict=True)]
    terms = [(m * n, s + t) for (m, s), (n, t) in pairs if m and n]
    shift = max((s for _, s in terms), default=0)
    return Fraction(sum(product << (shift - s) for product, s in terms), 1 << max(shift, 0)) * Fraction(2) ** max(
        -shift, 0
    )


def _parts(value: float) -> tuple[int, int]:
    """A float as integer·2^-s."""
    mantissa, exponent = math.frexp(value)
    return int(mantissa * 2**53), 53 - exponent
