"""The page of a study: tables, figures, failures and the settings that made them, in one file."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from markupsafe import Markup

from gridveil.bilevel.monotonicity import VIOLATION_TOLERANCE
from gridveil.core.deadline import LEAST_SECONDS, SECONDS_PER_NODE
from gridveil.core.text import MINUS, THIN_SPACE, number
from gridveil.report.page import render
from gridveil.report.study_figures import distance_figure, draw
from gridveil.report.study_runs import FigureKind, figure_networks, network_runs
from gridveil.report.style import figure_svg
from gridveil.study.evaluation import Evaluation
from gridveil.study.paper_numbers import SOURCE
from gridveil.study.store import StoreSummary
from gridveil.study.tables import Cell, Table, available_methods, build_tables, count_violations
from gridveil.study.tables_compare import Verdict
from gridveil.study.tables_text import (
    error_text,
    failure_text,
    mean_text,
    note_lines,
    paper_text,
    verdict_text,
)

DISTANCE_TABLES, TIME_TABLES = ("V", "VI"), ("I", "II")
MOST_SEEDS = 12  # listed by number among failures
CAPTIONS = {
    FigureKind.CONVERGENCE: "{}: optimal cost and distance over the iterations of a typical run.",
    FigureKind.MONOTONICITY: "{}: optimal cost against distance to the noisy demands.",
}


@dataclass(frozen=True, kw_only=True)
class CellView:
    """A cell as it is shown."""

    value: float | None
    mean: str
    error: str
    paper: str
    verdict: str
    verdict_class: str
    failure: str
    bold: bool
    hint: str


@dataclass(frozen=True, kw_only=True)
class TableView:
    """A table as it is shown: ``groups`` are (title, columns), ``starts`` their first columns, ``rows`` are (network, cells)."""

    tab: str
    title: str
    groups: list[tuple[str, int]]
    starts: list[int]
    settings: list[str]
    rows: list[tuple[str, list[CellView | None]]]
    notes: list[str]


@dataclass(frozen=True, kw_only=True)
class FigureView:
    """A figure and what it shows."""

    svg: Markup
    caption: str


def study_page(evaluation: Evaluation, title: str = "") -> str:
    """Render the page as HTML."""
    frame = evaluation.frame
    methods = available_methods(frame)
    tables = {method: build_tables(frame, method=method, not_in_paper=evaluation.not_in_paper) for method in methods}
    first = tables[methods[0]]
    names = [str(summary.settings["name"]) for summary in evaluation.summaries]
    return render(
        "study.html",
        title=title or f"Study {' and '.join(names)}",
        source=SOURCE,
        facts=_facts(evaluation),
        effort=_effort(first),
        verdicts=["agree", "better", "differ", "not judged", "have failed runs"],
        summary_rows=[_summary_row(table) for many in tables.values() for table in many],
        tables=[_table_view(table, table.method != methods[0]) for many in tables.values() for table in many],
        distances=[
            FigureView(
                svg=figure_svg(distance_figure(table), table.title), caption=f"{table.title}. Hollow: the paper."
            )
            for table in first
            if table.layout.number in DISTANCE_TABLES
        ],
        convergence=_figures(evaluation, FigureKind.CONVERGENCE),
        monotonicity=_figures(evaluation, FigureKind.MONOTONICITY),
        monotone_rows=_monotone_rows(evaluation),
        failure_rows=_failure_rows(evaluation),
        stores=[_store(summary) for summary in evaluation.summaries],
        versions=_versions(evaluation),
    )


def _facts(evaluation: Evaluation) -> list[tuple[str, str]]:
    frame, summaries = evaluation.frame, evaluation.summaries
    planned = sum(summary.tasks for summary in summaries)
    verified = int(frame["verified"].sum())
    violations = count_violations(frame)
    return [
        ("Tasks done", f"{len(frame)} of {planned}"),
        ("Verified releases", f"{verified}"),
        ("Tasks without a release", f"{len(frame) - verified}"),
        ("Violations of β, bilevel", "{} of {} runs".format(*violations["bilevel"])),
        ("Violations of β, high point alone", "{} of {} runs".format(*violations["highpoint"])),
        ("Networks", f"{frame['network'].nunique()}"),
        ("Wall time", duration(sum(summary.seconds for summary in summaries))),
        ("Cores", ", ".join(sorted({str(session.cores) for summary in summaries for session in summary.sessions}))),
    ]


def _effort(tables: Sequence[Table]) -> str:
    """Compare the time of all runs of Tables I and II with what the paper's means amount to; empty without such runs."""
    cells = [
        (cell.mean * cell.n, cell.published.value * cell.n)
        for table in tables
        if table.layout.number in TIME_TABLES
        for _, column, cell in table.filled
        if column.quantity.name == "seconds" and cell.published and cell.n
    ]
    if not cells:
        return ""
    ours, papers = (sum(column) for column in zip(*cells, strict=True))
    return (
        f"The releases of Tables I and II that have a number in the paper took {duration(ours)} of computing here; at the "
        f"paper's mean times they would take {duration(papers)}. Machines and solvers differ."
    )


def _summary_row(table: Table) -> list[object]:
    counts = table.verdicts
    failed = sum(cell.failures > 0 for _, _, cell in table.filled)
    judged = [counts[verdict] for verdict in (Verdict.AGREES, Verdict.BETTER, Verdict.DIFFERS)]
    title = f"{table.layout.number}: {table.layout.subject}"
    return [title, table.layout.kind, table.method, *judged, counts.total() - sum(judged), failed]


def _table_view(table: Table, name_method: bool) -> TableView:
    blocks = [(title, len(list(block))) for title, block in groupby(c.quantity.title for c in table.columns)]
    return TableView(
        tab=f"Table {table.layout.number}" + (f", {table.method}" if name_method else ""),
        title=table.title,
        groups=blocks,
        starts=[sum(columns for _, columns in blocks[:k]) for k in range(len(blocks))],
        settings=[column.setting for column in table.columns],
        rows=[
            (row, [None if cell is None else _cell_view(cell) for cell in cells])
            for row, cells in zip(table.rows, table.cells, strict=True)
        ],
        notes=note_lines(table),
    )


def _cell_view(cell: Cell) -> CellView:
    hint = f"{cell.n} of {cell.runs} runs averaged"
    if math.isfinite(cell.standard_errors):
        hint += f"; {cell.standard_errors:+.1f} standard errors from the paper"
    if cell.violations is not None:
        hint += f"; {cell.violations} runs violate β"
    return CellView(
        value=cell.mean if math.isfinite(cell.mean) else None,
        mean=mean_text(cell).replace("-", MINUS),
        error=error_text(cell),
        paper=paper_text(cell).replace("-", MINUS),
        verdict=verdict_text(cell).replace("-", MINUS),
        verdict_class=cell.verdict.name.lower(),
        failure=failure_text(cell),
        bold=cell.violates,
        hint=hint.replace("-", MINUS),
    )


def _figures(evaluation: Evaluation, kind: FigureKind) -> list[FigureView]:
    views = []
    for network in figure_networks(evaluation.frame, kind):
        caption = CAPTIONS[kind].format(network)
        views.append(
            FigureView(
                svg=figure_svg(draw(kind, network_runs(evaluation.frame, network, kind)), caption), caption=caption
            )
        )
    return views


def _monotone_rows(evaluation: Evaluation) -> list[list[object]]:
    rows: list[list[object]] = []
    frame = evaluation.frame[evaluation.frame["optimisations"] > 1]
    for (network, method), runs in frame.groupby(["network", "method"], sort=False):
        worst = 100 * float(runs["worst_violation"].max())
        shares = (len(runs), int(runs["monotone"].sum()))
        rows.append(
            [
                network,
                method,
                *shares,
                float(runs["rank_correlation"].median()),
                (worst, f"{number(worst, 2)} %" if worst > 100 * VIOLATION_TOLERANCE else "none"),
            ]
        )
    return rows


def _failure_rows(evaluation: Evaluation) -> list[list[object]]:
    frame = evaluation.frame[~evaluation.frame["verified"]]
    rows: list[list[object]] = []
    for key, runs in frame.groupby(["network", "alpha", "beta", "method", "reason"]):
        network, alpha, _, method, reason = key
        beta = float(runs["beta"].iloc[0])
        seeds = sorted(runs["seed"])
        listed = ", ".join(map(str, seeds[:MOST_SEEDS])) + (", …" if len(seeds) > MOST_SEEDS else "")
        rows.append([network, alpha, (beta, f"{100 * beta:g} %"), method, len(seeds), reason, listed])
    return rows


def _store(summary: StoreSummary) -> dict[str, object]:
    settings = summary.settings
    seeds = settings["seeds"]
    return {
        "name": settings["name"],
        "about": settings["about"],
        "facts": [
            ("ε", f"{settings['epsilon']:g}"),
            ("Grid (α, β)", ", ".join(f"({alpha:g}, {100 * beta:g}{THIN_SPACE}%)" for alpha, beta in settings["cells"])),
            ("Methods", ", ".join(settings["methods"])),
            ("Seeds", f"{len(seeds)}, from {min(seeds)} to {max(seeds)}"),
            ("Noise", f"{settings['mechanism']}, on {settings['sites']} sites"),
            ("Solver", settings["solver"]),
            ("Longest release allowed", _limit(settings["limits"]["task_seconds"])),
            ("Tasks done", f"{summary.done} of {summary.tasks}"),
            ("Verified", str(summary.verified)),
            ("Wall time", duration(summary.seconds)),
        ],
        "networks": [
            [label, facts["case"] or "file", facts["preset"] or "–", facts["checksum"][:16] or "–"]
            for label, facts in settings["networks"].items()
        ],
        "sessions": [
            [session.start, (session.seconds, duration(session.seconds)), session.tasks, session.workers, session.engine,
             session.cores]
            for session in summary.sessions
        ],
    }  # fmt: skip


def _limit(seconds: float | None) -> str:
    if seconds is None:
        return f"{LEAST_SECONDS:g} s, and {SECONDS_PER_NODE:g} s for each bus or junction"
    return duration(seconds)


def _versions(evaluation: Evaluation) -> list[str]:
    """Describe each set of software versions that computed rows."""
    found = [json.loads(text) for text in sorted(set(evaluation.frame["versions"]))]
    return [", ".join(f"{name} {version}" for name, version in one.items()) for one in found]


def duration(seconds: float) -> str:
    """Format a time: 3.2 s, 12 min, 4 h 05 min."""
    if seconds < 100:
        return f"{number(seconds, 2)} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02d} min"
