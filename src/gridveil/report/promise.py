"""The promise of a release in words and odds, from its card alone, for people who do not read ε."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gridveil.report.page import number, percent

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

    unit: str
    alpha: str
    epsilon: str
    rows: tuple[Odds, ...]
    typical_noise: str
    complex_demands: bool
    cost_is_public: bool
    """Whether the true optimal cost itself is the target, and so published."""

    @property
    def at_alpha(self) -> Odds:
        """The odds for two values α apart."""
        return next(row for row in self.rows if row.apart == "α")


def promise_of(card: Mapping[str, Any]) -> Promise:
    """Read the promise off a card.

    The noise loses (r + ρ)/scale at distance r, where ρ = scale·ε − α is what rounding to the lattice adds. A private cost is
    charged for each started α, as its sensitivity is stated for α alone.
    """
    privacy, noise = card["privacy_loss"], card["implementation"]
    parameters = privacy["privacy_parameters"]
    alpha, demands, cost = (float(parameters[key]) for key in ("alpha", "epsilon_demands", "epsilon_cost"))
    unit = str(parameters["alpha_unit"])

    def odds(share: float, words: str) -> Odds:
        loss = demands - (1 - share) * alpha / float(noise["scale"]) + math.ceil(share) * cost
        return Odds(apart=words, amount=in_units(share * alpha, unit), loss=loss)

    return Promise(
        unit=str(privacy["privacy_unit"]),
        alpha=in_units(alpha, unit),
        epsilon=number(float(parameters["epsilon"])),
        rows=tuple(odds(share, words) for share, words in DISTANCES),
        typical_noise=in_units(math.sqrt(float(noise["expected_squared_noise"])), unit),
        cost_is_public=card["cost_target"]["mode"] == "public",
        complex_demands="P + jQ" in str(privacy["privacy_unit_description"]),
    )


def in_units(value: float, unit: str) -> str:
    """Write a per-unit value in the unit itself, given as a card does: "per unit of 100 MVA"."""
    found = re.fullmatch(r"per unit of (\S+) (\S+)", unit)
    return f"{number(value * float(found[1]))} {found[2]}" if found else f"{number(value)} ({unit})"


def rounded_up(value: float, digits: int = 3) -> str:
    """Write a positive number with so many digits, never less than it is."""
    step = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
    return number(math.ceil(value / step - 1e-9) * step, digits)
