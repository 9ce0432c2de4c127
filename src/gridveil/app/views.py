"""Parts of the page: facts, budget, checklist, progress and the published release, as HTML. Every text is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from shiny import ui

from gridveil.app.checks import Checked, Mark, budget_of, sentence
from gridveil.app.data_folder import StoredRelease
from gridveil.app.files import COMMAND, FOLDER_ZIP, PUBLIC_ZIP, SCRIPT, STUDY, command_of, link
from gridveil.app.request import ReleaseRequest
from gridveil.app.simulation_view import facts
from gridveil.app.work import ReleaseJob
from gridveil.core.errors import GridveilError
from gridveil.core.text import number, plural
from gridveil.privacy.ledger import Ledger
from gridveil.service.guards import alpha_facts
from gridveil.service.public_files import CARD_PAGE
from gridveil.service.publish import CURATOR, PUBLIC
from gridveil.service.settings import ReleaseSettings

if TYPE_CHECKING:
    from gridveil.app.open_page import Loaded

REPORT = f"{CURATOR}/report.html"
NOT_COUNTED = {"case", "format", "kind", "secret", "public", "unprotected", "sites_declared", "notes"}
WORDS = {Mark.FINE: "fine", Mark.LOOK: "look at this", Mark.STOP: "in the way"}


def trouble(text: str) -> Any:
    """An error, announced to screen readers."""
    return ui.tags.p(sentence(text), class_="trouble", role="alert") if text else None


def case_facts(loaded: Loaded | None, error: str) -> Any:
    """What is public of a case."""
    if error or loaded is None:
        return trouble(error)
    shown = [(name.replace("_", " "), _plain(value)) for name, value in loaded.facts.items() if name not in NOT_COUNTED]
    return ui.TagList(
        ui.tags.h3(f"{loaded.public.name}: what is public"), facts([("format", loaded.public.file_format), *shown])
    )


def secret_facts(loaded: Loaded | None, error: str) -> Any:
    """What a release hides, what it publishes as it is, and what it leaves unprotected."""
    if loaded is None:
        return trouble(error) or ui.tags.p("Choose a network first.")
    public, field = loaded.public, loaded.public.field
    declared = (
        None
        if public.sites_declared
        else ui.tags.div(
            ui.tags.p(
                "In this file a site without demand does not appear, so the list of sites would itself tell something. Choose "
                "“every place that can have one” above, or no release is made."
            ),
            class_="warning",
            role="alert",
        )
    )
    unprotected: Any = None
    if public.unprotected:
        unprotected = ui.tags.div(
            ui.tags.p("Published exactly, though they draw power or gas:"),
            ui.tags.ul(*map(ui.tags.li, public.unprotected)),
            class_="warning",
        )
    notes = [str(note) for note in _listed(loaded.facts["notes"])]
    return ui.TagList(
        trouble(error),
        declared,
        ui.tags.h3("Secret"),
        ui.tags.p(f"{field.meaning.capitalize()}: {len(field)} {plural(field.participant)}, in {field.unit}."),
        unprotected,
        ui.tags.h3("Public, and published as it is"),
        ui.tags.ul(*(ui.tags.li(str(fact)) for fact in _listed(loaded.facts["public"]))),
        ui.TagList(ui.tags.h3("Notes of the reader"), ui.tags.ul(*map(ui.tags.li, notes))) if notes else None,
    )


def alpha_words(loaded: Loaded, settings: ReleaseSettings) -> Any:
    """α in both units, against public sizes."""
    return ui.tags.p(sentence(alpha_facts(loaded.public, settings).words))


def budget(loaded: Loaded, settings: ReleaseSettings | None, request: ReleaseRequest) -> Any:
    """Cap, spent, this request, left: always in sight."""
    try:
        found = None if settings is None else budget_of(loaded.public, request, settings)
    except GridveilError as error:
        return ui.tags.p(f"Budget: {error}", class_="trouble")
    if found is None:
        return ui.TagList(_without_request(loaded.ledger()))
    left = max(found.left, 0.0)
    shown = [
        ("cap", number(found.cap) + ("" if found.exists else " (new)")),
        ("spent", number(found.spent)),
        ("this request", number(found.request)),
        ("left after it", number(left) if found.left >= 0 else "over budget"),
    ]
    return ui.TagList(
        ui.tags.div(
            ui.tags.span("Budget ε"),
            *(ui.tags.span(f"{name} ", ui.tags.b(value)) for name, value in shown),
            ui.tags.span(f"at α = {number(found.alpha)} {found.unit}", class_="quiet"),
            class_="budget",
        ),
        _meter(found.spent / found.cap, min(found.request, max(found.cap - found.spent, 0.0)) / found.cap),
    )


def _without_request(ledger: Ledger | None) -> Any:
    if ledger is None:
        return ui.tags.p("Budget: this data set has no ledger yet; give it a cap in step 3.", class_="quiet")
    history = ledger.history()
    totals = {"cap": history.cap, "spent": history.spent, "left": history.remaining}
    return ui.tags.p("Budget ε: " + ", ".join(f"{name} {number(float(value))}" for name, value in totals.items()))


def _meter(spent: float, asked: float) -> Any:
    return ui.tags.div(
        ui.tags.span(style=f"width:{100 * min(spent, 1.0):.1f}%"),
        ui.tags.span(style=f"width:{100 * min(asked, 1.0):.1f}%", class_="asked"),
        class_="meter",
        **{"aria-hidden": "true"},
    )


def checklist(checked: Checked | None, error: str, request: ReleaseRequest, *, running: bool) -> Any:
    """The lines of the check, its verdict, and what has to be confirmed."""
    if checked is None:
        return trouble(error)
    if checked.request != request:
        return ui.tags.p("The settings have changed since the check. Check again.", class_="trouble", role="alert")
    lines = [
        ui.tags.li(ui.tags.b(mark.value, **{"aria-label": WORDS[mark], "role": "img"}), text)
        for mark, text in checked.lines
    ]
    verdict = ui.tags.p(
        "Go: nothing stands against this release." if checked.go else "No-go: correct what is marked with ✗.",
        class_=f"verdict {'go' if checked.go else 'no'}",
        role="status",
    )
    parts: list[Any] = [ui.tags.ul(*lines, class_="checks"), verdict]
    if checked.go and not running:
        charge = f"Charge {checked.charge} to the ledger of this data set. It cannot be taken back."
        confirmations = [charge if checked.charge else "Publish another version of an earlier draw."]
        confirmations += [f"I have read this: {question}" for question in checked.questions]
        parts += [
            ui.tags.fieldset(
                ui.tags.legend("Confirm"),
                *(ui.input_checkbox(f"agree_{k}", text, width="100%") for k, text in enumerate(confirmations)),
            ),
            trouble(error),
            ui.tags.p(ui.input_action_button("confirm", "Release now", class_="btn-primary")),
            None
            if request.reuse
            else ui.tags.details(
                ui.tags.summary("The same on the command line"), ui.tags.pre(request.command("released"))
            ),
        ]
    return ui.TagList(*parts)


def progress(job: ReleaseJob | None) -> Any:
    """How far a release is."""
    if job is None:
        return None
    state = "Release complete." if job.done and not job.trouble else "Releasing …"
    parts: list[Any] = [ui.tags.h3(job.stored.name), ui.tags.ul(*map(ui.tags.li, job.stages))]
    if job.trouble:
        return ui.TagList(
            *parts,
            trouble(job.trouble),
            ui.tags.p(
                "What was charged is kept: the release can be finished at no further cost, from the top of this page."
            ),
        )
    return ui.TagList(*parts, ui.tags.p(state, class_="answer"))


def unfinished(waiting: Sequence[StoredRelease]) -> Any:
    """Releases that were stopped, offered to be finished."""
    if not waiting:
        return None
    first = waiting[0]
    how = (
        "Its draw is stored: finishing it costs nothing further."
        if first.drawn
        else "Its draw was not stored yet. What was charged for it counts, and is not charged again."
    )
    more = f" {len(waiting) - 1} more wait after it." if len(waiting) > 1 else ""
    return ui.tags.section(
        ui.tags.h2("A release was stopped before it was complete"),
        ui.tags.p(f"{first.name}. {how}{more}"),
        ui.input_action_button("finish", "Finish this release", class_="btn-primary"),
        class_="note",
    )


def published(stored: StoredRelease | None, *, show_report: bool) -> Any:
    """The card as readers see it, downloads, and the curator's own pages."""
    if stored is None or not stored.finished:
        return ui.tags.p("There is no release yet.")
    names = stored.files()
    card, report = f"{PUBLIC}/{CARD_PAGE}", REPORT
    downloads = {
        PUBLIC_ZIP: "What may be published (zip)",
        COMMAND: "Command line",
        SCRIPT: "Python script",
        STUDY: "Study file",
    }
    return ui.TagList(
        ui.tags.h3("Downloads"),
        ui.tags.ul(
            *(ui.tags.li(ui.tags.a(text, href=link(stored, name), download="")) for name, text in downloads.items()),
            class_="downloads",
        ),
        ui.tags.details(ui.tags.summary("Command line"), ui.tags.pre(command_of(stored))),
        ui.tags.h3("The card, as readers will see it"),
        ui.tags.p(
            ui.tags.a("Open the card on its own", href=link(stored, card), target="_blank"),
            ", to print it or save it as PDF for the board.",
        ),
        ui.tags.iframe(src=link(stored, card), title="The card of this release") if card in names else None,
        ui.tags.h3("For you alone"),
        ui.tags.div(
            ui.tags.p("The report compares the release with the truth: it contains true demands. Do not share it."),
            ui.tags.ul(
                ui.tags.li(
                    ui.tags.a("Report, with the map before and after", href=link(stored, report), target="_blank")
                )
                if report in names
                else None,
                ui.tags.li(
                    ui.tags.a("Whole folder, with true demands (zip)", href=link(stored, FOLDER_ZIP), download="")
                ),
                class_="downloads",
            ),
            ui.input_checkbox("show_report", "Show the report here", value=show_report),
            class_="warning",
        ),
        ui.tags.iframe(src=link(stored, report), title="The curator’s report, with the map before and after")
        if show_report and report in names
        else None,
        ui.tags.p(f"All files: {stored.folder}", class_="quiet"),
    )


def _listed(value: object) -> list[object]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _plain(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_plain(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_plain, value))
    return number(value, 6) if isinstance(value, float) else str(value)
