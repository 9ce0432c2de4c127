"""The pre-flight of a release: everything a curator should look at before ε is spent. Nothing is drawn, nothing is charged.

It is for the curator's eyes: ``equal_numbers`` names true values. ``go`` and its reasons rest on public facts, the ledger and
simulated demands alone, so that whether a release goes on tells nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gridveil.core.choices import CostTargetMode, DemandBounds
from gridveil.core.text import number, odds_above, percent, plural
from gridveil.privacy.ledger import Exact, Ledger
from gridveil.privacy.limits import EqualNumber, equal_numbers
from gridveil.privacy.mechanisms.exact_sampling import positive_fraction
from gridveil.privacy.noisy import MechanismFacts
from gridveil.privacy.secret_leaks import secret_leaks
from gridveil.sectors.case import Case
from gridveil.service.account import LedgerAccount, NoAccount, Spending
from gridveil.service.card import public_facts
from gridveil.service.draw import mechanism_of, prices, shares_of
from gridveil.service.guards import (
    AlphaFacts,
    Question,
    alpha_facts,
    questions,
    refuse_wrong_units,
    usual_sizes,
)
from gridveil.service.prepare import Prepared, PublicCase, prepare
from gridveil.service.settings import ReleaseSettings
from gridveil.service.simulated import ReleaseOdds, odds, simulated_releases

RUNS, SECONDS = 20, 5.0
OFTEN = 0.05  # share of failed simulations that is worth a warning
TINY = 0.01  # of a usual demand: a smaller α hides next to nothing
LARGE_EPSILON = 5.0
HEAVY = 0.1  # of the total: noise that changes the load level of the network
ANGLES = 64


@dataclass(frozen=True, kw_only=True)
class SecretFacts:
    """What is hidden, and of how many."""

    field: str
    meaning: str
    participant: str
    sites: int
    unit: str
    base: float
    sites_declared: bool


@dataclass(frozen=True, kw_only=True)
class BudgetFacts:
    """The budget of the data set, in ε at the ledger's reference α (``unit``); ``exists`` is False for a ledger to be made."""

    exists: bool
    cap: float
    spent: float
    request: float
    left: float
    """After this release; negative if it is over budget."""
    alpha: float
    unit: str
    draws: int


@dataclass(frozen=True, kw_only=True)
class NoiseFacts:
    """The noise to be expected: on one value and on their total, root mean square in ``unit``.

    ``share_of_total`` is against the total that public facts suggest, and ``negative`` how many noisy active values come out
    below zero, if the true ones are as large as public facts suggest; both None where these tell nothing.
    """

    per_site: float
    total: float
    unit: str
    share_of_total: float | None
    negative: float | None
    mechanism: MechanismFacts


@dataclass(frozen=True, kw_only=True)
class Notice:
    """One warning: a word for programs, and a line for people."""

    code: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Preflight:
    """What is known before a release; see the fields. ``warnings`` come in order of importance."""

    case: str
    secret: SecretFacts
    public: tuple[str, ...]
    alpha: AlphaFacts
    epsilon: float
    cost_share: float
    totals_share: float
    """Shares of ε that go to the cost target, and to totals that are kept."""
    budget: BudgetFacts | None
    noise: NoiseFacts
    odds: ReleaseOdds | None
    """From simulated demands; None where none could be made, or it was not asked for."""
    equal_numbers: tuple[EqualNumber, ...] | None
    """Public numbers that equal a true value: for the curator only. None where it was not looked for."""
    questions: tuple[Question, ...]
    """What has to be confirmed before the release."""
    warnings: tuple[Notice, ...]
    reasons: tuple[Notice, ...]
    """Why there can be no release with these settings."""

    @property
    def go(self) -> bool:
        """Whether nothing stands against the release; questions may still have to be confirmed."""
        return not self.reasons


def preflight(
    case: Case | PublicCase,
    settings: ReleaseSettings,
    ledger: Ledger | None,
    *,
    cap: Exact | None = None,
    prepared: Prepared | None = None,
    runs: int = RUNS,
    seconds: float = SECONDS,
    advance: Callable[[], None] = lambda: None,
) -> Preflight:
    """Look at everything before a release, without drawing or charging.

    A ``PublicCase`` is enough for all but the numbers that equal a true value. Without a ``ledger``, ``cap`` is that of the one
    to be made; a simulation (with a seed) needs neither. ``runs`` simulated releases are made as far as ``seconds`` allow; zero
    makes none. Settings without units are an InputError.
    """
    public = case if isinstance(case, PublicCase) else PublicCase.of(case)
    prepared = prepared or prepare(public, solver=settings.solver.value, bounds=settings.demand_bounds)
    refuse_wrong_units(prepared, settings)
    shares = shares_of(prepared, settings)
    alpha = alpha_facts(public, settings)
    spending = _spending(ledger, cap, alpha, settings)
    # A ledger that is still to be made takes α of this release as its own.
    account = NoAccount() if ledger is None else LedgerAccount(ledger)
    needed = float(account.needed(public.field, *prices(public.field, settings, shares)))
    budget = None if spending is None else _budget(spending, needed, exists=ledger is not None)
    found = []
    for one in simulated_releases(prepared, settings, runs=runs, seconds=seconds):
        found.append(one)
        advance()
    noise, chances = _noise(public, mechanism_of(public.field, settings, shares).facts(), alpha), odds(found)
    equal, leaks = _found_in(case)
    asked = () if spending is None else questions(public, settings, needed, spending, account.hidden())
    return Preflight(
        case=public.name,
        secret=SecretFacts(
            field=public.field.name,
            meaning=public.field.meaning,
            participant=public.field.participant,
            sites=len(public.field),
            unit=public.field.unit,
            base=public.field.base,
            sites_declared=public.sites_declared,
        ),
        public=tuple(public_facts(public)),
        alpha=alpha,
        epsilon=float(settings.exact_epsilon),
        cost_share=float(shares.cost),
        totals_share=float(shares.totals),
        budget=budget,
        noise=noise,
        odds=chances,
        equal_numbers=equal,
        questions=asked,
        warnings=(*leaks, *_warnings(public, settings, alpha, noise, chances, equal, asked)),
        reasons=tuple(_reasons(public, settings, budget, chances)),
    )


def _found_in(case: Case | PublicCase) -> tuple[tuple[EqualNumber, ...] | None, list[Notice]]:
    """What a file gives away: numbers that equal a demand, and of several secrets whatever one can be concluded from."""
    if isinstance(case, PublicCase):
        return None, []
    if case.field.parts:
        return None, [Notice(code="leak", text=words) for words in secret_leaks(case)]
    return equal_numbers(case), []


def _spending(
    ledger: Ledger | None, cap: Exact | None, alpha: AlphaFacts, settings: ReleaseSettings
) -> Spending | None:
    if settings.seed is not None:
        return None
    if ledger is not None:
        return LedgerAccount(ledger).spending()
    if cap is None:
        return None
    return Spending(
        epsilon=0.0, cap=float(positive_fraction(str(cap), "the budget")), alpha=alpha.alpha, unit=alpha.unit, draws=0
    )


def _budget(spending: Spending, needed: float, *, exists: bool) -> BudgetFacts:
    return BudgetFacts(
        exists=exists,
        cap=spending.cap,
        spent=spending.epsilon,
        request=needed,
        left=spending.cap - spending.epsilon - needed,
        alpha=spending.alpha,
        unit=spending.unit,
        draws=spending.draws,
    )


def _noise(public: PublicCase, mechanism: MechanismFacts, alpha: AlphaFacts) -> NoiseFacts:
    field = public.field
    per_site = math.sqrt(mechanism.expected_square) * field.base
    total = per_site * math.sqrt(len(field) / field.dimension)
    sizes = usual_sizes(public.network)
    return NoiseFacts(
        per_site=per_site,
        total=total,
        unit=field.unit,
        share_of_total=total / alpha.usual_total if alpha.usual_total else None,
        negative=None if sizes is None else expected_negative(sizes, mechanism, field.dimension),
        mechanism=mechanism,
    )


def expected_negative(sizes: NDArray[np.float64], mechanism: MechanismFacts, dimension: int) -> float:
    """How many of these active values come out below zero under Laplace noise, planar or scalar, of this mean square.

    The planar law has P(|z| > r) = (1 + r/b)·e^(−r/b); its real part is below −s with the mean of that at r = s/cos θ over the
    angles of a half plane, halved.
    """
    if dimension == 1:
        scale = math.sqrt(mechanism.expected_square / 2)
        return float(np.sum(np.exp(-sizes / scale)) / 2)
    scale = math.sqrt(mechanism.expected_square / 6)
    angle = (np.arange(ANGLES) + 0.5) * (np.pi / 2 / ANGLES)
    reach = sizes[:, None] / np.cos(angle) / scale
    return float(np.sum(np.mean((1 + reach) * np.exp(-reach), axis=1)) / 2)


def _reasons(
    public: PublicCase, settings: ReleaseSettings, budget: BudgetFacts | None, chances: ReleaseOdds | None
) -> list[Notice]:
    found = []
    if not public.sites_declared and settings.seed is None:
        found.append(
            Notice(
                code="sites",
                text="the list of customers was read off their demands; declare it with --sites all or --sites FILE",
            )
        )
    if budget is None and settings.seed is None:
        found.append(Notice(code="ledger", text="this data set has no ledger yet; give it a cap with --budget"))
    if budget is not None and budget.left < -1e-12 * budget.cap:
        found.append(
            Notice(
                code="budget",
                text=f"over budget: this release needs ε = {budget.request:.6g}, and {budget.cap - budget.spent:.6g} is left",
            )
        )
    if chances is not None and chances.verified == 0:
        found.append(
            Notice(
                code="failure",
                text=f"none of {chances.runs} simulated releases succeeded ({next(iter(chances.failures))})",
            )
        )
    return found


def _warnings(
    public: PublicCase,
    settings: ReleaseSettings,
    alpha: AlphaFacts,
    noise: NoiseFacts,
    chances: ReleaseOdds | None,
    equal: tuple[EqualNumber, ...] | None,
    asked: tuple[Question, ...],
) -> list[Notice]:
    field, found = public.field, []
    real = [one for one in equal or () if not one.coincidence]
    if real:
        numbers = "1 public number equals" if len(real) == 1 else f"{len(real)} public numbers equal"
        found.append(
            Notice(
                code="equal numbers",
                text=f"{numbers} a true {field.name}, which every reader of the files then knows; change or remove them first",
            )
        )
    if settings.target.mode is CostTargetMode.PUBLIC:
        found.append(
            Notice(
                code="public cost",
                text=f"the true optimal cost is published: who knows all other {plural(field.name)} can work out the last one",
            )
        )
    found += [Notice(code=question.code, text=f"{question.text}; {question.instead}") for question in asked]
    if chances is not None and chances.failed > OFTEN:
        found.append(
            Notice(
                code="failure",
                text=(
                    f"{chances.runs - chances.verified} of {chances.runs} simulated releases failed, and a failed release costs "
                    "its ε; a larger beta or a smaller alpha fails less often"
                ),
            )
        )
    if alpha.share_of_size is not None and alpha.share_of_size < TINY:
        found.append(
            Notice(code="small alpha", text=f"{alpha.words}: larger changes of a {field.name} are hidden less well")
        )
    if float(settings.exact_epsilon) > LARGE_EPSILON:
        words = odds_above(float(settings.exact_epsilon))
        found.append(
            Notice(code="large epsilon", text=f"ε = {settings.epsilon} allows odds of {words} to 1: little is hidden")
        )
    if noise.negative is not None and noise.negative >= 0.5 and settings.demand_bounds is DemandBounds.NONE:
        found.append(
            Notice(
                code="negative",
                text=(
                    f"about {round(noise.negative)} of {len(field)} released {plural(field.name)} will be negative, as nothing "
                    "public tells that all of them are loads; if they are, --demand-bounds nonnegative keeps them at zero or more"
                ),
            )
        )
    if noise.share_of_total is not None and noise.share_of_total > HEAVY:
        found.append(
            Notice(
                code="noise",
                text=(
                    f"the noise on the total is {number(noise.total)} {noise.unit}, {percent(noise.share_of_total)} of a usual "
                    "total"
                ),
            )
        )
    return found
