"""What commands print: one JSON object, or a table for people; everything else goes to standard error."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gridveil.core.methods import Solver

COLOURS = None if os.environ.get("NO_COLOR") else "auto"

output = Console(color_system=COLOURS)  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class Manner:
    """How a command speaks: ``quiet`` errors alone, ``verbose`` its steps as well, ``as_json`` one JSON object alone."""

    quiet: bool = False
    verbose: bool = False
    as_json: bool = False

    @property
    def silent(self) -> bool:
        """Whether standard error is for errors alone."""
        return self.quiet or self.as_json


_manner: ContextVar[Manner] = ContextVar("manner", default=Manner())  # noqa: B039 (frozen)


def speak(chosen: Manner) -> None:
    """Set how the command that runs now speaks."""
    _manner.set(chosen)


def manner() -> Manner:
    """Give how the command that runs now speaks."""
    return _manner.get()


def complain(message: str) -> None:
    """Print an error on standard error, whatever the manner."""
    sys.stderr.write(f"gridveil: {message}\n")


def note(message: str) -> None:
    """Print a word to people on standard error."""
    if not manner().silent:
        sys.stderr.write(f"gridveil: {message}\n")


def step(message: str) -> None:
    """Say on standard error what is done next, with --verbose. No message may hold a demand or anything computed from one."""
    if manner().verbose and not manner().silent:
        sys.stderr.write(f"gridveil: {message}\n")


def announce_compilation(solver: Solver) -> None:
    """The first use ever compiles for about a minute: nobody should wait for that without a word."""
    from gridveil.solvers.structured.warm_up import compiled_before

    if solver is Solver.STRUCTURED and not compiled_before():
        note("compiling the structured solver, once, for about a minute (--solver ipopt avoids it)")


def show(report: Mapping[str, object], as_json: bool, title: str) -> None:
    """Print a report: as one JSON object, or as a table of its fields."""
    if as_json:
        sys.stdout.write(json.dumps(report, allow_nan=False) + "\n")
        return
    table = Table(title=Text(title, "bold"), show_header=False, title_justify="left", title_style="", box=None)
    table.add_column(style="cyan")
    table.add_column()
    for key, value in report.items():
        table.add_row(key.replace("_", " "), Text(_plain(value)))
    print_for_people(table)


def show_rows(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str) -> None:
    """Print a table with a header, numbers to the right."""
    table = Table(title=Text(title, "bold"), title_justify="left", title_style="", box=None, padding=(0, 1, 0, 0))
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*map(Text, row))
    print_for_people(table)


def print_for_people(renderable: Table | str) -> None:
    """Print on standard output, unless only errors are wanted."""
    if not manner().quiet:
        output.print(renderable)


def _plain(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Mapping):
        return "\n".join(f"{key.replace('_', ' ')}: {_plain(item)}" for key, item in value.items())
    if isinstance(value, list):
        return "\n".join(_plain(item) for item in value) or "none"
    return str(value)
