"""The level of every profile and one shape for all, both with K-norm noise (docs/proofs/profile.md, section 4).

The shape is that of the sum over all participants, to which each contributes little: its noise is small beside the sum.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gridveil.privacy.mechanisms.basis import block_basis
from gridveil.privacy.mechanisms.max_norm import RadiusSampler, k_norm_noise, k_norm_square, refuse_wide
from gridveil.privacy.mechanisms.profile import ProfileMechanism

SHAPE_SHARE = Fraction(1, 5)  # of ε, for the shape: near the best for 48 blocks and 100 participants
LEAST_SHAPE = 0.05  # of its mean: noise must not turn an hour's demand around


class SharedShape(ProfileMechanism):
    """Noisy means of whole profiles, times a shape from the noisy sum of all profiles over the blocks of the basis."""

    name: ClassVar[str] = "K-norm, level of each profile and shape of their sum"

    def __init__(self, **parameters: Any) -> None:
        super().__init__(**parameters)
        pace = self.epsilon / (self.reach + 1)
        self._level = RadiusSampler(rate=(1 - SHAPE_SHARE) * pace, blocks=1, dimension=self.dimension)
        self._sum = RadiusSampler(rate=SHAPE_SHARE * pace, blocks=self.basis.blocks, dimension=1)
        refuse_wide(self._sum)
        refuse_wide(self._level)

    @property
    def cell_diameter(self) -> Fraction:
        """Hours are rounded, and so are their means: over blocks for the sum, over all hours for the level."""
        return 2 * self.hour_diameter

    @property
    def rounding(self) -> Fraction:
        """What rounding the profiles and the radii adds to every distance."""
        return (self.cell_diameter + 1) * self.step

    @property
    def expected_square(self) -> float:
        """E|z|² of the noise on a level."""
        return k_norm_square(self._level, self.step)

    @property
    def sum_square(self) -> float:
        """E z² of the noise on the sum of all participants in one block."""
        return k_norm_square(self._sum, self.step)

    def noise(self, count: int) -> NDArray[np.int64]:
        """Noise on the levels: shape (1, count, dimension)."""
        return k_norm_noise(self._level, count, self.entropy)

    def draw(self, values: NDArray[Any]) -> NDArray[Any]:
        """Noisy levels times the shape of the noisy sum."""
        index = self.lattice_index(values)
        whole = block_basis("level", np.zeros(self.basis.hours))
        level = self.lattice_values(whole.mean_index(index) + self.noise(index.shape[1]))
        total = self.basis.mean_index(index)[..., 0].sum(axis=1) + k_norm_noise(self._sum, 1, self.entropy)[:, 0, 0]
        return np.asarray(self._shape_of(total)[:, None] * level)

    def _shape_of(self, total: NDArray[np.int64]) -> NDArray[np.float64]:
        """Shape of the hours, of mean one, from the noisy sum of each block: post-processing."""
        hours = total[self.basis.labels].astype(np.float64)
        mean = float(hours.mean())
        if mean <= 0:
            return np.ones(len(hours))
        shape: NDArray[np.float64] = np.maximum(hours / mean, LEAST_SHAPE)
        return np.asarray(shape / shape.mean())
