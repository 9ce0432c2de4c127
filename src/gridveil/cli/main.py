"""Entry point of the command line: commands, error messages and exit codes."""

from __future__ import annotations

import gc
import sys
import traceback
import warnings
from pathlib import Path
from typing import Annotated, NoReturn

import typer

import gridveil
from gridveil import __version__
from gridveil.cli.app_commands import app as app_command
from gridveil.cli.bench_commands import bench
from gridveil.cli.case_commands import inspect, solve
from gridveil.cli.compile_command import compile_kernels
from gridveil.cli.explore_commands import explore
from gridveil.cli.generate_commands import generate
from gridveil.cli.options import with_shared_options
from gridveil.cli.output import OutputMode, console, output_mode, set_output_mode, show, warn
from gridveil.cli.plugin_command import list_plugins
from gridveil.cli.privacy_commands import audit, ledger_create, ledger_show
from gridveil.cli.quick_options import QuickCommand, QuickGroup
from gridveil.cli.release_commands import release
from gridveil.cli.study_commands import study_app
from gridveil.cli.study_output_commands import register as register_study_output
from gridveil.cli.verify_commands import verify
from gridveil.core.errors import GridveilError, InputError
from gridveil.core.extras import told_of

BUG = 1
WIDEST_HELP = 110  # columns
PACKAGE = Path(gridveil.__file__).parent
TURN = 5e-4
"""Seconds until a thread that waits for the interpreter gets it: work begun ahead asks for it now and then, between kernels."""
SELDOM = (50_000, 20, 20)
"""When Python looks for cycles to free: imports and tables make many objects and few cycles, and each look takes a while."""

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

    Example: gridveil release veil9 --epsilon 1 --alpha 10MVA --beta 1% --out released
    """


for command in (inspect, solve, explore, release, verify, generate, audit, bench):
    app.command(cls=QuickCommand)(with_shared_options(command))
app.command("compile", cls=QuickCommand)(with_shared_options(compile_kernels))
app.command("plugins", cls=QuickCommand)(with_shared_options(list_plugins))
app.command("app", cls=QuickCommand)(with_shared_options(app_command))
ledger_app.command("show", cls=QuickCommand)(with_shared_options(ledger_show))
ledger_app.command("create", cls=QuickCommand)(with_shared_options(ledger_create))
app.add_typer(ledger_app, name="ledger")
register_study_output(study_app)
app.add_typer(study_app, name="study")


def main() -> None:
    """Run the command line; an error becomes one line on standard error and an exit code, with --json an object as well."""
    set_output_mode(OutputMode())
    _quieten_libraries()
    gc.set_threshold(*SELDOM)
    sys.setswitchinterval(TURN)
    as_json = "--json" in sys.argv[1:]
    try:
        code = app(standalone_mode=not as_json)
        sys.exit(code if isinstance(code, int) else 0)
    except GridveilError as error:
        _fail(str(error), error.exit_code, as_json)
    except OSError as error:
        problem = (
            f"{error.filename or 'a file'}: {error.strerror or 'cannot be used'}; check the path and its permissions"
        )
        _fail(problem, InputError.exit_code, as_json)
    except Exception as error:
        missing = told_of(error) if isinstance(error, ImportError) else None
        if missing:
            _fail(missing, InputError.exit_code, as_json)
        if as_json and hasattr(error, "format_message"):  # a wrong option or command, which typer would have printed
            _fail(error.format_message(), InputError.exit_code, as_json)
        _fail(_bug_words(error), BUG, as_json)


def _fail(problem: str, code: int, as_json: bool) -> NoReturn:
    """State a problem and end."""
    if as_json:
        show({"error": {"message": problem, "exit_code": code}}, True, "")
    warn(problem)
    sys.exit(code)


def _quieten_libraries() -> None:
    """Keep warnings of other packages off the screen; python -W shows them."""
    if not sys.warnoptions:
        warnings.simplefilter("ignore")


def _bug_words(error: Exception) -> str:
    """Describe a bug by type and location only: messages and variables may contain true demands."""
    places = [
        f"{Path(frame.filename).relative_to(PACKAGE.parent)}:{frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).is_relative_to(PACKAGE)
    ]
    if output_mode().verbose:
        for place in places:
            warn(f"passed through {place}")
    hint = "please report this line" if output_mode().verbose else "run again with --verbose to see where it occurred"
    return f"internal error ({type(error).__name__} at {places[-1]}); this is a bug: {hint}"
