"""What leaves the private rooms: noisy values and noisy sums. Post-processing sees these and public data, no more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class MechanismFacts:
    """The public parameters of the noise: α, step and scale in the unit of the values (per unit), ε without one."""

    name: str
    epsilon: float
    alpha: float
    rounding: float | None
    """ρ of the linear loss ε·(r + ρ)/(α + ρ) at distance r; None where the loss is ε for each started α."""
    step: float
    """Lattice step; 0 for the float noise of the paper's studies."""
    scale: float
    expected_square: float
    """E|z|² of the noise on one value."""
    proof_note: str
    delta: float = 0.0
    """δ of the promise; zero for pure differential privacy."""
    rho: float | None = None
    """ρ of zero-concentrated differential privacy, where that is what is proved."""
    provided_by: str | None = None
    """The package behind a mechanism that is not gridveil's own."""


@dataclass(frozen=True, eq=False, kw_only=True)
class NoisyData:
    """d̃: one value per participant, per unit, and how it was made.

    ``simulation`` is true for seeded noise, which protects nobody: whoever knows the seed can take the noise off.
    ``charge_id`` names the ledger's charge that paid for the draw.
    """

    values: NDArray[Any]
    mechanism: MechanismFacts
    simulation: bool
    charge_id: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", _frozen(self.values))


@dataclass(frozen=True, eq=False, kw_only=True)
class NoisySum:
    """Σ Re(conj(y_i)·d°_i) over all participants with Laplace noise, for public weights y.

    With prices as weights it is in the unit of the cost, and ``offset`` is what post-processing adds to it to estimate the
    cost; both were found from d̃ and public data. ``mechanism`` states ε and α of the sum's own charge (α per unit
    of the values), and the scale of its noise in the unit of the sum.
    """

    value: float
    weights: NDArray[Any]
    offset: float
    mechanism: MechanismFacts
    simulation: bool
    charge_id: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", _frozen(self.weights))


@dataclass(frozen=True, eq=False, kw_only=True)
class Draw:
    """Everything that was drawn for a release, and may be post-processed again and again at no further cost.

    ``declared_cost`` is the true optimal cost where the curator declared it public: kept, so that it is found only once.
    """

    noisy: NoisyData
    total: NoisySum | None = None
    declared_cost: float | None = None

    @property
    def epsilon(self) -> float:
        """The whole ε of the draw."""
        return self.noisy.mechanism.epsilon + (self.total.mechanism.epsilon if self.total else 0.0)

    @property
    def simulation(self) -> bool:
        """Whether any part of it was made from a seed."""
        return self.noisy.simulation or (self.total is not None and self.total.simulation)


@dataclass(frozen=True, eq=False, kw_only=True)
class SeriesDraw:
    """Everything that was drawn for a series: noisy values per unit, shape (hours, participants), and how they were made.

    ``mechanism`` is that of one hour, or of a whole profile. ``draw_id`` names the draw in the ledger. ``totals`` holds
    the noisy sum of each hour, for private cost targets; None where an hour has none.
    """

    values: NDArray[Any]
    mechanism: MechanismFacts
    simulation: bool
    charge_id: str | None = None
    draw_id: str | None = None
    totals: tuple[NoisySum | None, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", _frozen(self.values))

    def hour(self, hour: int) -> Draw:
        """What was drawn for one hour."""
        noisy = NoisyData(
            values=self.values[hour], mechanism=self.mechanism, simulation=self.simulation, charge_id=self.charge_id
        )
        return Draw(noisy=noisy, total=None if self.totals is None else self.totals[hour])


def _frozen(values: NDArray[Any]) -> NDArray[Any]:
    copy = np.array(values)
    copy.setflags(write=False)
    return copy
