"""Entry point of the command line: commands, error messages and exit codes."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import Annotated

import typer

import gridveil
from gridveil import __version__
from gridveil.cli.bench_commands import bench
from gridveil.cli.case_commands import inspect, solve
from gridveil.cli.compile_command import compile_kernels
from gridveil.cli.explore_commands import explore
from gridveil.cli.generate_commands import generate
from gridveil.cli.options import with_shared_options
from gridveil.cli.output import OutputMode, console, output_mode, set_output_mode, warn
from gridveil.cli.plugin_command import list_plugins
from gridveil.cli.privacy_commands import audit, ledger_create, ledger_show
from gridveil.cli.quick_options import QuickCommand, QuickGroup
from gridveil.cli.release_commands import release
from gridveil.cli.study_commands import study_app
from gridveil.cli.study_output_commands import register as register_study_output
from gridveil.core.errors import GridveilError, InputError
from gridveil.core.extras import told_of

BUG = 1
WIDEST_HELP = 110  # columns
PACKAGE = Path(gridveil.__file__).parent

app = typer.Typer(
    cls=QuickGroup,
    add_completion=True,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"max_content_width": WIDEST_HELP},
)
ledger_app = typer.Typer(no_args_is_help=True, help="Privacy budget of a data set.")


def _version(show: bool) -> None:
    if show:
        console().print(f"gridveil {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Publish networks with differentially private demands that stay feasible and keep their cost.

    Example: gridveil release veil9 --epsilon 1 --alpha 0.1 --beta 1% --out released
    """


for command in (inspect, solve, explore, release, generate, audit, bench):
    app.command(cls=QuickCommand)(with_shared_options(command))
app.command("compile", cls=QuickCommand)(with_shared_options(compile_kernels))
app.command("plugins", cls=QuickCommand)(with_shared_options(list_plugins))
ledger_app.command("show")(with_shared_options(ledger_show))
ledger_app.command("create")(with_shared_options(ledger_create))
app.add_typer(ledger_app, name="ledger")
register_study_output(study_app)
app.add_typer(study_app, name="study")


def main() -> None:
    """Run the command line; an error becomes one line on standard error and an exit code."""
    set_output_mode(OutputMode())
    try:
        app()
    except GridveilError as error:
        warn(str(error))
        sys.exit(error.exit_code)
    except OSError as error:
        warn(f"{error.filename or 'a file'}: {error.strerror or 'cannot be used'}; check the path and its permissions")
        sys.exit(InputError.exit_code)
    except Exception as error:
        missing = told_of(error) if isinstance(error, ImportError) else None
        if missing:
            warn(missing)
            sys.exit(InputError.exit_code)
        _report_bug(error)
        sys.exit(BUG)


def _report_bug(error: Exception) -> None:
    """Report a bug by type and location only: messages and variables may contain true demands."""
    places = [
        f"{Path(frame.filename).relative_to(PACKAGE.parent)}:{frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).is_relative_to(PACKAGE)
    ]
    if output_mode().verbose:
        for place in places:
            warn(f"passed through {place}")
    hint = "please report this line" if output_mode().verbose else "run again with --verbose to see where it occurred"
    warn(f"internal error ({type(error).__name__} at {places[-1]}); this is a bug: {hint}")
