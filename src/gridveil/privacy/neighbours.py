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


@dataclass(frozen=True, eq=False)
class PartNeighbours(Neighbours):
    """Neighbours of a case with several secrets: one participant of each is moved by its own α, all at once.

    ``site`` and ``centres`` are those of the first.
    """

    sites: tuple[int, ...]
    ends: tuple[tuple[complex, complex], ...]
    rates: tuple[float, ...]
    """ε/α of each secret's noise."""

    def likelihood(self, values: NDArray[Any]) -> float:
        """The best test against independent Laplace noise: the sum over all secrets, each in units of its noise."""
        return round(
            sum(
                rate * (abs(complex(values[site]) - low) - abs(complex(values[site]) - high))
                for site, (low, high), rate in zip(self.sites, self.ends, self.rates, strict=True)
            ),
            9,
        )


def part_neighbours(case: Case) -> PartNeighbours:
    """Move the first participant of each secret by −α/2 and by +α/2 (real part)."""
    values, shift = case.values.reveal(), np.zeros(len(case.field))
    sites = tuple(part.start for part in case.field.parts)
    for part in case.field.parts:
        shift[part.start] = float(part.alpha) / 2
    ends = tuple((complex(values[site]) - shift[site], complex(values[site]) + shift[site]) for site in sites)
    low, high = (case.with_values(SecretValues(values + sign * shift)) for sign in (-1, 1))
    rates = tuple(float(part.share / part.alpha) for part in case.field.parts)
    return PartNeighbours(low, high, sites[0], ends[0], sites, ends, rates)
