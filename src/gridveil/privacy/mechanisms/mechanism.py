"""The contract of a noise mechanism: its parameters, its draw, and its exact privacy loss.

A mechanism adds noise to one value per participant. ``loss`` bounds how much more likely any output is for one value of a
participant than for another at a given distance; the ledger, the card, the odds table and series all use it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from fractions import Fraction
from typing import Any, ClassVar

from numpy.typing import NDArray

from gridveil.privacy.noisy import MechanismFacts


class Mechanism(ABC):
    """Noise on one value per participant that makes any two values α apart ε-indistinguishable.

    ``epsilon`` has no unit; ``alpha`` and distances are in the unit of the values. All parameters are public and exact.
    """

    name: ClassVar[str]
    dimension: ClassVar[int]
    """1 for real values, 2 for complex ones."""
    proof_note: ClassVar[str]

    @property
    @abstractmethod
    def epsilon(self) -> Fraction:
        """Privacy loss at distance α."""

    @property
    @abstractmethod
    def alpha(self) -> Fraction:
        """Largest change of one participant's value that is hidden at loss ε."""

    @property
    @abstractmethod
    def rounding(self) -> Fraction | None:
        """ρ of a loss that is linear, ε·(r + ρ)/(α + ρ) at distance r; None where only the definition is known."""

    @property
    @abstractmethod
    def is_private(self) -> bool:
        """Whether draws come from the operating system's entropy; False marks a simulation."""

    @property
    @abstractmethod
    def expected_square(self) -> float:
        """E|z|² of the noise on one value."""

    @abstractmethod
    def draw(self, values: NDArray[Any]) -> NDArray[Any]:
        """Noisy values for true ones, shape (n,). Never fails for finite values: values out of range are clamped first."""

    @abstractmethod
    def facts(self) -> MechanismFacts:
        """Public parameters as plain numbers."""

    def loss(self, distance: Fraction) -> Fraction:
        """Bound the privacy loss between two values of one participant at this distance.

        Without a linear law the definition is used: ⌈distance/α⌉ steps of at most α, each costing ε.
        """
        return loss_at(distance, epsilon=self.epsilon, alpha=self.alpha, rounding=self.rounding)


def loss_at(distance: Fraction, *, epsilon: Fraction, alpha: Fraction, rounding: Fraction | None) -> Fraction:
    """Privacy loss at a distance for a mechanism with these parameters; see ``Mechanism.loss``."""
    if rounding is None:
        return epsilon * math.ceil(distance / alpha)
    return epsilon * (distance + rounding) / (alpha + rounding)
