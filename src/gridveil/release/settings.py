"""What a user chooses for a release."""

from __future__ import annotations

from dataclasses import dataclass

from gridveil.networks.formulation import DemandBounds
from gridveil.privacy.noisy import Tolerance
from gridveil.release.method import Method


@dataclass(frozen=True, kw_only=True)
class ReleaseSettings:
    """ε and α as exact text (α per unit), β, and how to solve. A seed makes the release a simulation."""

    epsilon: str
    alpha: str
    beta: Tolerance
    seed: int | None = None
    method: Method = Method.BISECTION
    demand_bounds: DemandBounds = DemandBounds.NONE
