"""What commands print: one JSON object, or a table for people; everything else goes to standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping

from rich.console import Console
from rich.table import Table

from gridveil.bilevel.method import Solver

output = Console()


def announce_compilation(solver: Solver) -> None:
    """The first use ever compiles for about a minute: nobody should wait for that without a word."""
    from gridveil.structured.warm_up import compiled_before

    if solver is Solver.STRUCTURED and not compiled_before():
        sys.stderr.write(
            "gridveil: compiling the structured solver, once, for about a minute (--solver ipopt avoids it)\n"
        )


def show(report: Mapping[str, object], as_json: bool, title: str) -> None:
    """Print a report: as one JSON object, or as a table of its fields."""
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
