"""Output of commands: results on standard output as JSON or tables, everything else on standard error."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from gridveil.core.errors import InputError
from gridveil.core.methods import Solver

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

COLOURS = None if os.environ.get("NO_COLOR") else "auto"

INTERRUPTED = 130  # the exit code of a program ended by Ctrl-C
SCHEMA = "gridveil/1"  # of every JSON object: grows when a field changes its meaning or goes
PATIENCE = 2.0  # seconds before anything is said about progress

STARTED = time.perf_counter()  # of the command, but for the interpreter's own start


@cache
def console() -> Console:
    """Standard output; a library of some size, which commands with --json do not need."""
    from rich.console import Console

    return Console(color_system=COLOURS)  # type: ignore[arg-type]


def seconds_since_start() -> float:
    """The user's clock: how long the command has run."""
    return time.perf_counter() - STARTED


@dataclass(frozen=True, kw_only=True)
class OutputMode:
    """What a command prints: ``quiet`` only errors, ``verbose`` its steps as well, ``as_json`` a single JSON object."""

    quiet: bool = False
    verbose: bool = False
    as_json: bool = False

    @property
    def silent(self) -> bool:
        """Whether standard error is for errors alone."""
        return self.quiet or self.as_json


_output_mode: ContextVar[OutputMode] = ContextVar("output_mode", default=OutputMode())  # noqa: B039 (frozen)


def set_output_mode(chosen: OutputMode) -> None:
    """Set the output mode of the current command."""
    _output_mode.set(chosen)


def output_mode() -> OutputMode:
    """Return the output mode of the current command."""
    return _output_mode.get()


def warn(message: str) -> None:
    """Print an error or warning on standard error, in every output mode."""
    sys.stderr.write(f"gridveil: {message}\n")


def note(message: str) -> None:
    """Print a message on standard error, unless the command is silent."""
    if not output_mode().silent:
        sys.stderr.write(f"gridveil: {message}\n")


def step(message: str) -> None:
    """Report a step on standard error, with --verbose. No message may contain a demand or anything computed from one."""
    if output_mode().verbose and not output_mode().silent:
        sys.stderr.write(f"gridveil: {message}\n")


def stage(message: str) -> None:
    """Report a stage with the time so far, once a command takes long or with --verbose. No message may contain a demand."""
    if output_mode().verbose or seconds_since_start() > PATIENCE:
        note(f"{message} ({seconds_since_start():.1f} s)")


def announce_compilation(solver: str) -> None:
    """Announce the compilation at the very first use, which takes about a minute."""
    from gridveil.programs.compilation import compiled_before

    if solver == Solver.STRUCTURED and not compiled_before():
        note("compiling the structured solver, once, for about a minute")


def show(report: Mapping[str, object], as_json: bool, title: str) -> None:
    """Print a report: as one JSON object, or as a table of its fields."""
    if as_json:
        sys.stdout.write(json.dumps({"schema": SCHEMA, **report}, allow_nan=False) + "\n")
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(title, "bold"), show_header=False, title_justify="left", title_style="", box=None)
    table.add_column(style="cyan")
    table.add_column()
    for key, value in report.items():
        table.add_row(key.replace("_", " "), Text(_plain(value)))
    print_result(table)


def show_rows(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str) -> None:
    """Print a table with a header, right-aligned."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(title, "bold"), title_justify="left", title_style="", box=None, padding=(0, 1, 0, 0))
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*map(Text, row))
    print_result(table)


def print_result(renderable: Table | str) -> None:
    """Print on standard output, unless the command is quiet."""
    if not output_mode().quiet:
        console().print(renderable)


def print_line(line: str) -> None:
    """Print one line of text on standard output as it is, unless the command is quiet."""
    if not output_mode().quiet:
        sys.stdout.write(f"{line}\n")


def make_folder(folder: Path) -> None:
    """Create the folder of an ``--out`` option."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be created ({error.strerror}); name another folder with --out") from None


def _plain(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Mapping):
        return "\n".join(f"{key.replace('_', ' ')}: {_plain(item)}" for key, item in value.items())
    if isinstance(value, list):
        return "\n".join(_plain(item) for item in value) or "none"
    return str(value)
