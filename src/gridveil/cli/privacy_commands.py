"""``audit`` and ``ledger``: test the privacy claim, and keep the privacy budget."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gridveil.cli.options import (
    CaseArgument,
    DatasetOption,
    GasOptions,
    JsonOption,
    LedgerOption,
    MethodOption,
    SecretOption,
    SitesOption,
    SolverOption,
    sites_rule,
)
from gridveil.cli.output import announce_compilation, show, step
from gridveil.cli.progress import progress
from gridveil.core.choices import DEFAULT_ALPHA, DEFAULT_BETA, DEFAULT_EPSILON, CostTargetMode, Protects
from gridveil.core.methods import Method, Solver

if TYPE_CHECKING:
    from gridveil.privacy.ledger import Ledger


def audit(
    case: CaseArgument = "veil9",
    epsilon: Annotated[str, typer.Option(help="The ε to audit.")] = DEFAULT_EPSILON,
    alpha: Annotated[str, typer.Option(help="The α to audit, such as 10MVA or 0.1pu.")] = DEFAULT_ALPHA,
    beta: Annotated[str, typer.Option(help="Largest deviation of the optimal cost from its target.")] = DEFAULT_BETA,
    cost_target: Annotated[CostTargetMode, typer.Option(help="The cost target to audit.")] = CostTargetMode.PRIVATE,
    method: MethodOption = "auto",
    solver: SolverOption = "structured",
    draws: Annotated[int, typer.Option(help="Number of draws for the goodness-of-fit test.")] = 1_000_000,
    runs: Annotated[int, typer.Option(help="Number of releases from each of two neighbouring data sets.")] = 2500,
    released: Annotated[
        list[Path] | None, typer.Option(help="Folder of a release of CASE to attack. Repeatable.")
    ] = None,
    sites: SitesOption = None,
    as_json: JsonOption = False,
    secret: SecretOption = None,
    *,
    gas: GasOptions,
) -> None:
    """Test the sampler, the release pipeline and released folders against the claimed privacy.

    The pipeline is tested on public or simulated demands, never on true ones. With 2500 runs, an audit detects a pipeline
    that spends ε = 2 where it claims 1 with probability above 0.9.

    Example: gridveil audit veil2 --runs 100 --draws 100000
    """
    from gridveil.core.band import Tolerance
    from gridveil.core.secret_choice import stated_secrets
    from gridveil.sectors.registry import load_case
    from gridveil.service.audit import attack_release, audit_release, audit_sampler, passed
    from gridveil.service.secrets import with_secrets
    from gridveil.service.settings import CostTargetSettings, ReleaseSettings

    step(f"reading {case}")
    settings = ReleaseSettings(
        epsilon=epsilon,
        alpha=alpha,
        beta=Tolerance.parse(beta),
        target=CostTargetSettings(mode=cost_target),
        method=Method(method),
        solver=Solver(solver),
        secrets=stated_secrets(secret),
    )
    loaded = with_secrets(load_case(case, gas.boundary, sites=sites_rule(sites)), settings.secrets)
    announce_compilation(solver)
    with progress("auditing the sampler and the release", 2 * runs) as advance:
        step(f"drawing {draws} times, and releasing {2 * runs} times")
        report = audit_sampler(loaded, settings, draws)
        public = not Path(case).exists()
        report |= audit_release(loaded, settings, runs=runs, public_values=public, advance=advance)
    if released:
        step("attacking the release")
        report["attacks"] = attack_release(loaded, case, released, solver)
    show({"case": loaded.name, "passed": passed(report)} | report, as_json, case)
    if not passed(report):
        raise typer.Exit(1)


def ledger_show(
    source: Annotated[str, typer.Argument(help="A case, or a ledger file.", metavar="CASE")],
    dataset: DatasetOption = None,
    as_json: JsonOption = False,
    *,
    gas: GasOptions,
) -> None:
    """Show what has been spent on a data set, and what remains.

    Example: gridveil ledger show veil9
    """
    from gridveil.privacy.ledger import Ledger
    from gridveil.privacy.ledger_book import SUFFIX
    from gridveil.sectors.registry import load_case
    from gridveil.service.budget import ledger_of

    if source.endswith(SUFFIX):
        _show_ledger(Ledger.open(Path(source)), as_json, source)
        return
    loaded = load_case(source, gas.boundary)
    _show_ledger(ledger_of(loaded, name=dataset), as_json, source)


def ledger_create(
    case: CaseArgument,
    alpha: Annotated[str, typer.Option(help="Reference α at which totals are stated, such as 10MVA.")],
    budget: Annotated[str, typer.Option(help="Cap on total ε.")],
    protects: Annotated[
        Protects, typer.Option(help="What the cap counts: everything about one customer, or one hour of one.")
    ] = Protects.PROFILE,
    dataset: DatasetOption = None,
    ledger: LedgerOption = None,
    sites: SitesOption = None,
    as_json: JsonOption = False,
    *,
    gas: GasOptions,
) -> None:
    """Create the ledger of a data set, with a cap on the total ε that may ever be spent on it.

    Example: gridveil ledger create veil9 --alpha 10MVA --budget 3
    """
    from gridveil.sectors.registry import load_case
    from gridveil.service.budget import ledger_of

    loaded = load_case(case, gas.boundary, sites=sites_rule(sites))
    made = ledger_of(loaded, name=dataset, path=ledger, alpha=alpha, cap=budget, protects=protects)
    _show_ledger(made, as_json, case)


def _show_ledger(ledger: Ledger, as_json: bool, title: str) -> None:
    """Print a ledger: exact text for people, numbers for programs."""
    from gridveil.service.budget import describe_ledger, ledger_numbers

    show(ledger_numbers(ledger) if as_json else describe_ledger(ledger), as_json, title)
