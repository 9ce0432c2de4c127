"""The command line: parses, calls, prints."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from gridveil import __version__
from gridveil.errors import GridveilError, InputError
from gridveil.networks.formulation import Formulation

NOT_SOLVED = 3

app = typer.Typer(add_completion=True, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None)
output = Console()

CaseArgument = Annotated[
    str, typer.Argument(help="Path of a case file, or a built-in name such as veil9.", metavar="CASE")
]
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
    _show(describe_case(load_case(case)), as_json, case)


@app.command()
def solve(
    case: CaseArgument,
    formulation: Annotated[
        Formulation, typer.Option(help="AC: Model 1 of the paper; DC: lossless approximation.")
    ] = Formulation.AC,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Show the solver's own output on standard output.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Solve the optimal power flow O(d) at the demands of the file.

    Example: gridveil solve veil9 --formulation dc --json
    """
    from gridveil.networks.load import load_case
    from gridveil.networks.model import build_model
    from gridveil.privacy.curator import solve_true
    from gridveil.programs import Follower

    loaded = load_case(case)
    model = build_model(loaded.network, formulation)
    follower = Follower(model.program, verbose=verbose and not as_json)
    solution = solve_true(loaded, model, follower)
    report = {
        "case": loaded.name,
        "formulation": formulation.value,
        "solver": "ipopt",
        "status": solution.status.value,
        "cost": solution.cost if solution.converged else None,
        "iterations": solution.iterations,
        "build_seconds": follower.build_seconds,
        "solve_seconds": solution.seconds,
    }
    _show(report, as_json, case)
    if not solution.converged:
        raise typer.Exit(NOT_SOLVED)


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
