"""Guards before a draw: what a person must know, and confirm, before ε is spent. They see public facts and the ledger only.

Whether a release goes on may not depend on the true values, so nothing here looks at them. A guard is a ``Question``: the
command line asks it on a terminal, ``--yes`` (in Python ``confirm=True``) answers all of them, and otherwise the release is
refused with nothing drawn and nothing charged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gridveil.core.errors import InputError
from gridveil.core.quantity import physical
from gridveil.core.secret import SecretField
from gridveil.core.secret_choice import DEMAND, SECRETS, demand_alpha
from gridveil.core.text import number, percent, plural
from gridveil.sectors.case import Network
from gridveil.sectors.registry import sector_of
from gridveil.service.account import Account, Price, Spending
from gridveil.service.alpha import alpha_of
from gridveil.service.prepare import Prepared, PublicCase
from gridveil.service.settings import ReleaseSettings

LARGE_ALPHA, FURTHER_DRAW, NOT_HIDDEN = "large alpha", "further draw", "no longer hidden"


@dataclass(frozen=True, kw_only=True)
class Question:
    """Something to be confirmed before ε is spent: what it is, and what could be done instead."""

    code: str
    text: str
    instead: str


Confirm = Callable[[Question], bool]


def confirm_nothing(question: Question) -> bool:
    """Nobody is there to be asked."""
    return False


def confirm_all(question: Question) -> bool:
    """The user has confirmed everything beforehand."""
    return True


@dataclass(frozen=True, kw_only=True)
class AlphaFacts:
    """α in physical units, against what public facts suggest of the size of a value (None where they tell nothing)."""

    alpha: float
    unit: str
    per_unit: float
    base: float
    usual_size: float | None
    usual_total: float | None
    of_parts: str = ""
    """Of several secrets, α of each in words."""

    @property
    def share_of_size(self) -> float | None:
        """α over the usual size of a value."""
        return self.alpha / self.usual_size if self.usual_size else None

    @property
    def words(self) -> str:
        """α in both units, and against the usual size."""
        if self.of_parts:
            return f"α = {self.of_parts}"
        text = f"α = {number(self.alpha)} {self.unit} ({number(self.per_unit)} per unit of {number(self.base)} {self.unit})"
        if self.share_of_size is None or self.usual_size is None:
            return text
        return (
            f"{text}, {percent(self.share_of_size)} of a usual demand of {number(self.usual_size, 2)} {self.unit} as public data "
            "suggest it"
        )


def alpha_facts(public: PublicCase, settings: ReleaseSettings) -> AlphaFacts:
    """State α in physical units; a bare number is an InputError."""
    field = public.field
    per_unit = alpha_of(settings, field)
    sizes = usual_sizes(public.network)
    return AlphaFacts(
        alpha=float(physical(per_unit, field)),
        unit=field.unit,
        per_unit=float(per_unit),
        base=field.base,
        usual_size=None if sizes is None else float(np.median(sizes)) * field.base,
        usual_total=None if sizes is None else float(np.sum(sizes)) * field.base,
        of_parts=", ".join(
            f"{number(float(part.alpha) * part.field.base)} {part.field.unit} ({part.field.name})"
            for part in field.parts
        ),
    )


def usual_sizes(network: Network) -> np.ndarray | None:
    """What public facts suggest of the sizes of values, per unit; None where they tell nothing."""
    sizes = sector_of(network).usual_sizes(network)
    return sizes if sizes is not None and len(sizes) and np.median(sizes) > 0 else None


def refuse_wrong_units(prepared: Prepared, settings: ReleaseSettings) -> None:
    """Refuse α without a unit, and β as an amount in another unit than that of the cost."""
    alpha_of(settings, prepared.public.field)
    settings.beta.check_unit(prepared.model.program.cost_unit)


def questions(
    public: PublicCase, settings: ReleaseSettings, needed: float, spending: Spending, hidden: frozenset[str]
) -> tuple[Question, ...]:
    """What must be confirmed before ``needed`` ε, as the ledger counts it, is charged, the most important first.

    ``hidden`` names the secrets that earlier draws were charged for.
    """
    found = [*_no_longer_hidden(settings, hidden), *_questions_of_alpha(public, settings)]
    if spending.draws > 0:
        found.append(_further_draw(spending, needed))
    return tuple(found)


def ask(
    public: PublicCase, settings: ReleaseSettings, prices: tuple[Price, ...], account: Account, confirm: Confirm
) -> None:
    """Have every question confirmed; the first that is not ends the release, with nothing drawn or charged."""
    spending = account.spending()
    if spending is None:
        return
    needed = float(account.needed(public.field, *prices))
    for question in questions(public, settings, needed, spending, account.hidden()):
        _insist(question, confirm)


def confirm_alpha(public: PublicCase, settings: ReleaseSettings, confirm: Confirm) -> None:
    """Have a large α confirmed, before a ledger is made with it."""
    for question in _questions_of_alpha(public, settings):
        _insist(question, confirm)


def _insist(question: Question, confirm: Confirm) -> None:
    if not confirm(question):
        raise InputError(
            f"nothing was drawn or charged: {question.text}; {question.instead}, or confirm with --yes (in Python confirm=True)"
        )


def _questions_of_alpha(public: PublicCase, settings: ReleaseSettings) -> list[Question]:
    if settings.secrets and demand_alpha(settings.secrets) is None:
        return []
    facts = alpha_facts(public, settings)
    large = facts.share_of_size is not None and facts.share_of_size > 1
    return [_large_alpha(facts, public.field)] if large else []


def _no_longer_hidden(settings: ReleaseSettings, hidden: frozenset[str]) -> list[Question]:
    """What earlier releases hid and this one publishes as it is."""
    now = {choice.name for choice in settings.secrets} or {DEMAND}
    names = [name for name in SECRETS if name in hidden - now]
    if not names:
        return []
    return [
        Question(
            code=NOT_HIDDEN,
            text=(
                f"earlier draws were charged to hide each {', '.join(names)}, and this release publishes them as they are, which "
                "undoes that"
            ),
            instead="name them in --secret too",
        )
    ]


def _large_alpha(facts: AlphaFacts, field: SecretField) -> Question:
    fields = plural(field.name)
    return Question(
        code=LARGE_ALPHA,
        text=f"{facts.words}: noise of that size drowns most {fields}",
        instead=f"choose a smaller alpha, such as {number((facts.usual_size or 1) / 3, 1)}{facts.unit}",
    )


def _further_draw(spending: Spending, needed: float) -> Question:
    total = spending.epsilon + needed
    return Question(
        code=FURTHER_DRAW,
        text=(
            f"these data were drawn from before: ε = {spending.epsilon:.6g} is spent, this draw takes {needed:.6g} more, together "
            f"{total:.6g} of {spending.cap:.6g} at α = {number(spending.alpha)} {spending.unit}"
        ),
        instead=(
            "use the earlier draw again at no cost with --reuse FOLDER, in Python reuse= (another beta, method or solver "
            "needs no new draw)"
        ),
    )
