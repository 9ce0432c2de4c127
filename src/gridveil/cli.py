"""The command line: parses, calls, prints."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from gridveil import __version__
from gridveil.bilevel.method import Method, Solver
from gridveil.errors import GridveilError, InputError
from gridveil.networks.formulation import DemandBounds, DemandUnit, Formulation
from gridveil.release.choices import CostTargetMode

if TYPE_CHECKING:
    from gridveil.networks.gas_boundary import GasBoundary

NOT_SOLVED = 3

app = typer.Typer(add_completion=True, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None)
ledger_app = typer.Typer(no_args_is_help=True, help="The privacy budget of a data set.")
app.add_typer(ledger_app, name="ledger")
output = Console()

CaseArgument = Annotated[
    str, typer.Argument(help="Path of a case file, or a built-in name such as veil9.", metavar="CASE")
]
SolverOption = Annotated[
    Solver, typer.Option("--solver", help="Our structured solver (AC power), or Ipopt for everything.")
]
PresetOption = Annotated[str | None, typer.Option("--preset", help="Gas: boundary conditions of our studies.")]
SlackOption = Annotated[
    list[str] | None, typer.Option("--slack", help="Gas: JUNCTION=PRESSURE, such as 1=500psi. Repeatable.")
]
SpeedOption = Annotated[str | None, typer.Option("--sound-speed", help="Gas: speed of sound, such as 350m/s.")]
FlowOption = Annotated[
    str | None, typer.Option("--flow-base", help="Gas: what alpha and demands are measured in, kg/s.")
]
UnitOption = Annotated[DemandUnit | None, typer.Option("--demand-unit", help="Gas: whose demand is one datum.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output and nothing else.")]


def _version(show: bool) -> None:
    if show:
        output.print(f"gridveil {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Publish networks with differentially private demands that stay feasible and keep their cost."""


@app.command()
def inspect(
    case: Annotated[str, typer.Argument(help="Path of a case file, or a built-in name.", metavar="CASE")] = "",
    preset: PresetOption = None,
    slack: SlackOption = None,
    sound_speed: SpeedOption = None,
    flow_base: FlowOption = None,
    demand_unit: UnitOption = None,
    as_json: JsonOption = False,
    names: Annotated[bool, typer.Option("--list", help="List the built-in names instead.")] = False,
) -> None:
    """Show what is in a case file: what is secret, and what is public.

    Example: gridveil inspect veil9
    """
    from gridveil.networks.describe import describe_case, list_names
    from gridveil.networks.load import load_case

    if names:
        _show({"cases": list_names()}, as_json, "built-in cases")
        return
    if not case:
        raise InputError("name a case, such as veil9, or use --list")
    _show(describe_case(load_case(case, _boundary(preset, slack, sound_speed, flow_base, demand_unit))), as_json, case)


@app.command()
def solve(
    case: CaseArgument,
    formulation: Annotated[
        Formulation, typer.Option(help="AC: Model 1 of the paper; DC: lossless approximation.")
    ] = Formulation.AC,
    solver: SolverOption = Solver.STRUCTURED,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Show the solver's own output on standard output.")
    ] = False,
    preset: PresetOption = None,
    slack: SlackOption = None,
    sound_speed: SpeedOption = None,
    flow_base: FlowOption = None,
    demand_unit: UnitOption = None,
    as_json: JsonOption = False,
) -> None:
    """Solve the optimal flow O(d), of power or gas, at the demands of the file.

    Example: gridveil solve veil9 --formulation dc --json
    """
    from gridveil.bilevel.engines import engine_for
    from gridveil.bilevel.structured_engine import BY_STRUCTURE
    from gridveil.networks.load import load_case
    from gridveil.networks.model import build_model
    from gridveil.networks.power import PowerNetwork
    from gridveil.privacy.curator import solve_true

    loaded = load_case(case, _boundary(preset, slack, sound_speed, flow_base, demand_unit))
    model = build_model(loaded.network, formulation)
    _announce_compilation(solver)
    engine = engine_for(loaded.network, model, solver, verbose=verbose and not as_json)
    build_seconds = engine.follower.build_seconds
    clock = time.perf_counter()
    solution = solve_true(loaded, model, engine.solve_afresh)
    report = {
        "case": loaded.name,
        "formulation": formulation.value if isinstance(loaded.network, PowerNetwork) else "ogf",
        "solver": (Solver.STRUCTURED if solution.detail == BY_STRUCTURE else Solver.IPOPT).value,
        "status": solution.status.value,
        "cost": solution.cost if solution.converged else None,
        "iterations": solution.iterations,
        "build_seconds": build_seconds,
        "solve_seconds": time.perf_counter() - clock,
    }
    _show(report, as_json, case)
    if not solution.converged:
        raise typer.Exit(NOT_SOLVED)


@app.command()
def release(
    case: CaseArgument,
    out: Annotated[Path, typer.Option("--out", help="Folder to write: public/ for the world, curator/ for you alone.")],
    epsilon: Annotated[str, typer.Option(help="Privacy parameter ε; smaller protects more.")] = "1",
    alpha: Annotated[
        str, typer.Option(help="How much of one site's demand is hidden, per unit of the case's base.")
    ] = "0.1",
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
    """Publish a case with private demands whose optimal cost stays within beta.

    Example: gridveil release veil9 --epsilon 1 --alpha 0.1 --beta 1% --out released
    """
    from gridveil.networks.load import load_case
    from gridveil.privacy.noisy import Tolerance
    from gridveil.release.budget import ledger_path, open_or_create
    from gridveil.release.export import check_destination, export, keep_draw
    from gridveil.release.pipeline import make_release
    from gridveil.release.reuse import load_draw
    from gridveil.release.settings import CostTargetSettings, ReleaseSettings
    from gridveil.release.summary import summary

    settings = ReleaseSettings(
        epsilon=epsilon,
        alpha=alpha,
        beta=Tolerance.parse(beta),
        target=CostTargetSettings(
            mode=cost_target,
            forecast=forecast_cost,
            sensitivity=cost_sensitivity,
            share=cost_share,
            confidence=confidence,
        ),
        seed=seed,
        method=method,
        solver=solver,
        demand_bounds=demand_bounds,
    )
    loaded = load_case(case, _boundary(preset, slack, sound_speed, flow_base, demand_unit))
    check_destination(out)
    book = None
    if seed is None:
        book = open_or_create(ledger or ledger_path(case), alpha=alpha, cap=budget)
    draw = load_draw(reuse, loaded, book) if reuse is not None else None
    _announce_compilation(solver)
    made = make_release(loaded, settings, book, draw, keep=lambda drawn: keep_draw(drawn, out))
    files = export(made, out, simulation_as_public=simulation)
    _show(summary(made) | {"files": files}, as_json, case)


@app.command()
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
    """Attack our own sampler, pipeline and releases, and say what comes back.

    Example: gridveil audit veil9 --runs 100 --draws 100000
    """
    from gridveil.networks.load import load_case
    from gridveil.release.audit import attack_release, audit_mechanism, passed

    loaded = load_case(case, _boundary(preset, slack, sound_speed, flow_base, demand_unit))
    report = audit_mechanism(loaded, epsilon=epsilon, alpha=alpha, draws=draws, runs=runs)
    if released:
        report["attacks"] = attack_release(loaded, case, released)
    _show({"case": loaded.name, "passed": passed(report)} | report, as_json, case)
    if not passed(report):
        raise typer.Exit(1)


@ledger_app.command("show")
def ledger_show(
    source: Annotated[str, typer.Argument(help="A ledger file, or the case it belongs to.", metavar="LEDGER")],
    as_json: JsonOption = False,
) -> None:
    """Show what has been spent on a data set, and what remains.

    Example: gridveil ledger show veil9
    """
    from gridveil.release.budget import describe_ledger, find_ledger

    _show(describe_ledger(find_ledger(source)), as_json, source)


@ledger_app.command("create")
def ledger_create(
    path: Annotated[Path, typer.Argument(help="File to make.", metavar="LEDGER")],
    alpha: Annotated[str, typer.Option(help="The α at which totals are stated, per unit.")],
    budget: Annotated[str | None, typer.Option(help="Cap on total ε.")] = None,
) -> None:
    """Start the ledger of a data set.

    Example: gridveil ledger create veil9.ledger --alpha 0.1 --budget 3
    """
    from gridveil.privacy.ledger import Ledger

    Ledger.create(path, alpha=alpha, cap=budget)


def _announce_compilation(solver: Solver) -> None:
    """The first use ever compiles for about a minute: nobody should wait for that without a word."""
    from gridveil.structured.warm_up import compiled_before

    if solver is Solver.STRUCTURED and not compiled_before():
        sys.stderr.write(
            "gridveil: compiling the structured solver, once, for about a minute (--solver ipopt avoids it)\n"
        )


def _boundary(
    preset: str | None, slack: list[str] | None, sound_speed: str | None, flow_base: str | None, unit: DemandUnit | None
) -> GasBoundary:
    """Give the gas boundary conditions of the command line: a preset, and whatever is stated on top of it."""
    from gridveil.networks.gas_boundary import stated_boundary

    return stated_boundary(
        preset=preset, slack=slack or [], sound_speed=sound_speed, flow_base=flow_base, demand_unit=unit
    )


def _show(report: Mapping[str, object], as_json: bool, title: str) -> None:
    if as_json:
        sys.stdout.write(json.dumps(report, allow_nan=False) + "\n")
        return
    table = Table(title=title, show_header=False, title_justify="left", box=None)
    for key, value in report.items():
        table.add_row(key.replace("_", " "), _plain(value))
    output.print(table)


def _plain(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Mapping):
        return "\n".join(f"{key.replace('_', ' ')}: {_plain(item)}" for key, item in value.items())
    if isinstance(value, list):
        return "\n".join(_plain(item) for item in value) or "none"
    return str(value)


def main() -> None:
    """Run the command line; errors raised on purpose become one line on standard error and an exit code."""
    try:
        app()
    except GridveilError as error:
        sys.stderr.write(f"gridveil: {error}\n")
        sys.exit(error.exit_code)
