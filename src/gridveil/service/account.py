"""Who pays for a draw: a data set's ledger, or nobody, for simulations."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

from gridveil.core.choices import Protects
from gridveil.core.errors import InputError
from gridveil.core.quantity import physical
from gridveil.core.secret import SecretField
from gridveil.core.secret_choice import DEMAND
from gridveil.privacy.ledger import ChargeHistory, ChargePart, Ledger, exact_text
from gridveil.privacy.mechanisms.mechanism import loss_at


@dataclass(frozen=True, kw_only=True)
class Spending:
    """What a data set has spent in all, at the ledger's reference α (``unit``), after a release."""

    epsilon: float
    cap: float
    alpha: float
    unit: str
    draws: int
    delta: float = 0.0
    protects: str = Protects.PROFILE.value


@dataclass(frozen=True, kw_only=True)
class Price:
    """ε at α (per unit) and the loss law of one draw; δ and ρ where it is ρ-zCDP."""

    epsilon: Fraction
    alpha: Fraction
    rounding: Fraction | None
    delta: Fraction = Fraction(0)
    rho: Fraction | None = None
    parts: tuple[ChargePart, ...] = ()
    """Of a draw that covers several secrets, in their physical units."""

    def at(self, alpha: Fraction) -> Fraction:
        """ε at another α, as the ledger counts it."""
        if self.rho is not None:
            return self.epsilon * math.ceil(alpha / self.alpha) ** 2
        return loss_at(alpha, epsilon=self.epsilon, alpha=self.alpha, rounding=self.rounding)


class Account(Protocol):
    """Takes a charge before each draw."""

    @property
    def simulation(self) -> bool:
        """Whether draws that it pays for protect nobody."""
        ...

    @property
    def protects(self) -> Protects:
        """Whose change its totals bound."""
        ...

    def needed(self, field: SecretField, *prices: Price) -> Fraction:
        """ε of draws as its total will count them: at its own α, and at the reference α of every further secret."""
        ...

    def hidden(self) -> frozenset[str]:
        """The secrets that draws have been charged for, by name."""
        ...

    def check(self, field: SecretField, *prices: Price) -> None:
        """Refuse, before anything is drawn, what the budget does not cover."""
        ...

    def pay(
        self, field: SecretField, price: Price, *, mechanism: str, purpose: str, draw: str | None = None
    ) -> str | None:
        """Charge one draw; the charge is on disk when this returns. ``draw`` is the random id of the draw, in hex."""
        ...

    def paid(self, draw: str) -> str | None:
        """The id of the charge that paid for the draw with this id, or None."""
        ...

    def owed(self, draw: str, field: SecretField, price: Price) -> str | None:
        """The charge of a draw that was lost before anybody saw it, if it was made at this very price; else None.

        Refused where a draw has been kept under this id.
        """
        ...

    def refuse_kept(self, draw: str) -> None:
        """Refuse a second draw under an id whose draw has been kept."""
        ...

    def keep(self, draw: str, digest: str) -> None:
        """Hold a charge to the draw that was kept; another one under the same id is refused. Only then may it be used."""
        ...

    def spending(self) -> Spending | None:
        """What has been spent in all."""
        ...


@dataclass(frozen=True)
class LedgerAccount:
    """Charges a ledger, in the physical unit of the field."""

    ledger: Ledger
    simulation: bool = False

    @property
    def protects(self) -> Protects:
        """What the header of the ledger says."""
        return self.ledger.protects

    def needed(self, field: SecretField, *prices: Price) -> Fraction:
        """Convert each price as the ledger will."""
        history = self.ledger.history()
        return sum((_needed(price, field, history) for price in prices), Fraction(0))

    def hidden(self) -> frozenset[str]:
        """The fields of all charges; one without parts is for demands."""
        charges = self.ledger.charges
        return frozenset(name for one in charges for name in [part.field for part in one.parts] or [DEMAND])

    def check(self, field: SecretField, *prices: Price) -> None:
        """Refuse prices that together exceed what remains."""
        history, needed = self.ledger.history(), self.needed(field, *prices)
        if history.remaining is not None and needed > history.remaining:
            raise InputError(
                f"{self.ledger.path}: over budget, nothing was drawn: this release needs ε = {_short(needed)}, remaining ε = "
                f"{_short(history.remaining)}, at α = {exact_text(history.alpha)} {history.unit}; ask for a smaller epsilon, or "
                "use an earlier draw again (--reuse), which is free"
            )

    def pay(self, field: SecretField, price: Price, *, mechanism: str, purpose: str, draw: str | None = None) -> str:
        """Charge one draw and return the charge's id."""
        unit = self.ledger.unit if price.parts else field.unit
        terms = self._terms(field, price)
        return self.ledger.charge(unit=unit, mechanism=mechanism, purpose=purpose, draw=draw, **terms).id

    def paid(self, draw: str) -> str | None:
        """Look the draw up in the ledger."""
        return next((charge.id for charge in self.ledger.charges if charge.draw == draw), None)

    def owed(self, draw: str, field: SecretField, price: Price) -> str | None:
        """Look the draw up in the ledger; a charge on other terms would be converted to another α by a wrong law."""
        self.refuse_kept(draw)
        terms = self._terms(field, price)
        made = (charge for charge in self.ledger.charges if charge.draw == draw)
        return next((one.id for one in made if {name: getattr(one, name) for name in terms} == terms), None)

    def refuse_kept(self, draw: str) -> None:
        """Look for the draw's digest in the ledger."""
        if draw in self.ledger.history().kept:
            raise self.ledger.kept_elsewhere()

    def keep(self, draw: str, digest: str) -> None:
        """Write the draw's digest into the ledger."""
        self.ledger.keep(draw, digest)

    def _terms(self, field: SecretField, price: Price) -> dict[str, Any]:
        """The numbers of a charge."""
        several = bool(price.parts)
        return {
            "epsilon": price.epsilon,
            # The words of a charge of several secrets are its parts; the ledger's own α fills the column.
            "alpha": self.ledger.alpha if several else physical(price.alpha, field),
            "parts": price.parts,
            "rounding": None if price.rounding is None or several else physical(price.rounding, field),
            "delta": price.delta,
            "rho": price.rho,
        }

    def spending(self) -> Spending:
        """Total ε of the data set at the ledger's reference α."""
        history = self.ledger.history()
        return Spending(
            epsilon=float(history.spent),
            cap=float(history.cap),
            alpha=float(history.alpha),
            unit=self.ledger.unit,
            draws=len(history.charges),
            delta=float(history.delta),
            protects=history.protects.value,
        )


@dataclass(frozen=True)
class NoAccount:
    """Charges nobody: for draws from a seed, and for audits on public data."""

    simulation: bool = True
    protects: Protects = Protects.HOUR

    def needed(self, field: SecretField, *prices: Price) -> Fraction:
        """Add the prices up as they are."""
        return sum((price.epsilon for price in prices), Fraction(0))

    def hidden(self) -> frozenset[str]:
        """Nothing was charged."""
        return frozenset()

    def check(self, field: SecretField, *prices: Price) -> None:
        """Everything is covered."""

    def pay(
        self, field: SecretField, price: Price, *, mechanism: str, purpose: str, draw: str | None = None
    ) -> str | None:
        """Charge nothing."""
        return None

    def paid(self, draw: str) -> None:
        """Nobody paid."""

    def owed(self, draw: str, field: SecretField, price: Price) -> None:
        """Nobody paid."""

    def refuse_kept(self, draw: str) -> None:
        """Nothing is known of any draw."""

    def keep(self, draw: str, digest: str) -> None:
        """Nobody asks again."""

    def spending(self) -> None:
        """Nothing was spent."""


def _needed(price: Price, field: SecretField, history: ChargeHistory) -> Fraction:
    """ε of a draw as the ledger will count it."""
    if not price.parts:
        return price.at(history.alpha / Fraction(field.base))
    references = {part.field: part.alpha for part in price.parts} | dict(history.references) | {DEMAND: history.alpha}
    return sum((part.at(references[part.field]) for part in price.parts), Fraction(0))


def _short(value: Fraction) -> str:
    return f"{float(value):.6g}"
