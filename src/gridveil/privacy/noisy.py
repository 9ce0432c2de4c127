"""What leaves the private rooms: noisy demands and the cost target. Post-processing sees these and public data, no more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class MechanismFacts:
    """The public parameters of the noise: α, step and scale in the unit of the demands (per unit), ε without one."""

    name: str
    epsilon: float
    alpha: float
    step: float
    """Lattice step; 0 for the float noise of a simulation."""
    scale: float
    expected_square: float
    """E|z|² of the noise on one site."""
    proof_note: str


@dataclass(frozen=True, eq=False, kw_only=True)
class NoisyDemand:
    """d̃: one value per load site, per unit, and how it was made.

    ``simulation`` is true for seeded noise, which protects nobody: whoever knows the seed can take the noise off.
    ``charge_id`` names the ledger's charge that paid for the draw.
    """

    values: NDArray[Any]
    mechanism: MechanismFacts
    simulation: bool
    charge_id: str | None = None

    def __post_init__(self) -> None:
        values = np.array(self.values)
        values.setflags(write=False)
        object.__setattr__(self, "values", values)


@dataclass(frozen=True, kw_only=True)
class PrivateCost:
    """The true optimal cost with Laplace noise of this scale, both in the cost's unit, and the ε spent on it."""

    value: float
    scale: float
    epsilon: float


@dataclass(frozen=True, eq=False, kw_only=True)
class Draw:
    """Everything that was drawn for a release, and may be post-processed again and again at no further cost."""

    noisy: NoisyDemand
    private_cost: PrivateCost | None = None

    @property
    def epsilon(self) -> float:
        """The whole ε of the draw: demands and cost."""
        return self.noisy.mechanism.epsilon + (self.private_cost.epsilon if self.private_cost else 0.0)
