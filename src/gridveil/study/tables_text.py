"""Text of cells, summaries and notes, shared by all table formats."""

from __future__ import annotations

import math

from gridveil.study.paper_numbers import RUNS
from gridveil.study.tables import Cell, Table
from gridveil.study.tables_compare import AGREEMENT, Verdict

PLAIN_DECIMALS = 2  # of a mean that has no spread and no printed number beside it
MOST_DECIMALS = 4
VERDICT_WORDS = {
    Verdict.AGREES: "agree",
    Verdict.BETTER: "better",
    Verdict.DIFFERS: "differ",
    Verdict.TOO_FEW: "with too few runs",
    Verdict.NO_NUMBER: "not in the paper",
}


def mean_text(cell: Cell) -> str:
    """Write our mean, to two digits of its standard error."""
    return _fixed(cell.mean, _decimals(cell))


def error_text(cell: Cell) -> str:
    """Write the standard error, to two digits; a dash where one run has none."""
    return _fixed(cell.standard_error, _decimals(cell))


def paper_text(cell: Cell) -> str:
    """Write the paper's number as printed there; empty where it has none."""
    return cell.published.text if cell.published else ""


def verdict_text(cell: Cell) -> str:
    """Write the verdict in words; empty where there is nothing to compare with."""
    if cell.verdict is Verdict.DIFFERS:
        return f"differs by {cell.standard_errors:+.1f} s.e."
    return "" if cell.verdict is Verdict.NO_NUMBER else str(cell.verdict.value)


def failure_text(cell: Cell) -> str:
    """Say how many runs failed; empty if none did."""
    return f"{cell.failures} of {cell.runs} failed" if cell.failures else ""


def summary_line(table: Table) -> str:
    """Count the verdicts of a table in one line."""
    counts, runs = table.verdicts, [cell.runs for _, _, cell in table.filled]
    parts = [f"{counts[verdict]} {words}" for verdict, words in VERDICT_WORDS.items() if counts[verdict]]
    failed = sum(cell.failures > 0 for _, _, cell in table.filled)
    each = f"{max(runs)}" if min(runs) == max(runs) else f"{min(runs)} to {max(runs)}"
    return (
        f"of {counts.total()} cells ({each} runs each) {', '.join(parts)}"
        + (f"; {failed} with failed runs" if failed else "")
    )  # fmt: skip


def violation_line(table: Table) -> str:
    """Count, over all runs of a table of costs, those outside the band; empty for other tables."""
    cells = [(column.quantity, cell) for _, column, cell in table.filled if cell.violations is not None]
    if not cells:
        return ""
    totals = {
        quantity.title.lower(): (
            sum(cell.violations or 0 for other, cell in cells if other is quantity),
            sum(cell.n for other, cell in cells if other is quantity),
        )
        for quantity in table.layout.quantities
    }
    return "Runs that violate β: " + ", ".join(f"{name} {bad} of {n}" for name, (bad, n) in totals.items())


def note_lines(table: Table) -> list[str]:
    """Say what a reader needs below a table: the rule of the verdicts, counts, and what is missing."""
    lines = [f"O{summary_line(table)[1:]}.", _rule(table)]
    if violation := violation_line(table):
        lines += [violation + ". Bold: the mean violates β."]
    if table.missing_networks:
        lines += [f"Networks of the paper without a run here: {', '.join(table.missing_networks)}."]
    return lines


def _rule(table: Table) -> str:
    """Say what the numbers are, and when they agree."""
    if not any(cell.published for _, _, cell in table.filled):
        return "Mean ± standard error. The paper has none of these networks and settings."
    smaller = "smaller violations of β" if violation_line(table) else "smaller numbers"
    return (
        f"Mean ± standard error, then the paper's mean of {RUNS} runs. Agrees: within {AGREEMENT:g} standard errors of both "
        "samples and the paper's rounding; its spread, which it does not print, is taken to be ours. Better: beyond that, "
        f"and {smaller}, even if every failed run had been as bad as the worst."
    )


def _decimals(cell: Cell) -> int:
    error = cell.standard_error
    if math.isfinite(error) and error > 0:
        return min(MOST_DECIMALS, max(0, 1 - math.floor(math.log10(error))))
    return cell.published.decimals if cell.published else PLAIN_DECIMALS


def _fixed(value: float, decimals: int) -> str:
    if not math.isfinite(value):
        return "–"
    return f"{round(value, decimals) + 0.0:.{decimals}f}"
