"""The contract of noise on whole profiles: every hour of one participant may move by α at once (docs/proofs/profile.md)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gridveil.core.errors import InputError
from gridveil.privacy.mechanisms.basis import Basis
from gridveil.privacy.mechanisms.exact_sampling import (
    FINEST_RATE,
    EntropySource,
    ExactNumber,
    LatticeRejection,
    SystemEntropy,
    nearest_index,
    positive_fraction,
    suggested_step,
)
from gridveil.privacy.mechanisms.planar_laplace import SQRT2_ABOVE
from gridveil.privacy.noisy import MechanismFacts


class ProfileMechanism(ABC):
    """Noise on the profiles of all participants that makes two profiles (ε, δ)-indistinguishable.

    Two profiles of one participant are neighbours if every hour moves by at most α. The truth is rounded to the lattice,
    hour by hour, and averaged over the blocks of the basis in integers; every mean gets noise on the same lattice.
    """

    name: ClassVar[str]
    proof_note: ClassVar[str] = "docs/proofs/profile.md"

    def __init__(
        self, *, epsilon: ExactNumber, alpha: ExactNumber, basis: Basis, dimension: int, entropy: EntropySource
    ) -> None:
        self.epsilon = positive_fraction(epsilon, "epsilon")
        self.alpha = positive_fraction(alpha, "alpha")
        self.basis, self.dimension, self.entropy = basis, dimension, entropy
        self.step = suggested_step(epsilon=self.epsilon / basis.blocks, alpha=self.alpha)

    @property
    def delta(self) -> Fraction:
        """δ of the promise; zero for pure differential privacy."""
        return Fraction(0)

    @property
    def rho(self) -> Fraction | None:
        """ρ of zero-concentrated differential privacy, where that is what is proved."""
        return None

    @property
    @abstractmethod
    def rounding(self) -> Fraction | None:
        """ρ of a loss that is linear in the distance of two profiles, as ``Mechanism.rounding``; None without such a law."""

    @property
    @abstractmethod
    def expected_square(self) -> float:
        """E|z|² of the noise on the mean of one block, in the unit of the values squared."""

    @abstractmethod
    def noise(self, count: int) -> NDArray[np.int64]:
        """Noise for the block means of ``count`` participants, in lattice steps: shape (k, count, dimension)."""

    @property
    def is_private(self) -> bool:
        """Whether draws come from the operating system's entropy; False marks a simulation."""
        return type(self.entropy) is SystemEntropy

    @property
    def hour_diameter(self) -> Fraction:
        """How many steps rounding adds to the distance of two values."""
        return SQRT2_ABOVE if self.dimension == 2 else Fraction(1)

    @property
    def cell_diameter(self) -> Fraction:
        """How many steps rounding adds to the distance of two profiles: once for the hours, once more for block means."""
        return self.hour_diameter if self.basis.is_hourly else 2 * self.hour_diameter

    @property
    def reach(self) -> Fraction:
        """Bound, in lattice steps, on how far neighbouring profiles move the rounded mean of any block."""
        return self.alpha / self.step + self.cell_diameter

    def draw(self, values: NDArray[Any]) -> NDArray[Any]:
        """Noisy profiles for true ones, shape (hours, participants)."""
        return self.basis.spread(self.lattice_values(self.noisy_index(values)))

    def noisy_index(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """What is drawn: the noisy lattice index of every block, shape (k, participants, dimension)."""
        index = self.basis.mean_index(self.lattice_index(values))
        return index + self.noise(index.shape[1])

    def lattice_index(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """Index of the lattice point nearest to each value: shape (hours, participants, dimension)."""
        kind = np.complex128 if self.dimension == 2 else np.float64
        if np.iscomplexobj(values) != (self.dimension == 2) or values.ndim != 2 or len(values) != self.basis.hours:
            raise InputError("profiles must be a table of one value for each hour and participant")
        table = np.ascontiguousarray(values, dtype=kind)
        return nearest_index(table.view(np.float64).reshape(*table.shape, self.dimension), self.step)

    def lattice_values(self, index: NDArray[np.int64]) -> NDArray[Any]:
        """Lattice points of an index, shape (k, participants)."""
        points = np.ascontiguousarray(index * float(self.step))
        return points.view(np.complex128)[..., 0] if self.dimension == 2 else points[..., 0]

    def facts(self) -> MechanismFacts:
        """Public parameters as plain numbers; ``scale`` is the root mean square of the noise on one component."""
        return MechanismFacts(
            name=self.name,
            epsilon=float(self.epsilon),
            alpha=float(self.alpha),
            rounding=None if self.rounding is None else float(self.rounding),
            step=float(self.step),
            scale=float(np.sqrt(self.expected_square / self.dimension)),
            expected_square=self.expected_square,
            proof_note=self.proof_note,
            delta=float(self.delta),
            rho=None if self.rho is None else float(self.rho),
        )

    def _refuse_too_fine(self, sampler: LatticeRejection) -> None:
        """The float part of a sampler is proved for cells up to the finest rate of the planar law."""
        if 1 << sampler.cell_bits > 1 / FINEST_RATE:
            raise InputError(
                "epsilon is too small for so many blocks: choose a larger epsilon, or a basis of fewer blocks"
            )

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(epsilon={self.epsilon}, alpha={self.alpha}, step={self.step}, "
            f"basis={self.basis.name!r}, blocks={self.basis.blocks}, hours={self.basis.hours})"
        )
