"""What a user chooses for a release."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from gridveil.bilevel.methods import method_named
from gridveil.core.band import Tolerance
from gridveil.core.choices import CostTargetMode, DemandBounds
from gridveil.core.errors import InputError
from gridveil.core.kept import NOTHING_KEPT, Kept
from gridveil.core.methods import Method, Solver
from gridveil.core.secret_choice import SecretChoice
from gridveil.privacy.mechanisms import LAPLACE, mechanism_named
from gridveil.privacy.mechanisms.exact_sampling import positive_fraction
from gridveil.solvers.registry import backend_entry


@dataclass(frozen=True, kw_only=True)
class CostTargetSettings:
    """How f̃ is found.

    ``forecast`` is the given cost. ``share`` of ε is spent on a private cost target; None chooses it from public data.
    """

    mode: CostTargetMode = CostTargetMode.PRIVATE
    forecast: float | None = None
    share: str | None = None

    def __post_init__(self) -> None:
        if (self.mode is CostTargetMode.FORECAST) != (self.forecast is not None):
            raise InputError("a forecast cost target and its value go together; give both or neither of them")
        if self.share is not None:
            if self.mode is not CostTargetMode.PRIVATE:
                raise InputError("only a private cost target spends a share of epsilon; leave out the share")
            if not 0 < positive_fraction(self.share, "the cost share") < 1:
                raise InputError("the cost's share of epsilon must lie between 0 and 1; give, for example, 0.2")


@dataclass(frozen=True, kw_only=True)
class ReleaseSettings:
    """ε as exact text, α as text with a unit ("10MVA") or per unit, β, and how to solve. A seed makes a simulation.

    ``time_limit``: seconds that everything after the mechanism may take; None chooses them by the size of the network.
    ``keep``: what the release keeps besides its cost, whose tolerance is β.
    """

    epsilon: str
    alpha: str
    beta: Tolerance
    target: CostTargetSettings = CostTargetSettings()
    mechanism: str = LAPLACE
    seed: int | None = None
    method: Method = Method.AUTO
    solver: Solver = Solver.STRUCTURED
    demand_bounds: DemandBounds = DemandBounds.NONE
    time_limit: float | None = None
    secrets: tuple[SecretChoice, ...] = ()
    """What is hidden, each with its own α; empty: demands alone, with ``alpha``."""
    keep: Kept = NOTHING_KEPT

    def __post_init__(self) -> None:
        positive_fraction(self.epsilon, "epsilon")
        method_named(self.method)
        backend_entry(self.solver)
        mechanism_named(self.mechanism)
        if self.seed is not None and self.seed < 0:
            raise InputError("a seed must be zero or a positive whole number")
        if self.time_limit is not None and not self.time_limit > 0:
            raise InputError("the time limit must be a positive number of seconds")
        if self.secrets and self.keep.numbers:
            raise InputError("totals and losses are kept where demands alone are secret; leave out --keep or --secret")
        share = self.keep.share
        if share is not None and not 0 < positive_fraction(share, "the totals' share") < 1:
            raise InputError("the totals' share of epsilon must lie between 0 and 1; give, for example, 0.2")

    @property
    def exact_epsilon(self) -> Fraction:
        """ε in all."""
        return positive_fraction(self.epsilon, "epsilon")
