"""Planar Laplace noise for complex loads, drawn exactly on a public lattice (docs/proofs/planar-laplace.md)."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gridveil.core.errors import InputError
from gridveil.privacy.mechanisms.exact_sampling import (
    SYSTEM_ENTROPY,
    EntropySource,
    ExactNumber,
    nearest_index,
)
from gridveil.privacy.mechanisms.lattice import LatticeMechanism

# Above √2, because 665857² = 2·470832² + 1.
SQRT2_ABOVE = Fraction(665857, 470832)
# Below this rate the Poisson series of the second moment is exact to float precision; above it the direct sum is short.
SERIES_RATE = 0.125
LATTICE_SUMS = {3: 9.033621683100948, 5: 5.090258233665483, 7: 4.423117787678165}
"""Σ |m|^-s over m ≠ 0 in Z², which is 4·ζ(s/2)·β(s/2)."""


class PlanarLaplace(LatticeMechanism):
    """Noise z on step·Z² with probability ∝ exp(-c·|z|₂), c = epsilon/(alpha + √2·step), for complex values P + jQ.

    Each noisy lattice index is (epsilon, alpha)-indistinguishable: one site may move by alpha in the complex plane.
    """

    name: ClassVar[str] = "planar Laplace"
    dimension: ClassVar[int] = 2
    proof_note: ClassVar[str] = "docs/proofs/planar-laplace.md"

    def __init__(
        self, *, epsilon: ExactNumber, alpha: ExactNumber, step: ExactNumber, entropy: EntropySource = SYSTEM_ENTROPY
    ) -> None:
        super().__init__(epsilon=epsilon, alpha=alpha, step=step, cell_diameter=SQRT2_ABOVE, entropy=entropy)

    @property
    def expected_square(self) -> float:
        """E|z|² of the lattice noise (relative error below 1e-12), close to 6·scale² for a fine lattice."""
        return float(self.step) ** 2 * planar_second_moment(float(self.rate))

    def lattice_index(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """Index pair of the lattice point nearest to each complex value: int64, shape (n, 2)."""
        complex_values = np.ascontiguousarray(values, dtype=np.complex128)
        if complex_values.ndim != 1:
            raise InputError("planar noise needs a one-dimensional array of complex values: one per site")
        return nearest_index(complex_values.view(np.float64).reshape(-1, 2), self.step)

    def lattice_values(self, index: NDArray[np.int64]) -> NDArray[np.complex128]:
        """Convert to the lattice points of index pairs, shape (n, 2), as complex floats, shape (n,)."""
        return np.ascontiguousarray(index * float(self.step)).view(np.complex128)[:, 0]


def planar_second_moment(rate: float) -> float:
    """Compute E|k|² of the law ∝ exp(-rate·|k|₂) on Z², with relative error below 1e-12."""
    if rate < SERIES_RATE:
        return _second_moment_by_series(rate)
    # What is cut off weighs less than e^-45 relative to the term at the origin.
    reach = np.arange(-math.ceil(60.0 / rate), math.ceil(60.0 / rate) + 1, dtype=np.float64)
    squares = reach[:, None] ** 2 + reach**2
    weights = np.exp(-rate * np.sqrt(squares))
    return float((squares * weights).sum() / weights.sum())


def _second_moment_by_series(rate: float) -> float:
    """Compute Z''/Z for Z(rate) = Σ exp(-rate·|k|), with Z by Poisson summation (section 7 of the proof note)."""
    turn = 2.0 * math.pi
    first = LATTICE_SUMS[3] / turn**2
    third = 3.0 / 2.0 * LATTICE_SUMS[5] / turn**4
    fifth = 15.0 / 8.0 * LATTICE_SUMS[7] / turn**6
    total = turn / rate**2 + first * rate - third * rate**3 + fifth * rate**5
    curvature = 6.0 * turn / rate**4 - 6.0 * third * rate + 20.0 * fifth * rate**3
    return curvature / total
