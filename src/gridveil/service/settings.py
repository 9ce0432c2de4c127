"""What a user chooses for a release."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from gridveil.core.band import Tolerance
from gridveil.core.choices import DemandBounds
from gridveil.core.errors import InputError
from gridveil.core.methods import Method, Solver
from gridveil.privacy.mechanisms.exact_sampling import positive_fraction
from gridveil.service.choices import CostTargetMode


@dataclass(frozen=True, kw_only=True)
class CostTargetSettings:
    """How f̃ is found.

    ``forecast`` is the given cost. For a private cost, ``sensitivity`` (the cost's unit) bounds how much the optimal cost
    changes when one site's demand moves by α, ``share`` of ε is spent on it, and β is widened so that the true cost lies in
    the band with probability ``confidence``.
    """

    mode: CostTargetMode = CostTargetMode.PUBLIC
    forecast: float | None = None
    sensitivity: str | None = None
    share: str = "0.1"
    confidence: float = 0.95

    def __post_init__(self) -> None:
        if self.mode is CostTargetMode.FORECAST and self.forecast is None:
            raise InputError("a forecast cost target needs its value; give --forecast-cost")
        if self.mode is CostTargetMode.PRIVATE:
            if self.sensitivity is None:
                raise InputError(
                    "a private cost target needs --cost-sensitivity: the most that the optimal cost can change when one "
                    "site's demand moves by alpha (under congestion this exceeds alpha times the dearest generator)"
                )
            positive_fraction(self.sensitivity, "the cost sensitivity")
            if not 0 < positive_fraction(self.share, "the cost share") < 1:
                raise InputError("the cost's share of epsilon must lie between 0 and 1; give, for example, 0.1")
            if not 0 < self.confidence < 1:
                raise InputError("the confidence must lie between 0 and 1; give, for example, 0.95")


def check_promise(epsilon: str | None, alpha: str | None) -> None:
    """Refuse an ε or α that is stated and is not a positive number."""
    for stated, name in ((epsilon, "epsilon"), (alpha, "alpha")):
        if stated is not None:
            positive_fraction(stated, name)


@dataclass(frozen=True, kw_only=True)
class ReleaseSettings:
    """ε and α as exact text (α per unit), β, and how to solve. A seed makes the release a simulation."""

    epsilon: str
    alpha: str
    beta: Tolerance
    target: CostTargetSettings = CostTargetSettings()
    seed: int | None = None
    method: Method = Method.AUTO
    solver: Solver = Solver.STRUCTURED
    demand_bounds: DemandBounds = DemandBounds.NONE

    def __post_init__(self) -> None:
        check_promise(self.epsilon, self.alpha)

    @property
    def cost_epsilon(self) -> Fraction:
        """The part of ε spent on the cost target: 0 unless it is private."""
        whole = positive_fraction(self.epsilon, "epsilon")
        return whole * Fraction(self.target.share) if self.target.mode is CostTargetMode.PRIVATE else Fraction(0)

    @property
    def demand_epsilon(self) -> Fraction:
        """The part of ε spent on the demands."""
        return positive_fraction(self.epsilon, "epsilon") - self.cost_epsilon
