"""Two data sets that an attacker must not tell apart, for audits on data that are not secret."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridveil.core.secret import SecretValues
from gridveil.sectors.case import Case


@dataclass(frozen=True, eq=False)
class Neighbours:
    """A case and its neighbour: the value of one participant differs by α, half to either side of the original."""

    low: Case
    high: Case
    site: int
    centres: tuple[complex, complex]
    """The two values of that participant, per unit."""

    def likelihood(self, values: NDArray[Any]) -> float:
        """How much nearer a released value lies to the high than to the low centre: the best test against Laplace noise.

        Rounded, so that float arithmetic cannot tell the two apart.
        """
        value = complex(values[self.site])
        return round(abs(value - self.centres[0]) - abs(value - self.centres[1]), 9)


def neighbours(case: Case, site: int, alpha: float) -> Neighbours:
    """Move one participant's value by −α/2 and by +α/2 (real part)."""
    values = case.values.reveal()
    shift = np.zeros(len(values))
    shift[site] = alpha / 2
    centres = (complex(values[site]) - alpha / 2, complex(values[site]) + alpha / 2)
    return Neighbours(
        case.with_values(SecretValues(values - shift)), case.with_values(SecretValues(values + shift)), site, centres
    )
