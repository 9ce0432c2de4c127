"""A release with all of its files: what the command line and the app do alike, once settings and ledger are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from gridveil.privacy.noisy import Draw
from gridveil.sectors.case import Case
from gridveil.service.account import Account
from gridveil.service.begun import BegunRelease
from gridveil.service.guards import confirm_all
from gridveil.service.prepare import Prepared
from gridveil.service.publication import UNSTATED, Publication
from gridveil.service.publish import keep_draw, publish
from gridveil.service.release import Release, make_release
from gridveil.service.reuse import bind_draw
from gridveil.service.settings import ReleaseSettings

Made = TypeVar("Made")


@dataclass(frozen=True, kw_only=True)
class Pages:
    """Makers of pages, which stand in another room: a release does not fail because of a page."""

    card: Callable[[Mapping[str, object]], str]
    """The public page of a card."""
    report: Callable[[Release], Path] | None = None
    """Writes the curator's report; None where there is none."""
    ahead: Callable[[], None] = lambda: None
    """Does what of the report takes a while and needs public data alone."""


@dataclass(frozen=True, kw_only=True)
class Listener:
    """Who is told how far a release is, in words that hold nothing of the truth."""

    stage: Callable[[str], None]
    warn: Callable[[str], None]
    published: Callable[[Path], None] = lambda folder: None


def release_to_folder(
    case: Case,
    settings: ReleaseSettings,
    account: Account,
    record: BegunRelease,
    pages: Pages,
    listener: Listener,
    *,
    reuse: Draw | None = None,
    prepared: Prepared | None = None,
    simulation_as_public: bool = False,
    publication: Publication = UNSTATED,
) -> tuple[Release, Path | None]:
    """Draw, repair, publish and report, in the folder of ``record``; return the release, and the report if there is one.

    The caller has had everything confirmed, and holds the folder.
    """

    def keep(drawn: Draw) -> None:
        keep_draw(drawn, record.curator, record.folder)
        bind_draw(drawn, record.ledger)
        record.kept()
        if reuse is None:
            listener.stage("noise on the demands drawn" if drawn.total is None else "noise on the cost target drawn")

    listener.stage("drawing noise" if reuse is None else "repairing the earlier noise again")
    made = make_release(
        case, settings, account, reuse=reuse, keep=keep, prepared=prepared, confirm=confirm_all, record=record
    )

    def published(folder: Path) -> None:
        listener.published(folder)
        with suppress(Exception):  # what fails here fails again, and is told, where it is needed
            pages.ahead()

    listener.stage("repaired; writing the network and checking it")
    made = publish(
        made,
        case,
        record.folder,
        simulation_as_public=simulation_as_public,
        card_page=lambda card: _or_warn(lambda: pages.card(card), "card.html", listener),
        published=published,
        publication=publication,
    )
    report = pages.report
    if report is None:
        return made, None
    return made, _or_warn(lambda: report(made), "the curator's report", listener)


def _or_warn(make: Callable[[], Made], what: str, listener: Listener) -> Made | None:
    try:
        return make()
    except Exception as error:
        # Only the type of the error: its message may contain a true value.
        listener.warn(
            f"{what} could not be created ({type(error).__name__}); the release itself is complete and verified"
        )
        return None
