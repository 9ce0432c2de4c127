"""Sums over disjoint groups of participants, with noise: private totals (docs/proofs/kept-totals.md).

If one participant's value moves by at most α, the sum of that participant's group moves by at most α and no other sum
moves. So one mechanism of (ε, α) on all groups together spends ε, however many groups there are. Sums are exact rational
numbers, rounded once, to the lattice of the mechanism.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridveil.core.secret import SecretField
from gridveil.privacy.mechanisms.exact_sampling import EntropySource, suggested_step
from gridveil.privacy.mechanisms.lattice import LatticeMechanism
from gridveil.privacy.mechanisms.planar_laplace import PlanarLaplace
from gridveil.privacy.mechanisms.scalar_laplace import ScalarLaplace
from gridveil.privacy.weighted_sum import exact_dot

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False, kw_only=True)
class GroupSums:
    """The query Σ_{i in group} d_i for each of ``n_groups`` disjoint groups; ``group`` has one entry per participant."""

    group: Ints
    n_groups: int

    def exact_values(self, values: NDArray[Any]) -> list[tuple[Fraction, ...]]:
        """The sums for true values without any rounding: real parts, and imaginary parts where values are complex."""
        parts = (values.real, values.imag) if np.iscomplexobj(values) else (values,)
        return [
            tuple(exact_dot(np.ones(int(members.sum())), part[members]) for part in parts)
            for members in (self.group == number for number in range(self.n_groups))
        ]

    def sums(self, values: NDArray[Any]) -> NDArray[Any]:
        """The sums as floats."""
        total = np.zeros(self.n_groups, dtype=values.dtype)
        np.add.at(total, self.group, values)
        return total


def sums_mechanism(
    field: SecretField, *, epsilon: Fraction, alpha: Fraction, finest: Fraction, entropy: EntropySource
) -> LatticeMechanism:
    """Noise on group sums of a field: that of single values, as both move by at most α.

    ``finest`` is the largest ε of all parts of one charge: with a common lattice they have a common loss law.
    """
    kind = PlanarLaplace if field.is_complex else ScalarLaplace
    return kind(epsilon=epsilon, alpha=alpha, step=suggested_step(epsilon=finest, alpha=alpha), entropy=entropy)
