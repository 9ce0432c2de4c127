"""Noise on several quantities that are hidden together: one mechanism each, one budget (docs/proofs/secrets.md)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gridveil.core.secret import SecretField, SecretPart
from gridveil.privacy.mechanisms.mechanism import Mechanism
from gridveil.privacy.noisy import MechanismFacts, PartFacts


class ProductNoise(Mechanism):
    """Independent noise on each part of a composite field; then every value is moved into the public limits of its part.

    ε is the sum over parts (sequential composition): it holds for somebody who owns one participant of each part. For an
    owner of one participant of one part the loss is that part's own ε. Distances are in units of α, where there are several.
    """

    name: ClassVar[str] = "independent noise on each secret"
    dimension: ClassVar[int] = 2
    proof_note: ClassVar[str] = "docs/proofs/secrets.md"

    def __init__(self, field: SecretField, mechanisms: Sequence[Mechanism]) -> None:
        self.field = field
        self.mechanisms = tuple(mechanisms)

    @property
    def each(self) -> list[tuple[SecretPart, Mechanism]]:
        """Every part with its mechanism."""
        return list(zip(self.field.parts, self.mechanisms, strict=True))

    @property
    def epsilon(self) -> Fraction:
        """The sum over all parts."""
        return sum((mechanism.epsilon for mechanism in self.mechanisms), Fraction(0))

    @property
    def alpha(self) -> Fraction:
        """α of the one field, where there is one; else one: distances are in units of each part's α."""
        return self.field.parts[0].alpha if self.field.unit == self.field.parts[0].field.unit else Fraction(1)

    @property
    def rounding(self) -> None:
        """Each part has a loss law of its own; of all together only the definition is used."""

    @property
    def is_private(self) -> bool:
        """Whether all draws come from the operating system's entropy."""
        return all(mechanism.is_private for mechanism in self.mechanisms)

    @property
    def expected_square(self) -> float:
        """E|z/α|² of one value, averaged over all participants."""
        squares = [
            len(part.field) * mechanism.expected_square / float(part.alpha) ** 2 for part, mechanism in self.each
        ]
        return sum(squares) / len(self.field)

    def draw(self, values: NDArray[Any]) -> NDArray[Any]:
        """Noisy values within the public limits, complex, one part after the other."""
        drawn = []
        for part, mechanism in self.each:
            own = np.asarray(values)[part.run]
            noisy = mechanism.draw(own if part.field.is_complex else np.ascontiguousarray(own.real))
            drawn.append(part.within_limits(noisy))
        return np.concatenate(drawn).astype(complex)

    def facts(self) -> MechanismFacts:
        """Public parameters: ε and α of the whole, and the facts of every part."""
        parts = tuple(PartFacts.of_part(part, mechanism.facts()) for part, mechanism in self.each)
        root = self.expected_square**0.5
        return MechanismFacts(
            name=self.name,
            epsilon=float(self.epsilon),
            alpha=float(self.alpha),
            rounding=None,
            step=0.0,
            scale=root,
            expected_square=self.expected_square,
            proof_note=self.proof_note,
            parts=parts,
        )

    def __repr__(self) -> str:
        return "; ".join(f"{part.field.name}: {mechanism!r}" for part, mechanism in self.each)
