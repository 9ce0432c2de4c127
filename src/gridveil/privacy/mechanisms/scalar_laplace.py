"""Scalar Laplace noise for real values, drawn exactly on a public lattice (docs/proofs/scalar-laplace.md)."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gridveil.core.errors import InputError
from gridveil.privacy.mechanisms.exact_sampling import (
    LARGEST_INPUT_INDEX,
    SYSTEM_ENTROPY,
    EntropySource,
    ExactNumber,
    nearest_index,
)
from gridveil.privacy.mechanisms.lattice import LatticeMechanism


class ScalarLaplace(LatticeMechanism):
    """Noise z on step·Z with probability ∝ exp(-c·|z|), c = epsilon/(alpha + step), for real values.

    Each noisy lattice index is (epsilon, alpha)-indistinguishable: one site may move by alpha.
    """

    name: ClassVar[str] = "Laplace"
    dimension: ClassVar[int] = 1
    proof_note: ClassVar[str] = "docs/proofs/scalar-laplace.md"

    def __init__(
        self, *, epsilon: ExactNumber, alpha: ExactNumber, step: ExactNumber, entropy: EntropySource = SYSTEM_ENTROPY
    ) -> None:
        super().__init__(epsilon=epsilon, alpha=alpha, step=step, cell_diameter=Fraction(1), entropy=entropy)

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
