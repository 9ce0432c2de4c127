"""What leaves the private rooms: noisy values and noisy sums. Post-processing sees these and public data, no more."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridveil.core.secret import SecretPart


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
    parts: tuple[PartFacts, ...] = ()
    """Where several quantities are hidden together: the noise of each; ε is then the sum of theirs."""
    provided_by: str | None = None
    """The package behind a mechanism that is not gridveil's own."""


@dataclass(frozen=True, kw_only=True)
class PartFacts:
    """The noise of one of several quantities: its own facts, in the per-unit values of its field, and where it stands."""

    field: str
    participant: str
    unit: str
    base: float
    dimension: int
    start: int
    stop: int
    facts: MechanismFacts

    @classmethod
    def of_part(cls, part: SecretPart, facts: MechanismFacts) -> PartFacts:
        """The noise ``facts`` of a part of a field."""
        field, run = part.field, part.run
        return cls(
            field=field.name,
            participant=field.participant,
            unit=field.unit,
            base=field.base,
            dimension=field.dimension,
            start=run.start,
            stop=run.stop,
            facts=facts,
        )

    def of(self, values: NDArray[Any]) -> NDArray[Any]:
        """Its own among all values: complex, or real where its dimension is one."""
        own = values[self.start : self.stop]
        return own if self.dimension == 2 else own.real


def facts_from(fields: dict[str, Any]) -> MechanismFacts:
    """Make facts from their plain values, as ``dataclasses.asdict`` gives them."""
    parts = tuple(PartFacts(**(part | {"facts": facts_from(part["facts"])})) for part in fields.get("parts", ()))
    return MechanismFacts(**(fields | {"parts": parts}))


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
class DrawnTotals:
    """Sums of the true values of disjoint groups of participants, with noise, or as they are where declared public.

    ``group`` gives each participant's position among ``labels``; ``values`` (k,) are per unit. ``mechanism`` states ε and α
    of these sums, None where they are declared public. ``charge_id`` is that of all sums of a release, whose parts add up.
    """

    name: str
    labels: tuple[str, ...]
    group: NDArray[np.int64]
    values: NDArray[Any]
    mechanism: MechanismFacts | None
    simulation: bool
    charge_id: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "group", _frozen(self.group))
        object.__setattr__(self, "values", _frozen(self.values))

    @property
    def epsilon(self) -> float:
        """What these sums spend."""
        return 0.0 if self.mechanism is None else self.mechanism.epsilon


@dataclass(frozen=True, eq=False, kw_only=True)
class Draw:
    """Everything that was drawn for a release, and may be post-processed again and again at no further cost.

    ``declared_cost`` is the true optimal cost where the curator declared it public: kept, so that it is found only once;
    ``declared_loss`` likewise, per unit. ``totals`` are the sums that the release keeps.
    """

    noisy: NoisyData
    total: NoisySum | None = None
    declared_cost: float | None = None
    totals: tuple[DrawnTotals, ...] = ()
    declared_loss: float | None = None

    @property
    def epsilon(self) -> float:
        """The whole ε of the draw."""
        parts = (self.total.mechanism.epsilon if self.total else 0.0, *(totals.epsilon for totals in self.totals))
        return sum(parts, self.noisy.mechanism.epsilon)

    @property
    def simulation(self) -> bool:
        """Whether any part of it was made from a seed."""
        sums = (self.total is not None and self.total.simulation, *(totals.simulation for totals in self.totals))
        return self.noisy.simulation or any(sums)


@dataclass(frozen=True, eq=False, kw_only=True)
class SeriesDraw:
    """Everything that was drawn for a series: noisy values per unit, shape (hours, participants), and how they were made.

    ``mechanism`` is that of one hour, or of a whole profile. ``draw_id`` names the draw in the ledger. ``totals`` holds
    the noisy sum of each hour, for private cost targets; None where an hour has none. ``share`` of the ε that was paid is
    left for these sums, and no other share may be drawn with.
    """

    values: NDArray[Any]
    mechanism: MechanismFacts
    simulation: bool
    charge_id: str | None = None
    draw_id: str | None = None
    totals: tuple[NoisySum | None, ...] | None = None
    share: Fraction = Fraction(0)

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
