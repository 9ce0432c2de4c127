"""``release``: publish a case with private demands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from gridveil.cli.options import (
    CaseArgument,
    FlowOption,
    JsonOption,
    PresetOption,
    SlackOption,
    SolverOption,
    SpeedOption,
    UnitOption,
    boundary,
)
from gridveil.cli.output import announce_compilation, complain, show, step
from gridveil.cli.progress import progress
from gridveil.core.choices import DemandBounds
from gridveil.core.methods import Method, Solver
from gridveil.service.choices import CostTargetMode

if TYPE_CHECKING:
    from gridveil.privacy.ledger import Ledger
    from gridveil.service.pipeline import Release

DEFAULT_EPSILON, DEFAULT_ALPHA = "1", "0.1"

Made = TypeVar("Made")


def release(
    case: CaseArgument,
    out: Annotated[Path, typer.Option("--out", help="Folder to write: public/ for the world, curator/ for you alone.")],
    epsilon: Annotated[
        str | None, typer.Option(help="Privacy parameter ε; smaller protects more.", show_default=DEFAULT_EPSILON)
    ] = None,
    alpha: Annotated[
        str | None,
        typer.Option(
            help="How much of one site's demand is hidden, per unit of the case's base.", show_default=DEFAULT_ALPHA
        ),
    ] = None,
    beta: Annotated[
        str, typer.Option(help="How far the optimal cost may move: a share (1%) or an amount (250).")
    ] = "1%",
    method: Annotated[Method, typer.Option(help="How the bilevel problem is solved.")] = Method.AUTO,
    solver: SolverOption = Solver.STRUCTURED,
    demand_bounds: Annotated[DemandBounds, typer.Option(help="Bounds on released active demands.")] = DemandBounds.NONE,
    cost_target: Annotated[
        CostTargetMode, typer.Option(help="Where the cost target comes from.")
    ] = CostTargetMode.PUBLIC,
    forecast_cost: Annotated[float | None, typer.Option(help="The cost target, for --cost-target forecast.")] = None,
    cost_sensitivity: Annotated[
        str | None, typer.Option(help="For --cost-target private: the most one site can change the optimal cost.")
    ] = None,
    cost_share: Annotated[str, typer.Option(help="Share of ε spent on a private cost target.")] = "0.1",
    confidence: Annotated[
        float, typer.Option(help="β is widened to hold the true cost this surely (private target).")
    ] = 0.95,
    ledger: Annotated[Path | None, typer.Option(help="Ledger of the data set; default: beside the case file.")] = None,
    budget: Annotated[str | None, typer.Option(help="Cap on total ε, when the ledger is first made.")] = None,
    reuse: Annotated[
        Path | None, typer.Option(help="Folder of an earlier release: use its noise again, at no cost.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed: makes a repeatable SIMULATION that protects nobody.")] = None,
    simulation: Annotated[
        bool, typer.Option("--simulation", help="Write a seeded run into public/ all the same.")
    ] = False,
    preset: PresetOption = None,
    slack: SlackOption = None,
    sound_speed: SpeedOption = None,
    flow_base: FlowOption = None,
    demand_unit: UnitOption = None,
    as_json: JsonOption = False,
) -> None:
    """Publish a case with private demands at nearly the same cost.

    Example: gridveil release veil9 --epsilon 1 --alpha 0.1 --beta 1% --out released
    """
    from gridveil.core.band import Tolerance
    from gridveil.privacy.ledger import Ledger
    from gridveil.sectors.load import load_case
    from gridveil.service.budget import ledger_path, open_or_create
    from gridveil.service.export import check_destination, export, keep_draw, list_files
    from gridveil.service.pipeline import make_release
    from gridveil.service.reuse import kept_promise, load_draw
    from gridveil.service.settings import CostTargetSettings, ReleaseSettings, check_promise
    from gridveil.service.summary import summary

    # What is stated badly is told before anything is read, written or charged.
    tolerance = Tolerance.parse(beta)
    target = CostTargetSettings(
        mode=cost_target,
        forecast=forecast_cost,
        sensitivity=cost_sensitivity,
        share=cost_share,
        confidence=confidence,
    )
    check_promise(epsilon, alpha)
    loaded = load_case(case, boundary(preset, slack, sound_speed, flow_base, demand_unit))
    check_destination(out)
    draw, book, ledger_file = None, None, ledger or ledger_path(case)
    if reuse is not None:
        book = Ledger.open(ledger_file) if ledger_file.exists() else None
        draw = load_draw(reuse, loaded, book)
        epsilon, alpha = kept_promise(draw, epsilon, alpha)
    settings = ReleaseSettings(
        epsilon=DEFAULT_EPSILON if epsilon is None else epsilon,
        alpha=DEFAULT_ALPHA if alpha is None else alpha,
        beta=tolerance,
        target=target,
        seed=seed,
        method=method,
        solver=solver,
        demand_bounds=demand_bounds,
    )
    if reuse is None and seed is None:
        book = open_or_create(ledger_file, alpha=settings.alpha, cap=budget)
    announce_compilation(solver)
    with progress(f"releasing {loaded.name}"):
        step("drawing noise and repairing")
        made = make_release(loaded, settings, book, draw, keep=lambda drawn: keep_draw(drawn, out))
        step("writing the network and checking it, and the pages")
        export(made, out, simulation_as_public=simulation, card_page=_card_page)
        _write_report(made, out, case, book)
    show(summary(made) | {"files": list_files(out)}, as_json, case)


def _card_page(card: Mapping[str, object]) -> str | None:
    """Give the public page of a card, or None: a release does not fail for a page."""

    def make() -> str:
        from gridveil.report.card_page import card_page

        return card_page(card)

    return _or_complain(make, "the page of the card")


def _write_report(made: Release, out: Path, case: str, ledger: Ledger | None) -> None:
    """Write the curator's report; the release is verified and published already, and stays so without it."""

    def make() -> Path:
        from gridveil.report.curator_page import write_curator_page
        from gridveil.sectors.geometry import read_places
        from gridveil.service.export import CURATOR

        return write_curator_page(made, out / CURATOR, ledger=ledger, places=read_places(case))

    _or_complain(make, "the curator's report")


def _or_complain(make: Callable[[], Made], what: str) -> Made | None:
    try:
        return make()
    except Exception as error:
        # Only the kind of error: its words may hold a demand.
        complain(f"{what} could not be made ({type(error).__name__}); the release itself is complete and verified")
        return None
