"""Mechanisms on a public lattice: exact parameters, rounding, and noise with probability ∝ exp(-rate·|k|₂)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridveil.core.errors import InputError
from gridveil.privacy.mechanisms.exact_sampling import (
    COARSEST_RATE,
    FINEST_RATE,
    LARGEST_INPUT_INDEX,
    LARGEST_OUTPUT_INDEX,
    EntropySource,
    ExactNumber,
    RadialLaplaceSampler,
    SystemEntropy,
    positive_fraction,
)
from gridveil.privacy.mechanisms.mechanism import Mechanism
from gridveil.privacy.noisy import MechanismFacts


@dataclass(frozen=True, kw_only=True, eq=False)
class LatticeNoise:
    """What a mechanism gives for n sites: the noisy lattice index, and the same points as floats (index·step)."""

    index: NDArray[np.int64]
    values: NDArray[Any]


class LatticeMechanism(Mechanism):
    """What the planar and the scalar mechanism share: exact public parameters and noise ∝ exp(-rate·|k|₂) on a lattice.

    ``epsilon`` has no unit; ``alpha`` and ``step`` are in the unit of the values. Floats are taken at their exact
    binary value: write "0.1" for one tenth.
    """

    def __init__(
        self,
        *,
        epsilon: ExactNumber,
        alpha: ExactNumber,
        step: ExactNumber,
        cell_diameter: Fraction,
        entropy: EntropySource,
    ) -> None:
        self._entropy = entropy
        self._epsilon = positive_fraction(epsilon, "epsilon")
        self._alpha = positive_fraction(alpha, "alpha")
        self._step = positive_fraction(step, "step")
        self._rate = self._epsilon * self._step / (self._alpha + cell_diameter * self._step)
        if not Fraction(1, 2**512) <= self._step <= 2**512:
            raise InputError("step must lie between 2^-512 and 2^512: choose another unit")
        if self._rate < FINEST_RATE:
            raise InputError("step is too fine for this alpha and epsilon: choose a larger step")
        if self._rate > COARSEST_RATE:
            raise InputError("epsilon is so large that there would be no noise: choose a smaller epsilon")

    @property
    def epsilon(self) -> Fraction:
        """Privacy parameter ε, exact."""
        return self._epsilon

    @property
    def alpha(self) -> Fraction:
        """Largest change of one site's value that is hidden, exact, in the unit of the values."""
        return self._alpha

    @property
    def step(self) -> Fraction:
        """Spacing of the public lattice, exact, in the unit of the values."""
        return self._step

    @property
    def rate(self) -> Fraction:
        """Decay of the log probability per lattice step, exact."""
        return self._rate

    @property
    def exact_scale(self) -> Fraction:
        """Calibrated scale 1/c of the law exp(-c·|z|), exact, in the unit of the values."""
        return self._step / self._rate

    @property
    def scale(self) -> float:
        """Calibrated scale as a float."""
        return float(self.exact_scale)

    @property
    def rounding(self) -> Fraction:
        """ρ: what rounding to the lattice adds to every distance."""
        return self.exact_scale * self._epsilon - self._alpha

    @property
    def is_private(self) -> bool:
        """Whether draws come from the operating system's entropy; False marks a simulation."""
        return type(self._entropy) is SystemEntropy

    def squared_exponent(self, offset: tuple[int, ...]) -> Fraction | None:
        """Find s such that the noise ``offset`` has probability ∝ exp(-√s), or None if it cannot occur."""
        return self._rate**2 * sum(component**2 for component in offset)

    @abstractmethod
    def lattice_index(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """Index of the lattice point nearest to each value, ties to even."""

    @abstractmethod
    def lattice_values(self, index: NDArray[np.int64]) -> NDArray[Any]:
        """Lattice points of an index as floats, shape (n,)."""

    def _noisy_index(self, index: NDArray[np.int64]) -> NDArray[np.int64]:
        """Add fresh noise to a lattice index, shape (n,) or (n, dimension)."""
        sampler = RadialLaplaceSampler(rate=self.rate, dimension=self.dimension)
        noisy: NDArray[np.int64] = index + sampler.draw(len(index), self._entropy).reshape(index.shape)
        return noisy.clip(-LARGEST_OUTPUT_INDEX, LARGEST_OUTPUT_INDEX)

    def add_noise(self, values: NDArray[Any]) -> LatticeNoise:
        """Round true values, shape (n,), to the lattice and add independent noise to each index."""
        noisy = self._noisy_index(self.lattice_index(values))
        return LatticeNoise(index=noisy, values=self.lattice_values(noisy))

    def draw(self, values: NDArray[Any]) -> NDArray[Any]:
        """Noisy lattice points for true values, shape (n,)."""
        return np.asarray(self.add_noise(values).values)

    def draw_exact_points(self, points: Sequence[tuple[Fraction, ...]]) -> NDArray[Any]:
        """Noisy lattice points for exact ones, shape (n,): nothing is rounded before the lattice; out of range is clamped."""
        most = LARGEST_INPUT_INDEX
        index = [[max(-most, min(round(part / self._step), most)) for part in point] for point in points]
        exact = np.array(index, dtype=np.int64).reshape(len(points), self.dimension)
        return self.lattice_values(self._noisy_index(exact if self.dimension > 1 else exact[:, 0]))

    def facts(self) -> MechanismFacts:
        """Public parameters as plain numbers."""
        return MechanismFacts(
            name=self.name,
            epsilon=float(self._epsilon),
            alpha=float(self._alpha),
            rounding=float(self.rounding),
            step=float(self._step),
            scale=self.scale,
            expected_square=self.expected_square,
            proof_note=self.proof_note,
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}(epsilon={self._epsilon}, alpha={self._alpha}, step={self._step})"
