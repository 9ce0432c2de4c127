"""``release`` of one case: the pre-flight, the release itself, and going on with one that was stopped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from gridveil.cli.output import (
    INTERRUPTED,
    note,
    output_mode,
    print_line,
    seconds_since_start,
    show,
    stage,
    warn,
)
from gridveil.cli.progress import progress
from gridveil.cli.release_words import is_interactive, note_guards, say_interrupted, show_preflight
from gridveil.cli.series_release import LedgerOptions
from gridveil.core.errors import InputError

if TYPE_CHECKING:
    from gridveil.privacy.ledger import Ledger
    from gridveil.sectors.case import Case
    from gridveil.service.guards import Confirm
    from gridveil.service.prepare import Prepared
    from gridveil.service.publication import Publication
    from gridveil.service.release import Release
    from gridveil.service.release_folder import Pages
    from gridveil.service.settings import ReleaseSettings


def check_release(
    case: Case, owner: Case, prepared: Prepared, settings: ReleaseSettings, money: LedgerOptions, as_json: bool
) -> None:
    """Print the pre-flight and end with the exit code of go or no-go; no ledger is made, nothing is charged.

    ``owner`` is the case as its file has it: its data set has the ledger.
    """
    from gridveil.service.budget import registered_ledger
    from gridveil.service.preflight import RUNS, preflight

    book = None if settings.seed is not None else registered_ledger(owner, name=money.dataset, path=money.path)
    with progress(f"simulating releases of {case.name}", RUNS) as advance:
        found = preflight(case, settings, book, cap=money.budget, prepared=prepared, runs=RUNS, advance=advance)
    show_preflight(found, as_json)
    raise typer.Exit(0 if found.go else InputError.exit_code)


def release_one(
    case: Case,
    owner: Case,
    prepared: Prepared,
    settings: ReleaseSettings,
    money: LedgerOptions,
    out: Path,
    *,
    source: str,
    stated: tuple[str | None, str | None],
    reuse: Path | None,
    simulation: bool,
    as_json: bool,
    confirm: Confirm,
    publication: Publication,
) -> None:
    """Release a case into a folder; one that was stopped there is gone on with.

    ``owner`` is the case as its file has it: its data set has the ledger. ``stated`` are ε and α as the user gave them.
    """
    from gridveil.privacy.curator import Curator
    from gridveil.service.account import LedgerAccount, NoAccount
    from gridveil.service.begun import BegunRelease, was_begun
    from gridveil.service.budget import ledger_to_charge
    from gridveil.service.preflight import preflight
    from gridveil.service.publish import destination
    from gridveil.service.release import refuse_unconfirmed
    from gridveil.service.release_folder import Listener, release_to_folder
    from gridveil.service.reuse import kept_promise, load_draw

    begun = was_begun(out)
    if begun and reuse is not None:
        raise InputError(
            f"{out}: holds a draw of its own, which is gone on with; leave out --reuse, or choose another --out"
        )
    with destination(out, go_on=True):
        curator, draw, book = Curator(case), None, None
        if settings.seed is None:
            cap = None if begun else money.budget
            book = ledger_to_charge(owner, settings, confirm, name=money.dataset, path=money.path, cap=cap)
        if reuse is not None:
            draw = load_draw(reuse, curator, book)
            epsilon, alpha = kept_promise(draw, case.field, book, *stated)
            settings = replace(settings, epsilon=epsilon, alpha=alpha)
        account = NoAccount() if book is None else LedgerAccount(book)
        record = BegunRelease(out, curator, settings, book)
        if draw is None:
            if begun:
                note(f"going on with the release that was begun in {out}: what is charged is not charged again")
            # What it says depends on public facts alone, unless a person, the curator, sits at the terminal.
            seen = case if is_interactive() else prepared.public
            note_guards(preflight(seen, settings, book, prepared=prepared, runs=0))
            refuse_unconfirmed(curator, prepared, settings, account, confirm, record)
        before = account.spending()
        try:
            with progress(f"releasing {case.name}"):
                made, report = release_to_folder(
                    case,
                    settings,
                    account,
                    record,
                    _pages(case, out, source, book),
                    Listener(stage=stage, warn=warn, published=_say_published),
                    reuse=draw,
                    prepared=prepared,
                    simulation_as_public=simulation,
                    publication=publication,
                )
        except KeyboardInterrupt:
            say_interrupted(out, before, account.spending())
            raise typer.Exit(INTERRUPTED) from None
    if report is not None:
        note(f"certificate and report: {report} ({seconds_since_start():.1f} s)")
    _show_result(made, case, out, source, as_json)


def _show_result(made: Release, case: Case, out: Path, source: str, as_json: bool) -> None:
    from gridveil.service.outcome import what_happened
    from gridveil.service.publish import PUBLIC, SIMULATION, list_files
    from gridveil.service.summary import summary

    files = list_files(out)
    if as_json or output_mode().verbose:
        show(summary(made, with_fidelity=True) | {"files": files}, as_json, source)
    if as_json:
        return
    public = out / (PUBLIC if (out / PUBLIC).is_dir() else SIMULATION)
    for line in [*what_happened(made, case, out, public), f"Files: {', '.join(files)}"]:
        print_line(line)


def _say_published(folder: Path) -> None:
    note(f"published: {folder} ({seconds_since_start():.1f} s); certificate and report follow")


def _pages(case: Case, out: Path, source: str, ledger: Ledger | None) -> Pages:
    """Makers of the two pages; what they need is imported when they are called."""
    from gridveil.service.release_folder import Pages

    def card(facts: Mapping[str, object]) -> str:
        from gridveil.report.card_page import card_page

        return card_page(facts)

    def report(made: Release) -> Path:
        from gridveil.report.curator_page import write_curator_page
        from gridveil.sectors.registry import read_places
        from gridveil.service.publish import CURATOR

        return write_curator_page(made, out / CURATOR, ledger=ledger, places=read_places(source))

    def ahead() -> None:
        from gridveil.report.network_map import lay_out_ahead
        from gridveil.sectors.registry import sector_of

        lay_out_ahead(sector_of(case.network).graph(case.network))

    # The report compares operating points of one network; of a case with further secrets the tables tell more.
    return Pages(card=card) if case.field.parts else Pages(card=card, report=report, ahead=ahead)
