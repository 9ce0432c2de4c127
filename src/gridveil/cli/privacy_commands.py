"""``audit`` and ``ledger``: attacks on our own releases, and what has been spent."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gridveil.cli.options import (
    CaseArgument,
    FlowOption,
    JsonOption,
    PresetOption,
    SlackOption,
    SpeedOption,
    UnitOption,
    boundary,
)
from gridveil.cli.output import show, step
from gridveil.cli.progress import progress


def audit(
    case: CaseArgument = "veil9",
    epsilon: Annotated[str, typer.Option(help="The ε to audit.")] = "1",
    alpha: Annotated[str, typer.Option(help="The α to audit, per unit.")] = "0.1",
    draws: Annotated[int, typer.Option(help="Draws for the goodness-of-fit test.")] = 1_000_000,
    runs: Annotated[int, typer.Option(help="Releases from each of two neighbouring demands.")] = 300,
    released: Annotated[
        list[Path] | None, typer.Option(help="Folder of a release of CASE, to attack. Repeatable.")
    ] = None,
    preset: PresetOption = None,
    slack: SlackOption = None,
    sound_speed: SpeedOption = None,
    flow_base: FlowOption = None,
    demand_unit: UnitOption = None,
    as_json: JsonOption = False,
) -> None:
    """Attack our own sampler, pipeline and releases.

    Example: gridveil audit veil9 --runs 100 --draws 100000
    """
    from gridveil.sectors.load import load_case
    from gridveil.service.audit import attack_release, audit_mechanism, passed

    step(f"reading {case}")
    loaded = load_case(case, boundary(preset, slack, sound_speed, flow_base, demand_unit))
    with progress("auditing the sampler and the pipeline", 2 * runs) as advance:
        step(f"drawing {draws} times, and releasing {2 * runs} times")
        report = audit_mechanism(loaded, epsilon=epsilon, alpha=alpha, draws=draws, runs=runs, advance=advance)
    if released:
        step("attacking the release")
        report["attacks"] = attack_release(loaded, case, released)
    show({"case": loaded.name, "passed": passed(report)} | report, as_json, case)
    if not passed(report):
        raise typer.Exit(1)


def ledger_show(
    source: Annotated[str, typer.Argument(help="A ledger file, or the case it belongs to.", metavar="LEDGER")],
    as_json: JsonOption = False,
) -> None:
    """Show what has been spent on a data set, and what remains.

    Example: gridveil ledger show veil9
    """
    from gridveil.service.budget import describe_ledger, find_ledger

    show(describe_ledger(find_ledger(source)), as_json, source)


def ledger_create(
    path: Annotated[Path, typer.Argument(help="File to make.", metavar="LEDGER")],
    alpha: Annotated[str, typer.Option(help="The α at which totals are stated, per unit.")],
    budget: Annotated[str | None, typer.Option(help="Cap on total ε.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Start the ledger of a data set.

    Example: gridveil ledger create veil9.ledger --alpha 0.1 --budget 3
    """
    from gridveil.privacy.ledger import Ledger
    from gridveil.service.budget import describe_ledger

    show(describe_ledger(Ledger.create(path, alpha=alpha, cap=budget)), as_json, str(path))
