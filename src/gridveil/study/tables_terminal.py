"""Tables on a terminal: per network, our line and below it the paper's, with coloured verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from gridveil.study.tables import Cell, Table
from gridveil.study.tables_compare import Verdict
from gridveil.study.tables_text import error_text, failure_text, mean_text, note_lines, paper_text, verdict_text

STYLES = {Verdict.AGREES: "green", Verdict.BETTER: "bold blue", Verdict.DIFFERS: "bold yellow"}
FILE_WIDTH = 120  # characters, where no terminal says otherwise


def to_terminal(tables: Sequence[Table]) -> str:
    """Render tables as plain text for a file or a pipe."""
    console = Console(width=FILE_WIDTH, no_color=True, force_terminal=False)
    with console.capture() as captured:
        print_tables(tables, console)
    return captured.get()


def print_tables(tables: Sequence[Table], console: Console) -> None:
    """Print tables, each block of columns (bilevel, high point, …) below the one before."""
    for table in tables:
        console.print(Text(table.title, style="bold"))
        for _, block in groupby(enumerate(table.columns), key=lambda item: item[1].quantity.title):
            console.print(_block(table, [place for place, _ in block]))
        for line in note_lines(table):
            console.print(Text(line.replace("Bold:", "Bold and starred:")))
        console.print()


def _block(table: Table, places: list[int]) -> RichTable:
    drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
    drawn.add_column(Text(table.columns[places[0]].quantity.title), no_wrap=True)
    for place in places:
        drawn.add_column(Text(table.columns[place].setting), justify="right")
    for row, cells in zip(table.rows, table.cells, strict=True):
        drawn.add_row(Text(row), *(_cell(cells[place]) for place in places))
    return drawn


def _cell(cell: Cell | None) -> Text:
    if cell is None:
        return Text("–")
    mean = Text(f"{mean_text(cell)}*", style="bold") if cell.violates else Text(mean_text(cell))
    lines = [Text.assemble(mean, f" ± {error_text(cell)}")]
    if cell.published:
        verdict = (verdict_text(cell), STYLES.get(cell.verdict, "dim"))
        lines.append(Text.assemble((f"{paper_text(cell)} ", "dim"), verdict))
    if cell.failures:
        lines.append(Text(failure_text(cell), style="red"))
    return Text("\n").join(lines)
