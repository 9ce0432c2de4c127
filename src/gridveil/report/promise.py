"""The privacy promise of a release in words and odds, from its card alone, for readers unfamiliar with ε."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gridveil.core.text import number, percent, plural

DISTANCES = ((0.5, "half of α"), (1.0, "α"), (2.0, "twice α"))
WITHOUT_LIMIT = math.log(1e6)  # odds beyond a million to one are no protection worth a number


@dataclass(frozen=True, kw_only=True)
class Odds:
    """The most that a release can tell two values of one demand apart, for somebody who held them equally likely before."""

    apart: str
    amount: str
    """How far the two values are apart, with its unit."""
    loss: float
    """Natural logarithm of the odds."""

    @property
    def odds(self) -> str:
        """The odds afterwards, rounded up."""
        return f"{rounded_up(math.exp(self.loss))} : 1" if self.loss < WITHOUT_LIMIT else "no useful limit"

    @property
    def probability(self) -> str:
        """The probability of the likelier value afterwards, rounded up."""
        return percent(math.ceil(1e3 / (1 + math.exp(-self.loss)) - 1e-9) / 1e3)


@dataclass(frozen=True, kw_only=True)
class Promise:
    """What a card promises: whose value is hidden, how far α reaches, the odds at several distances, the noise."""

    field: str
    """What one value is called: ``demand``."""
    unit: str
    alpha: str
    epsilon: str
    rows: tuple[Odds, ...]
    typical_noise: str
    details: str
    cost_is_public: bool
    """Whether the true optimal cost itself is the target, and so published."""

    @property
    def fields(self) -> str:
        """What several values are called."""
        return plural(self.field)

    @property
    def participant(self) -> str:
        """Who owns one value."""
        return self.unit.removeprefix("one ")

    @property
    def at_alpha(self) -> Odds:
        """The odds for two values α apart."""
        return next(row for row in self.rows if row.apart == "α")


def promise_of(card: Mapping[str, Any]) -> Promise:
    """Read the promise off a card: the losses of its mechanisms at a distance add up."""
    stated = card["promise"]
    alpha, unit = float(stated["alpha"]), str(stated["unit"])

    def odds(share: float, words: str) -> Odds:
        loss = sum(_loss(mechanism, share * alpha) for mechanism in card["mechanisms"])
        return Odds(apart=words, amount=f"{number(share * alpha)} {unit}", loss=loss)

    return Promise(
        field=str(stated["field"]),
        unit=str(stated["privacy_unit"]),
        alpha=f"{number(alpha)} {unit}",
        epsilon=number(float(stated["epsilon"])),
        rows=tuple(odds(share, words) for share, words in DISTANCES),
        typical_noise=f"{number(float(card['mechanisms'][0]['root_mean_square_noise']))} {unit}",
        details=str(stated["privacy_unit_details"]),
        cost_is_public=card["cost_target"]["mode"] == "public",
    )


def _loss(mechanism: Mapping[str, Any], distance: float) -> float:
    """Privacy loss at a distance: linear in it, or ε for each started α."""
    epsilon, alpha, rounding = float(mechanism["epsilon"]), float(mechanism["alpha"]), mechanism["rounding"]
    if rounding is None:
        return epsilon * math.ceil(distance / alpha - 1e-12)
    return epsilon * (distance + float(rounding)) / (alpha + float(rounding))


def rounded_up(value: float, digits: int = 3) -> str:
    """Format a positive number to some digits, rounded up."""
    step = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
    return number(math.ceil(value / step - 1e-9) * step, digits)
