"""The command line: parses, calls, prints."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from gridveil import __version__
from gridveil.cli.case_commands import inspect, solve
from gridveil.cli.output import output
from gridveil.cli.privacy_commands import audit, ledger_create, ledger_show
from gridveil.cli.release_commands import release
from gridveil.errors import GridveilError

app = typer.Typer(add_completion=True, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None)
ledger_app = typer.Typer(no_args_is_help=True, help="The privacy budget of a data set.")


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


for command in (inspect, solve, release, audit):
    app.command()(command)
ledger_app.command("show")(ledger_show)
ledger_app.command("create")(ledger_create)
app.add_typer(ledger_app, name="ledger")


def main() -> None:
    """Run the command line; errors raised on purpose become one line on standard error and an exit code."""
    try:
        app()
    except GridveilError as error:
        sys.stderr.write(f"gridveil: {error}\n")
        sys.exit(error.exit_code)
