"""Independent Laplace noise on every block of a profile, each with its share of ε: the baseline of the others."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gridveil.privacy.mechanisms.exact_sampling import RadialLaplaceSampler
from gridveil.privacy.mechanisms.planar_laplace import planar_second_moment
from gridveil.privacy.mechanisms.profile import ProfileMechanism


class SplitLaplace(ProfileMechanism):
    """Noise with probability ∝ exp(-c·|z|₂) on the mean of every block by itself, at ε/k each."""

    name: ClassVar[str] = "Laplace, epsilon split over the blocks"

    def __init__(self, **parameters: Any) -> None:
        super().__init__(**parameters)
        rate = self.epsilon / self.basis.blocks / self.reach
        self._sampler = RadialLaplaceSampler(rate=rate, dimension=self.dimension)
        self._refuse_too_fine(self._sampler)

    @property
    def rounding(self) -> Fraction:
        """What rounding adds to every distance."""
        return self.cell_diameter * self.step

    @property
    def expected_square(self) -> float:
        """Second moment of the planar or scalar lattice law."""
        rate = float(self._sampler.rate)
        moment = planar_second_moment(rate) if self.dimension == 2 else 1.0 / (2.0 * np.sinh(rate / 2.0) ** 2)
        return float(self.step) ** 2 * float(moment)

    def noise(self, count: int) -> NDArray[np.int64]:
        """Independent draws for every block and participant."""
        return self._sampler.draw(self.basis.blocks * count, self.entropy).reshape(-1, count, self.dimension)
