"""Discrete Gaussian noise for profiles, drawn exactly, under zero-concentrated differential privacy (docs/proofs/profile.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gridveil.privacy.mechanisms.exact_sampling import ExactNumber, LatticeRejection, approximate_acceptance
from gridveil.privacy.mechanisms.profile import ProfileMechanism
from gridveil.privacy.mechanisms.zcdp import rho_for

LOG_2_ABOVE = Fraction(6932, 10000)


@dataclass(frozen=True, kw_only=True)
class GaussianSampler(LatticeRejection):
    """Exact sampler of integers k with probability proportional to exp(-k²/(2·variance))."""

    variance: Fraction
    dimension: int = 1

    @property
    def cell_bits(self) -> int:
        """Smallest b with 4^b ≥ 2·variance·ln 2: the law then falls by half within 2^b steps, and ever faster."""
        return (math.isqrt(math.ceil(2 * self.variance * LOG_2_ABOVE) - 1)).bit_length()

    def _likely(self, offsets: NDArray[np.float64], doublings: NDArray[np.float64]) -> NDArray[np.float64]:
        return approximate_acceptance(float(1 / (2 * self.variance)), offsets * offsets, doublings)

    def _squared_exponent(self, offset: list[int]) -> Fraction:
        return (Fraction(offset[0] ** 2) / (2 * self.variance)) ** 2


class DiscreteGaussian(ProfileMechanism):
    """Independent discrete Gaussian noise on both components of every block mean; ρ-zCDP, hence (ε, δ)."""

    name: ClassVar[str] = "discrete Gaussian"

    def __init__(self, *, delta: ExactNumber, **parameters: Any) -> None:
        super().__init__(**parameters)
        self._delta = Fraction(delta)
        square = self.basis.blocks * self.reach**2
        self.variance = Fraction(math.ceil(square / (2 * rho_for(self.epsilon, self._delta))))
        self._rho = square / (2 * self.variance)
        self._sampler = GaussianSampler(variance=self.variance)
        self._refuse_too_fine(self._sampler)

    @property
    def delta(self) -> Fraction:
        """δ of the promise."""
        return self._delta

    @property
    def rho(self) -> Fraction:
        """ρ of the noise that is drawn: squared sensitivity over twice the variance."""
        return self._rho

    @property
    def rounding(self) -> None:
        """The loss is not linear in the distance."""

    @property
    def expected_square(self) -> float:
        """The variance of both components; the lattice law has no more."""
        return self.dimension * float(self.variance) * float(self.step) ** 2

    def noise(self, count: int) -> NDArray[np.int64]:
        """Independent draws for every component."""
        shape = (self.basis.blocks, count, self.dimension)
        return self._sampler.draw(math.prod(shape), self.entropy).reshape(shape)
