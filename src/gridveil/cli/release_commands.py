"""``release``: publish a case with differentially private demands."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gridveil.cli.compile_command import solver_now
from gridveil.cli.keep_options import KeepOptions, beta_and_kept
from gridveil.cli.options import (
    CaseArgument,
    DatasetOption,
    GasOptions,
    JsonOption,
    LedgerOption,
    MechanismOption,
    MethodOption,
    NamesOption,
    SecretOption,
    SeriesOptions,
    SitesOption,
    SolverNowOption,
    TimeLimitOption,
    YesOption,
    case_options,
    sites_rule,
)
from gridveil.core.choices import DEFAULT_ALPHA, DEFAULT_BETA, DEFAULT_EPSILON, CostTargetMode, DemandBounds
from gridveil.core.errors import InputError
from gridveil.core.extras import require
from gridveil.core.methods import Method, Solver

if TYPE_CHECKING:
    from gridveil.core.secret_choice import SecretChoice


def release(
    case: CaseArgument,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Output folder: public/ may be published, curator/ is for you alone. A release that was stopped goes on in its "
            "folder. [default: required, but for --check]",
        ),
    ] = None,
    epsilon: Annotated[
        str | None, typer.Option(help="Privacy parameter ε; smaller values protect more.", show_default=DEFAULT_EPSILON)
    ] = None,
    alpha: Annotated[
        str | None,
        typer.Option(
            help="Size of the change in one site's demand that is hidden, with its unit, such as 10MVA, 2kg/s or 0.1pu.",
            show_default=f"{DEFAULT_ALPHA}: 10 MVA on a base of 100 MVA",
        ),
    ] = None,
    beta: Annotated[
        str | None,
        typer.Option(
            help="Largest deviation of the optimal cost from its target: a share (1%) or an amount (250$/h).",
            show_default=DEFAULT_BETA,
        ),
    ] = None,
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
    check: Annotated[
        bool, typer.Option("--check", help="Stop before the draw: say what would happen, and charge nothing.")
    ] = False,
    yes: YesOption = False,
    publisher: Annotated[str | None, typer.Option(help="Card: who publishes the release.")] = None,
    contact: Annotated[str | None, typer.Option(help="Card: where readers can ask.")] = None,
    licence: Annotated[str | None, typer.Option(help="Card: licence of the release, such as CC-BY-4.0.")] = None,
    title: Annotated[
        str | None, typer.Option(help="Card: name of the network. [default: that of a built-in case, none of a file]")
    ] = None,
    mechanism: MechanismOption = "laplace",
    as_json: JsonOption = False,
    secret: SecretOption = None,
    *,
    kept: KeepOptions,
    series: SeriesOptions,
    gas: GasOptions,
) -> None:
    """Release a case with differentially private demands and nearly the same optimal cost.

    With --series, every hour of a table of demands is released, under one charge.

    With --check, nothing is drawn: the command ends with 0 (go) or 2 (no-go) and says why.

    Example: gridveil release veil9 --epsilon 1 --alpha 10MVA --beta 1% --budget 3 --out released
    """
    from gridveil.cli.release_words import confirmation
    from gridveil.cli.series_release import LedgerOptions, release_table, usual_target
    from gridveil.cli.single_release import check_release, release_one
    from gridveil.core.secret_choice import demand_alpha
    from gridveil.privacy.mechanisms import LAPLACE
    from gridveil.sectors.registry import load_case
    from gridveil.service.guards import refuse_wrong_units
    from gridveil.service.kept import groups_of
    from gridveil.service.prepare import PublicCase, prepare
    from gridveil.service.publication import Publication
    from gridveil.service.release import refuse_share_of_nothing, refuse_undeclared_sites
    from gridveil.service.secrets import with_secrets
    from gridveil.service.settings import CostTargetSettings, ReleaseSettings

    # Invalid settings are reported before anything is read, written or charged.
    if series.file is not None:
        require("pandas", "pyarrow", extra="series")
    if cost_target is CostTargetMode.PUBLIC:
        raise InputError(
            "a public cost target must be declared: use --declare-cost-public instead of --cost-target public"
        )
    if out is None and not check:
        raise InputError("name the folder of the release with --out, or stop before the draw with --check")
    mode = CostTargetMode.PUBLIC if declare_cost_public else cost_target or usual_target(series)
    target = CostTargetSettings(mode=mode, forecast=forecast_cost, share=cost_share)
    tolerance, keep = beta_and_kept(beta, kept)
    if keep.numbers and series.file is not None:
        raise InputError("a series keeps the cost of each hour and nothing else; leave out all but cost in --keep")
    alpha, secrets = _stated_secrets(secret, alpha, series)
    settings = ReleaseSettings(
        epsilon=epsilon or DEFAULT_EPSILON,
        alpha=alpha or demand_alpha(secrets) or DEFAULT_ALPHA,
        beta=tolerance,
        target=target,
        seed=seed,
        method=Method(method),
        solver=Solver(solver or Solver.STRUCTURED),
        demand_bounds=demand_bounds,
        time_limit=time_limit,
        secrets=secrets,
        keep=keep,
        mechanism=mechanism,
    )
    # The name of a built-in case is public; that of a file may not be.
    network = title or (None if Path(case).exists() else case)
    publication = Publication(publisher=publisher, contact=contact, licence=licence, network=network)
    owner = load_case(case, case_options(gas, names), sites=sites_rule(sites))
    loaded = with_secrets(owner, settings.secrets)
    if series.file is None:
        settings = replace(settings, solver=solver_now(solver, loaded.network))
    elif mechanism != LAPLACE:
        raise InputError("--mechanism is for a single release; a series names its noise with --noise")
    prepared = prepare(PublicCase.of(loaded), solver=settings.solver.value, bounds=demand_bounds)
    refuse_wrong_units(prepared, settings)
    groups_of(prepared.public, keep)
    money = LedgerOptions(dataset=dataset, path=ledger, budget=budget)
    if out is None or check:
        if series.file is not None or reuse is not None:
            raise InputError("--check looks at a new draw of one release; leave out --series and --reuse")
        check_release(loaded, owner, prepared, settings, money, as_json)
        return
    refuse_undeclared_sites(prepared.public, settings)
    refuse_share_of_nothing(prepared.public, settings)
    if series.file is not None:
        release_table(
            loaded,
            settings,
            series,
            money,
            out,
            reuse=reuse,
            simulation=simulation,
            as_json=as_json,
            confirm=confirmation(yes),
            publication=publication,
        )
        return
    release_one(
        loaded,
        owner,
        prepared,
        settings,
        money,
        out,
        source=case,
        stated=(epsilon, alpha),
        reuse=reuse,
        simulation=simulation,
        as_json=as_json,
        confirm=confirmation(yes),
        publication=publication,
    )


def _stated_secrets(
    secret: str | None, alpha: str | None, series: SeriesOptions
) -> tuple[str | None, tuple[SecretChoice, ...]]:
    """α of demands and the further secrets; what both --secret and another option would state is refused."""
    from gridveil.core.secret_choice import split_off_demand, stated_secrets

    if secret is not None and (alpha is not None or series.file is not None):
        raise InputError("--secret states what is hidden and how far, so it takes no --alpha and no --series")
    demand_alone, secrets = split_off_demand(stated_secrets(secret))
    return demand_alone or alpha, secrets
