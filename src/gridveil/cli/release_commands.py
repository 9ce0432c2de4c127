"""``release``: publish a case with differentially private demands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from gridveil.cli.compile_command import solver_now
from gridveil.cli.options import (
    CaseArgument,
    DatasetOption,
    GasOptions,
    JsonOption,
    LedgerOption,
    MechanismOption,
    MethodOption,
    NamesOption,
    SeriesOptions,
    SitesOption,
    SolverNowOption,
    TimeLimitOption,
    case_options,
    sites_rule,
)
from gridveil.cli.output import note, seconds_since_start, show, step, warn
from gridveil.cli.progress import progress
from gridveil.core.choices import CostTargetMode, DemandBounds
from gridveil.core.errors import InputError
from gridveil.core.extras import require
from gridveil.core.methods import Method, Solver

if TYPE_CHECKING:
    from gridveil.privacy.ledger import Ledger
    from gridveil.sectors.case import Case
    from gridveil.service.release import Release
    from gridveil.service.settings import ReleaseSettings

DEFAULT_EPSILON, DEFAULT_ALPHA = "1", "0.1pu"

Made = TypeVar("Made")


def release(
    case: CaseArgument,
    out: Annotated[
        Path, typer.Option("--out", help="Output folder: public/ may be published, curator/ is for you alone.")
    ],
    epsilon: Annotated[
        str | None, typer.Option(help="Privacy parameter ε; smaller values protect more.", show_default=DEFAULT_EPSILON)
    ] = None,
    alpha: Annotated[
        str | None,
        typer.Option(
            help="Size of the change in one site's demand that is hidden, such as 10MVA or 0.1pu.",
            show_default=DEFAULT_ALPHA,
        ),
    ] = None,
    beta: Annotated[
        str,
        typer.Option(help="Largest deviation of the optimal cost from its target: a share (1%) or an amount (250)."),
    ] = "1%",
    method: MethodOption = "auto",
    solver: SolverNowOption = None,
    demand_bounds: Annotated[DemandBounds, typer.Option(help="Bounds on released active demands.")] = DemandBounds.NONE,
    cost_target: Annotated[
        CostTargetMode | None,
        typer.Option(
            help="Where the cost target comes from: private, derived or forecast.",
            show_default="private; series: derived",
        ),
    ] = None,
    forecast_cost: Annotated[float | None, typer.Option(help="The cost target, for --cost-target forecast.")] = None,
    cost_share: Annotated[
        str | None, typer.Option(help="Share of ε spent on a private cost target. [default: chosen from public data]")
    ] = None,
    declare_cost_public: Annotated[
        bool,
        typer.Option(
            "--declare-cost-public",
            help="Publish the true optimal cost as the target. Anyone who knows all other demands can infer the last one.",
        ),
    ] = False,
    time_limit: TimeLimitOption = None,
    sites: SitesOption = None,
    names: NamesOption = None,
    dataset: DatasetOption = None,
    ledger: LedgerOption = None,
    budget: Annotated[str | None, typer.Option(help="Create the ledger with this cap on total ε.")] = None,
    reuse: Annotated[
        Path | None, typer.Option(help="Folder of an earlier release whose noise is reused, at no privacy cost.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed for a reproducible SIMULATION, which protects nobody.")] = None,
    simulation: Annotated[
        bool, typer.Option("--simulation", help="Write a seeded run to public/ nevertheless.")
    ] = False,
    mechanism: MechanismOption = "laplace",
    as_json: JsonOption = False,
    *,
    series: SeriesOptions,
    gas: GasOptions,
) -> None:
    """Release a case with differentially private demands and nearly the same optimal cost.

    With --series, every hour of a table of demands is released, under one charge.

    Example: gridveil release veil9 --epsilon 1 --alpha 10MVA --beta 1% --budget 3 --out released
    """
    from gridveil.cli.series_release import LedgerOptions, release_table, usual_target
    from gridveil.core.band import Tolerance
    from gridveil.privacy.curator import Curator
    from gridveil.privacy.mechanisms import LAPLACE
    from gridveil.sectors.registry import load_case
    from gridveil.service.account import LedgerAccount, NoAccount
    from gridveil.service.budget import ledger_of
    from gridveil.service.prepare import PublicCase
    from gridveil.service.publish import destination, keep_draw, list_files, publish
    from gridveil.service.release import make_release, refuse_share_of_nothing, refuse_undeclared_sites
    from gridveil.service.reuse import kept_promise, load_draw
    from gridveil.service.settings import CostTargetSettings, ReleaseSettings
    from gridveil.service.summary import summary

    # Invalid settings are reported before anything is read, written or charged.
    if series.file is not None:
        require("pandas", "pyarrow", extra="series")
    if cost_target is CostTargetMode.PUBLIC:
        raise InputError(
            "a public cost target must be declared: use --declare-cost-public instead of --cost-target public"
        )
    mode = CostTargetMode.PUBLIC if declare_cost_public else cost_target or usual_target(series)
    target = CostTargetSettings(mode=mode, forecast=forecast_cost, share=cost_share)
    settings = ReleaseSettings(
        epsilon=epsilon or DEFAULT_EPSILON,
        alpha=alpha or DEFAULT_ALPHA,
        beta=Tolerance.parse(beta),
        target=target,
        seed=seed,
        method=Method(method),
        solver=Solver(solver or Solver.STRUCTURED),
        demand_bounds=demand_bounds,
        time_limit=time_limit,
        mechanism=mechanism,
    )
    loaded = load_case(case, case_options(gas, names), sites=sites_rule(sites))
    refuse_undeclared_sites(PublicCase.of(loaded), settings)
    refuse_share_of_nothing(PublicCase.of(loaded), settings)
    if series.file is not None:
        if mechanism != LAPLACE:
            raise InputError("--mechanism is for a single release; a series names its noise with --noise")
        promise = LedgerOptions(dataset=dataset, path=ledger, budget=budget)
        release_table(loaded, settings, series, promise, out, reuse=reuse, simulation=simulation, as_json=as_json)
        return
    with destination(out):
        curator, draw, book = Curator(loaded), None, None
        if seed is None:
            book = ledger_of(loaded, name=dataset, path=ledger, alpha=settings.alpha, cap=budget)
        if reuse is not None:
            draw = load_draw(reuse, curator, book)
            paid = kept_promise(draw, loaded.field, book, epsilon, alpha)
            settings = _with_promise(settings, *paid)
        account = NoAccount() if book is None else LedgerAccount(book)
        settings = replace(settings, solver=solver_now(solver, loaded.network))
        with progress(f"releasing {loaded.name}"):
            step("drawing noise and repairing")
            made = make_release(
                loaded, settings, account, reuse=draw, keep=lambda drawn: keep_draw(drawn, curator, out)
            )
            step("writing the network and checking it")
            made = publish(
                made, loaded, out, simulation_as_public=simulation, card_page=_card_page, published=_say_published
            )
            report = _write_report(made, loaded, out, case, book)
    if report is not None:
        note(f"certificate and report: {report} ({seconds_since_start():.1f} s)")
    show(summary(made) | {"files": list_files(out)}, as_json, case)


def _with_promise(settings: ReleaseSettings, epsilon: str, alpha: str) -> ReleaseSettings:
    return replace(settings, epsilon=epsilon, alpha=f"{alpha}pu")


def _say_published(folder: Path) -> None:
    note(f"published: {folder} ({seconds_since_start():.1f} s); certificate and report follow")


def _card_page(card: Mapping[str, object]) -> str | None:
    """Render the public page of a card, or None: a release does not fail because of a page."""

    def make() -> str:
        from gridveil.report.card_page import card_page

        return card_page(card)

    return _or_warn(make, "card.html")


def _write_report(made: Release, loaded: Case, out: Path, case: str, ledger: Ledger | None) -> Path | None:
    """Write the curator's report; the release is already verified and published, and does not depend on it."""

    def make() -> Path:
        from gridveil.report.curator_page import write_curator_page
        from gridveil.sectors.registry import read_places
        from gridveil.service.publish import CURATOR

        return write_curator_page(made, loaded, out / CURATOR, ledger=ledger, places=read_places(case))

    return _or_warn(make, "the curator's report")


def _or_warn(make: Callable[[], Made], what: str) -> Made | None:
    try:
        return make()
    except Exception as error:
        # Only the type of the error: its message may contain a true value.
        warn(f"{what} could not be created ({type(error).__name__}); the release itself is complete and verified")
        return None
