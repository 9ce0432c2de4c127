"""The checklist before a release: the pre-flight in the words of the page. It ends in go or no-go."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum

from gridveil.app.data_folder import DataFolder, StoredRelease
from gridveil.app.request import ReleaseRequest
from gridveil.app.work import SOLVING, Simulation
from gridveil.core.choices import CostTargetMode
from gridveil.core.errors import InputError
from gridveil.core.text import number, percent, plural
from gridveil.privacy.curator import Curator
from gridveil.privacy.ledger import Ledger
from gridveil.sectors.case import Case
from gridveil.service.budget import registered_ledger
from gridveil.service.guards import FURTHER_DRAW, Question, usual_sizes
from gridveil.service.preflight import BudgetFacts, Preflight, preflight
from gridveil.service.prepare import PublicCase
from gridveil.service.reuse import kept_promise, load_draw
from gridveil.service.settings import ReleaseSettings

OFTEN = 0.05
PAID = {"budget", "ledger"}  # reasons that do not count where nothing is charged


class Mark(Enum):
    """What a line of the checklist says: fine, to be looked at, or in the way."""

    FINE = "✓"
    LOOK = "!"
    STOP = "✗"


@dataclass(frozen=True, kw_only=True)
class Checked:
    """A checked request: lines with marks, and what has to be confirmed. It names places, but no true value."""

    request: ReleaseRequest
    name: str
    lines: tuple[tuple[Mark, str], ...]
    questions: tuple[str, ...]
    charge: str
    """ε that will be charged, and the α that it is for; empty where nothing is."""
    go: bool

    @property
    def confirmations(self) -> int:
        """How many boxes have to be ticked: one for the release, and one for each question."""
        return 1 + len(self.questions)


def check(request: ReleaseRequest, simulation: Simulation | None, data: DataFolder) -> Checked:
    """Look at everything before a release. Reads the case with its true values; none of them is kept."""
    with SOLVING:
        case = request.load()
        settings = request.settings(case.field)
        ledger = registered_ledger(case, name=request.dataset or None)
        if request.reuse:
            settings = _paid_before(case, settings, ledger, data.release(request.reuse))
        cap = None if ledger is not None else request.cap()
        found = preflight(case, settings, ledger, cap=cap, runs=0)
    current = simulation is not None and simulation.settings == settings
    free = [
        (Mark.FINE, "The noise of an earlier release is used again: nothing is charged, and ε and α are those of then.")
    ]
    budget = free if request.reuse else _budget(found)
    reasons = [one for one in found.reasons if not (request.reuse and one.code in PAID)]
    return Checked(
        request=request,
        name=found.case,
        lines=(
            *_promise(found, settings),
            *budget,
            *_warnings(found, settings),
            *((Mark.STOP, sentence(_for_page(one.code, one.text))) for one in reasons),
            *_public_numbers(found),
            *_simulated(simulation if current else None),
        ),
        questions=() if request.reuse else tuple(map(_question, found.questions)),
        charge="" if request.reuse else f"ε = {settings.epsilon} at α = {number(found.alpha.alpha)} {found.alpha.unit}",
        go=not reasons,
    )


def _paid_before(
    case: Case, settings: ReleaseSettings, ledger: Ledger | None, earlier: StoredRelease | None
) -> ReleaseSettings:
    if earlier is None:
        raise InputError("the release whose noise shall be used again is gone; choose a new draw")
    draw = load_draw(earlier.folder, Curator(case), ledger)
    epsilon, alpha = kept_promise(draw, case.field, ledger, None, None)
    return replace(settings, epsilon=epsilon, alpha=alpha)


def budget_of(public: PublicCase, request: ReleaseRequest, settings: ReleaseSettings) -> BudgetFacts | None:
    """The budget with this request; None where the data set has no ledger and no cap was given."""
    ledger = registered_ledger(public, name=request.dataset or None)
    return preflight(public, settings, ledger, cap=None if ledger is not None else request.cap(), runs=0).budget


def usual_alpha(public: PublicCase) -> float:
    """An α to begin with, in the field's unit: a round third of what public facts suggest for a value, or a tenth of the base."""
    sizes = usual_sizes(public.network)
    usual = public.field.base / 10 if sizes is None else float(sorted(sizes)[len(sizes) // 2]) * public.field.base / 3
    power = 10.0 ** math.floor(math.log10(usual))
    return float(f"{max(step * power for step in (1, 2, 5) if step * power <= usual):g}")


def _promise(found: Preflight, settings: ReleaseSettings) -> list[tuple[Mark, str]]:
    secret, noise = found.secret, found.noise
    return [
        (Mark.FINE, f"Secret: {secret.meaning}, of {secret.sites} {plural(secret.participant)}."),
        (Mark.FINE, f"{found.alpha.words}; ε = {number(float(settings.exact_epsilon))}."),
        (
            Mark.FINE,
            f"Noise: {number(noise.per_site, 3)} {noise.unit} on one {secret.field} (root mean square), "
            f"{number(noise.total, 3)} {noise.unit} on the total.",
        ),
    ]


def _budget(found: Preflight) -> list[tuple[Mark, str]]:
    budget = found.budget
    if budget is None:
        return []
    left = f"{number(max(budget.left, 0.0))} of {number(budget.cap)} is then left"
    words = f"Budget: this release takes ε = {number(budget.request)}, {left}."
    return [(Mark.FINE if budget.left >= 0 else Mark.STOP, words)]


def _warnings(found: Preflight, settings: ReleaseSettings) -> list[tuple[Mark, str]]:
    """Warnings that no other line and no question states."""
    elsewhere = {"equal numbers", "failure", *(question.code for question in found.questions)}
    lines = [
        (Mark.LOOK, sentence(_for_page(one.code, one.text))) for one in found.warnings if one.code not in elsewhere
    ]
    if settings.target.mode is CostTargetMode.FORECAST:
        lines.append((Mark.LOOK, f"The forecast must not come from these {plural(found.secret.field)}."))
    return lines


def _question(question: Question) -> str:
    instead = (
        "choose the noise of an earlier release above instead, at no cost" if question.code == FURTHER_DRAW else ""
    )
    return f"{question.text}; {instead or question.instead}"


def _for_page(code: str, text: str) -> str:
    """A notice with the field of the page instead of the option of the command line."""
    return {
        "sites": "the list of customers was read off their demands; declare it in step 2 (every place that can have one)",
        "ledger": "this data set has no ledger yet; give it a cap on total ε in step 3",
        "negative": f"{text.partition('--demand-bounds')[0]}“zero or more” under the bounds of step 3 keeps them there",
    }.get(code, text)


def _public_numbers(found: Preflight) -> list[tuple[Mark, str]]:
    """Where public numbers equal a true value: the place, never the number."""
    equal = found.equal_numbers or ()
    real = [one for one in equal if not one.coincidence]
    if not real:
        others = f" ({len(equal)} round ones do by chance)" if equal else ""
        return [(Mark.FINE, f"No public number of the case gives a {found.secret.field} away{others}.")]
    places = "; ".join(f"{one.column}, row {one.row}: equals {one.meaning}" for one in real[:5])
    more = f"; and {len(real) - 5} more" if len(real) > 5 else ""
    return [(Mark.LOOK, f"Public numbers that equal a true value, which every reader will then know: {places}{more}.")]


def _simulated(simulation: Simulation | None) -> list[tuple[Mark, str]]:
    runs = [] if simulation is None else list(simulation.runs)
    if not runs:
        return [(Mark.LOOK, "Nothing was simulated with these settings; step 4 shows what to expect.")]
    failed = sum(not run.verified for run in runs)
    words = f"{failed} of {len(runs)} simulated releases failed ({percent(failed / len(runs))})"
    if failed == len(runs):
        return [(Mark.LOOK, f"{words}: this one will most likely fail too, and its ε is spent.")]
    return [(Mark.LOOK if failed > OFTEN * len(runs) else Mark.FINE, f"{words}.")]


def sentence(text: str) -> str:
    """A message as a sentence; symbols such as α stay as they are."""
    first = text[:1].upper() if text[:1].isascii() else text[:1]
    return f"{first}{text[1:]}" + ("" if text.endswith(".") else ".")
