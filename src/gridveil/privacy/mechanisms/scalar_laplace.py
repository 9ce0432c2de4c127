"""Scalar Laplace noise on a public lattice, drawn exactly by OpenDP (docs/proofs/scalar-laplace.md)."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gridveil.core.errors import InputError
from gridveil.privacy.mechanisms.exact_sampling import (
    LARGEST_INPUT_INDEX,
    LARGEST_OUTPUT_INDEX,
    SYSTEM_ENTROPY,
    EntropySource,
    ExactNumber,
    RadialLaplaceSampler,
    nearest_index,
)
from gridveil.privacy.mechanisms.lattice import LatticeMechanism

# Covers the float rounding of the scale and OpenDP's upward rounding of its privacy loss, each at most 2^-52.
SCALE_SLACK = 1 + Fraction(1, 2**50)


class ScalarLaplace(LatticeMechanism):
    """Noise z on step·Z, probability ∝ exp(-c·|z|), for real values; c is epsilon/(alpha + step) less at most 2^-49·c.

    Each noisy lattice index is (epsilon, alpha)-indistinguishable: one site may move by alpha.
    """

    name: ClassVar[str] = "Laplace"
    dimension: ClassVar[int] = 1
    proof_note: ClassVar[str] = "docs/proofs/scalar-laplace.md"

    def __init__(
        self, *, epsilon: ExactNumber, alpha: ExactNumber, step: ExactNumber, entropy: EntropySource = SYSTEM_ENTROPY
    ) -> None:
        super().__init__(epsilon=epsilon, alpha=alpha, step=step, cell_diameter=Fraction(1), entropy=entropy)
        # OpenDP takes its scale as a float, so the law that is drawn, and stated, has exactly this float as its scale.
        self._steps_per_scale = float(SCALE_SLACK / self._rate)
        self._rate = 1 / Fraction(self._steps_per_scale)

    @property
    def expected_square(self) -> float:
        """E|z|² of the lattice noise (closed form), close to 2·scale² for a fine lattice."""
        return float(self.step) ** 2 / (2.0 * math.sinh(float(self.rate) / 2.0) ** 2)

    def lattice_index(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """Index of the lattice point nearest to each real value: int64, shape (n,)."""
        if np.iscomplexobj(values) or np.ndim(values) != 1:
            raise InputError("scalar noise needs a one-dimensional array of real values: one per site")
        return nearest_index(np.asarray(values, dtype=np.float64), self.step)

    def lattice_values(self, index: NDArray[np.int64]) -> NDArray[np.float64]:
        """Convert to the lattice points of an index, shape (n,), as floats, shape (n,)."""
        values: NDArray[np.float64] = index * np.float64(self.step)
        return values

    def draw_exact(self, value: Fraction) -> float:
        """Noisy lattice point for one exact number: nothing is rounded before the lattice."""
        index = max(-LARGEST_INPUT_INDEX, min(round(value / self.step), LARGEST_INPUT_INDEX))
        return float(self.lattice_values(self._noisy_index(np.array([index], dtype=np.int64)))[0])

    def _noisy_index(self, index: NDArray[np.int64]) -> NDArray[np.int64]:
        if self.is_private:
            return np.array(self._measurement(index.tolist()), dtype=np.int64)
        # OpenDP takes no seed: a simulation draws the same law with our own sampler.
        sampler = RadialLaplaceSampler(rate=self.rate, dimension=self.dimension)
        noisy: NDArray[np.int64] = index + sampler.draw(len(index), self._entropy)[:, 0]
        return noisy.clip(-LARGEST_OUTPUT_INDEX, LARGEST_OUTPUT_INDEX)

    @cached_property
    def _measurement(self) -> Any:
        """OpenDP's integer Laplace mechanism, after checking that its own privacy map grants what we claim."""
        import opendp.prelude as dp  # a third of a second

        dp.enable_features("contrib")
        space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
        measurement: Any = dp.m.make_laplace(*space, scale=self._steps_per_scale)
        largest_move = math.floor(self.alpha / self.step) + 1
        if Fraction(measurement.map(largest_move)) > self.epsilon:
            raise RuntimeError("OpenDP grants less privacy than epsilon for this scale: no noise was drawn")
        return measurement
