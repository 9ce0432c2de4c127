"""``release --series``: publish a table of hourly demands and its network."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from gridveil.cli.options import SeriesOptions
from gridveil.cli.output import INTERRUPTED, announce_compilation, note, show, step, warn
from gridveil.cli.progress import progress
from gridveil.core.choices import BatchEngine, CostTargetMode
from gridveil.core.errors import GridveilError, InputError

if TYPE_CHECKING:
    from gridveil.sectors.case import Case
    from gridveil.service.guards import Confirm
    from gridveil.service.publication import Publication
    from gridveil.service.settings import ReleaseSettings


@dataclass(frozen=True, kw_only=True)
class LedgerOptions:
    """How the ledger of a release is found, or made with a cap."""

    dataset: str | None
    path: Path | None
    budget: str | None


def usual_target(series: SeriesOptions) -> CostTargetMode:
    """The cost target where none is named; options of a series without one are refused."""
    if series.file is not None:
        return CostTargetMode.DERIVED
    if series != SeriesOptions():
        raise InputError(
            "--protects, --basis, --noise, --delta, --power-factor, --workers and --batch belong to --series"
        )
    return CostTargetMode.PRIVATE


def release_table(
    case: Case,
    settings: ReleaseSettings,
    options: SeriesOptions,
    ledger: LedgerOptions,
    out: Path,
    *,
    reuse: Path | None,
    simulation: bool,
    as_json: bool,
    confirm: Confirm,
    publication: Publication,
) -> None:
    """Release every hour of a table; a command that was stopped goes on with the draws in its folder."""
    from gridveil.core.threads import all_cores
    from gridveil.privacy.series_curator import SeriesCurator
    from gridveil.sectors.series_table import named_series
    from gridveil.service.account import LedgerAccount, NoAccount
    from gridveil.service.begun import was_begun
    from gridveil.service.budget import ledger_to_charge
    from gridveil.service.guards import alpha_facts, confirm_all
    from gridveil.service.prepare import PublicCase, prepare
    from gridveil.service.publish import CURATOR, destination, list_files
    from gridveil.service.series import release_series, repairs_needed
    from gridveil.service.series_basis import plan_series
    from gridveil.service.series_publish import publish_series, series_summary
    from gridveil.service.series_settings import SeriesSettings
    from gridveil.service.series_store import STATE, SeriesStore
    from gridveil.solvers.batch.backends import engine_beside

    if options.file is None or options.protects is None:
        raise InputError(
            "say what the promise hides: --protects hour, or --protects profile for every hour of a customer at once"
        )
    chosen = SeriesSettings(
        release=settings,
        protects=options.protects,
        mechanism=options.noise,
        basis=options.basis,
        delta=options.delta,
    )
    if options.workers is not None and options.workers < 1:
        raise InputError("--workers must be at least 1")
    batch = options.batch or BatchEngine.STRUCTURED
    engine_beside(batch, settings.solver)  # what it lacks is said before a ledger is made, or charged
    step(f"reading {options.file}")
    series = named_series(options.file, case, options.power_factor)
    curator = SeriesCurator(case, series.hours)
    account: LedgerAccount | NoAccount = NoAccount()
    store = SeriesStore(out / CURATOR, curator, chosen)
    begun = was_begun(out, STATE)
    with destination(out, go_on=True, record=STATE):
        if settings.seed is None:
            budget = None if begun else ledger.budget
            account = LedgerAccount(
                ledger_to_charge(
                    case,
                    settings,
                    confirm,
                    name=ledger.dataset,
                    path=ledger.path,
                    cap=budget,
                    protects=options.protects,
                )
            )
        source = store if begun else None if reuse is None else SeriesStore(reuse / CURATOR, curator, chosen)
        draw = None if source is None else source.load(account)
        if draw is not None:
            note("its draws are there, and cost nothing again")
            store.keep(draw)
        note(f"ε = {settings.epsilon}, {alpha_facts(PublicCase.of(case), settings).words}")
        announce_compilation(settings.solver)
        prepared = prepare(PublicCase.of(case), solver=settings.solver.value, bounds=settings.demand_bounds)
        repairs = repairs_needed(plan_series(chosen, series.layout, prepared)[1])
        with progress(f"releasing {len(curator)} hours of {case.name}", repairs) as advance:
            step("drawing noise and repairing")
            with _way_on(out):
                made = release_series(
                    series,
                    chosen,
                    account,
                    workers=options.workers or all_cores(),
                    prepared=prepared,
                    reuse=draw,
                    keep=store.keep,
                    announce=store.announce,
                    advance=advance,
                    confirm=confirm_all if begun else confirm,
                    batch=batch,
                )
            step("writing the series and the network, and checking it")
            publish_series(
                made,
                curator,
                out,
                simulation_as_public=simulation,
                card_page=_series_page,
                publication=publication,
            )
        show(series_summary(made) | {"files": list_files(out)}, as_json, case.name)


@contextmanager
def _way_on(out: Path) -> Iterator[None]:
    """Say of a series that is stopped, by Ctrl-C or an error, that its draws are kept, where they are."""
    from gridveil.service.begun import was_begun
    from gridveil.service.series_store import STATE

    try:
        yield
    except (GridveilError, KeyboardInterrupt) as stop:
        if was_begun(out, STATE):
            again = shlex.join(["gridveil", *sys.argv[1:]])
            warn(f"stopped; what is charged is not charged again: go on in the same folder, {out}, with: {again}")
        if isinstance(stop, GridveilError):
            raise
        raise typer.Exit(INTERRUPTED) from None


def _series_page(card: Mapping[str, object]) -> str | None:
    """Render the public page of a series' card, or None: a release does not fail because of a page."""
    try:
        from gridveil.report.series_page import series_page

        return series_page(card)
    except Exception as error:
        # Only the type of the error: its message may contain a true value.
        warn(f"card.html could not be created ({type(error).__name__}); the release itself is complete and verified")
        return None
