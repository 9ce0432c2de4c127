"""Tables as CSV (one line per cell), JSON and Markdown."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence

from gridveil.study.tables import Cell, Column, Table
from gridveil.study.tables_text import (
    error_text,
    failure_text,
    mean_text,
    note_lines,
    paper_text,
    summary_line,
    verdict_text,
    violation_line,
)


def to_csv(tables: Sequence[Table]) -> str:
    """Render one line per cell, at full precision."""
    rows = [_plain_cell(table, *place) for table in tables for place in table.filled]
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def to_json(table: Table) -> dict[str, object]:
    """Convert a table to a JSON object."""
    return {
        "table": table.layout.number,
        "title": table.title,
        "summary": summary_line(table),
        "violations": violation_line(table) or None,
        "missing_networks": list(table.missing_networks),
        "cells": [_plain_cell(table, *place) for place in table.filled],
    }


def to_markdown(tables: Sequence[Table]) -> str:
    """Render tables as Markdown."""
    return "\n\n".join(_markdown(table) for table in tables) + "\n"


def _plain_cell(table: Table, row: str, column: Column, cell: Cell) -> dict[str, object]:
    return {
        "table": table.layout.number,
        "kind": table.layout.kind,
        "method": table.method,
        "network": row,
        "quantity": column.quantity.name,
        "of": column.quantity.method,
        "setting": column.setting,
        "fixed": table.fixed,
        "mean": _finite(cell.mean),
        "standard_error": _finite(cell.standard_error),
        "n": cell.n,
        "runs": cell.runs,
        "failures": cell.failures,
        "violations": cell.violations,
        "violates": cell.violates,
        "paper": cell.published.value if cell.published else None,
        "difference_in_standard_errors": _finite(cell.standard_errors),
        "verdict": cell.verdict.value,
    }


def _markdown(table: Table) -> str:
    heads = [f"{column.quantity.title}, {column.setting}" for column in table.columns]
    lines = [f"### {table.title}", "", _bar(["network", *heads]), _bar(["---", *["---:"] * len(heads)])]
    for row, cells in zip(table.rows, table.cells, strict=True):
        lines += [_bar([_markdown_escape(row), *map(_markdown_cell, cells)])]
    return "\n".join([*lines, "", *(f"- {_markdown_escape(line)}" for line in note_lines(table))])


def _markdown_cell(cell: Cell | None) -> str:
    if cell is None:
        return "–"
    mean = f"**{mean_text(cell)}**" if cell.violates else mean_text(cell)
    paper = f"paper {paper_text(cell)}" if cell.published else ""
    parts = [f"{mean} ± {error_text(cell)}", paper, verdict_text(cell), failure_text(cell)]
    return "<br>".join(part for part in parts if part)


def _markdown_escape(text: str) -> str:
    for character in "\\`*_|<>[]":
        text = text.replace(character, f"\\{character}")
    return text


def _bar(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
