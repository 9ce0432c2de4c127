"""``study table``, ``study figure`` and ``study page``: results in a store compared with the paper's."""

from __future__ import annotations

import sys
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gridveil.cli.options import JsonOption, split_list, with_shared_options
from gridveil.cli.output import console, make_folder, note, output_mode, show
from gridveil.core.errors import InputError

if TYPE_CHECKING:
    from gridveil.study.evaluation import Evaluation
    from gridveil.study.tables import Table

StoresArgument = Annotated[
    list[Path],
    typer.Argument(help="Stores written by 'study run', such as one for power and one for gas.", metavar="STORE"),
]
FIGURE_FORMATS = ("png", "pdf", "svg")


class TableFormat(Enum):
    """Output format of a table."""

    TERMINAL = "terminal"
    CSV = "csv"
    MARKDOWN = "markdown"
    LATEX = "latex"


class FigureChoice(Enum):
    """Figures to draw."""

    CONVERGENCE = "convergence"
    MONOTONICITY = "monotonicity"
    ALL = "all"


def table(
    stores: StoresArgument,
    number: Annotated[str, typer.Option("--table", help="I, II, III, IV, V, VI or all.")] = "all",
    table_format: Annotated[TableFormat, typer.Option("--format", help="Output format.")] = TableFormat.TERMINAL,
    out: Annotated[Path | None, typer.Option(help="Output file instead of standard output.")] = None,
    method: Annotated[
        str | None,
        typer.Option(help="Method whose runs are shown. [default: bisection, the paper's, if the store has it]"),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print the paper's tables from a store, each cell with its standard error, the paper's number and a verdict.

    Example: gridveil study table small.sqlite --table V --format markdown
    """
    from gridveil.study.evaluation import read_evaluation
    from gridveil.study.tables import build_tables, count_violations
    from gridveil.study.tables_files import to_json
    from gridveil.study.tables_layout import LAYOUTS
    from gridveil.study.tables_terminal import print_tables

    evaluation = read_evaluation(stores)
    numbers = list(LAYOUTS) if number.lower() == "all" else [number.upper()]
    made = build_tables(evaluation.frame, numbers, method, not_in_paper=evaluation.not_in_paper)
    if not made:
        raise InputError(f"the store has no run for table {number}; {_numbers_there(evaluation)}")
    if as_json:
        violations = {
            name: {"runs": runs, "violate": bad} for name, (bad, runs) in count_violations(evaluation.frame).items()
        }
        show({"tables": [to_json(one) for one in made], "violations": violations}, True, "")
    if out is not None:
        _write(out, _as_text(made, table_format))
        note(f"wrote {out}")
    elif table_format is TableFormat.TERMINAL and console().is_terminal and not as_json and not output_mode().quiet:
        print_tables(made, console())
    elif not as_json and not output_mode().quiet:
        sys.stdout.write(_as_text(made, table_format))


def figure(
    stores: StoresArgument,
    network: Annotated[
        list[str] | None, typer.Option(help="Network to draw; repeatable. [default: the paper's, or the smallest]")
    ] = None,
    kind: Annotated[FigureChoice, typer.Option(help="Figures to draw.")] = FigureChoice.ALL,
    out: Annotated[Path, typer.Option(help="Output folder.")] = Path("figures"),
    formats: Annotated[
        str, typer.Option("--format", help="File formats, separated by commas: png, pdf, svg.")
    ] = "png,pdf,svg",
    as_json: JsonOption = False,
) -> None:
    """Plot convergence (cost and distance by iteration) and monotonicity (cost against distance).

    Example: gridveil study figure small.sqlite --network veil9 --kind monotonicity --out figures
    """
    from gridveil.report.study_figures import draw
    from gridveil.report.study_runs import FigureKind, figure_networks, file_name, network_runs
    from gridveil.report.style import save_figure
    from gridveil.study.evaluation import read_evaluation

    wanted = [one.lower() for one in split_list(formats)]
    if unknown := [one for one in wanted if one not in FIGURE_FORMATS]:
        raise InputError(f"there is no figure format {unknown[0]!r}; choose from {', '.join(FIGURE_FORMATS)}")
    frame = read_evaluation(stores).frame
    kinds = list(FigureKind) if kind is FigureChoice.ALL else [FigureKind(kind.value)]
    runs = [(one, network_runs(frame, name, one)) for one in kinds for name in network or figure_networks(frame, one)]
    if not runs:
        raise InputError("no run in the store reached a cost, so there is nothing to draw")
    make_folder(out)
    files = [
        str(path) for one, found in runs for path in save_figure(draw(one, found), out / file_name(one, found), wanted)
    ]
    show({"files": files}, as_json, "figures")


def page(
    stores: StoresArgument,
    out: Annotated[Path, typer.Option(help="Output HTML file.")] = Path("study.html"),
    as_json: JsonOption = False,
) -> None:
    """Write a self-contained page with tables, figures, failures and settings; it opens offline in any browser.

    Example: gridveil study page small.sqlite --out study.html
    """
    from gridveil.report.study_page import study_page
    from gridveil.study.evaluation import read_evaluation
    from gridveil.study.store import NOTE

    evaluation = read_evaluation(stores)
    html = study_page(evaluation)
    _write(out, html)
    facts = {
        "file": str(out),
        "bytes": len(html.encode()),
        "tasks": len(evaluation.frame),
        "verified": int(evaluation.frame["verified"].sum()),
        "note": NOTE,
    }
    show(facts, as_json, str(out))


def register(study_app: typer.Typer) -> None:
    """Add the commands to ``gridveil study``."""
    for command in (table, figure, page):
        study_app.command()(with_shared_options(command))


def _as_text(tables: list[Table], table_format: TableFormat) -> str:
    from gridveil.study.tables_files import to_csv, to_markdown
    from gridveil.study.tables_latex import to_latex
    from gridveil.study.tables_terminal import to_terminal

    writers = {
        TableFormat.TERMINAL: to_terminal,
        TableFormat.CSV: to_csv,
        TableFormat.MARKDOWN: to_markdown,
        TableFormat.LATEX: to_latex,
    }
    return writers[table_format](tables)


def _numbers_there(evaluation: Evaluation) -> str:
    kinds = sorted(set(evaluation.frame["kind"]))
    return f"it has {' and '.join(kinds)} networks (I, III, V are power, II, IV, VI gas)"


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror}); name another file with --out") from None
