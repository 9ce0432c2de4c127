"""Results of a benchmark as JSON and as tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gridveil.benchmark.command import CommandRow
from gridveil.benchmark.growth import GrowthRow
from gridveil.benchmark.opf import OpfRow
from gridveil.benchmark.releases import ReleaseRow


@dataclass(frozen=True, kw_only=True)
class ResultTable:
    """A table: title, headings, and cells as text."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> str:
        """Render as Markdown, with the first column aligned left and the others right."""
        lines = [self.headings, ["---", *["---:"] * (len(self.headings) - 1)], *self.rows]
        return f"### {self.title}\n\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines)


@dataclass(frozen=True, kw_only=True)
class BenchResults:
    """Results of one benchmark."""

    machine: Mapping[str, object]
    tolerances: Mapping[str, str]
    results: Sequence[OpfRow]
    releases: Sequence[ReleaseRow]
    commands: Sequence[CommandRow]
    growth: Sequence[GrowthRow]

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "machine": dict(self.machine),
            "tolerances": dict(self.tolerances),
            "results": [asdict(row) for row in self.results],
            "releases": [asdict(row) for row in self.releases],
            "commands": [asdict(row) for row in self.commands],
            "growth": [asdict(row) for row in self.growth],
        }

    def tables(self) -> list[ResultTable]:
        """Return the results as tables."""
        found = [opf_table(self.results)]
        if self.releases:
            found.append(release_table(self.releases))
        if self.commands:
            found.append(command_table(self.commands))
        if self.growth:
            found.append(growth_table(self.growth))
        return found

    def brief_tables(self) -> list[ResultTable]:
        """Return shorter tables for a terminal: one per case, with fewer columns, and the notes at the end."""
        cases = dict.fromkeys(row.case for row in self.results)
        found = [brief_opf_table([row for row in self.results if row.case == case]) for case in cases]
        if self.releases:
            found.append(brief_release_table(self.releases))
        if self.commands:
            found.append(command_table(self.commands))
        if self.growth:
            found.append(growth_table(self.growth))
        notes = [[row.case, row.solver, row.note] for row in self.results if row.note]
        notes += [[row.case, f"release, α = {row.alpha:g}", row.note] for row in self.releases if row.note]
        notes += [[row.case, f"command, {row.caches}", row.note] for row in self.commands if row.note]
        if notes:
            found.append(ResultTable(title="Notes", headings=("case", "solver", "note"), rows=notes))
        return found

    def write(self, folder: Path) -> list[Path]:
        """Write results.json and results.md into a folder that exists."""
        data, text = folder / "results.json", folder / "results.md"
        data.write_text(json.dumps(self.as_dict(), indent=1, allow_nan=False) + "\n")
        text.write_text("\n".join([*(table.markdown() for table in self.tables()), _machine_text(self)]))
        return [data, text]


def opf_table(rows: Sequence[OpfRow]) -> ResultTable:
    """O(d): one line per case and contestant, with the time relative to the structured solver's."""
    ours = {row.case: row.solve_seconds for row in rows if row.solver == "structured" and row.status == "converged"}
    headings = (
        "case",
        "buses",
        "solver",
        "status",
        "cost",
        "gap",
        "residual",
        "iter",
        "build",
        "solve",
        "×",
        "MB",
        "note",
    )
    return ResultTable(
        title="O(d): one cold AC optimal power flow",
        headings=headings,
        rows=[
            [
                row.case,
                str(row.buses),
                row.solver,
                row.status,
                _number(row.cost, ".2f"),
                _number(row.baseline_gap, "+.1e"),
                _number(row.residual, ".1e"),
                _number(row.iterations, "d"),
                seconds_text(row.build_seconds),
                seconds_text(row.solve_seconds),
                _ratio(row.solve_seconds, ours.get(row.case)),
                _number(row.peak_mb, ".0f"),
                row.note,
            ]
            for row in rows
        ],
    )


def brief_opf_table(rows: Sequence[OpfRow]) -> ResultTable:
    """O(d) of one case."""
    ours = next((row.solve_seconds for row in rows if row.solver == "structured" and row.status == "converged"), None)
    return ResultTable(
        title=f"{rows[0].case}, {rows[0].buses} buses",
        headings=("solver", "status", "cost", "residual", "build", "solve", "×", "MB"),
        rows=[
            [
                row.solver,
                row.status,
                _number(row.cost, ".6g"),
                _number(row.residual, ".0e"),
                seconds_text(row.build_seconds),
                seconds_text(row.solve_seconds),
                _ratio(row.solve_seconds, ours),
                _number(row.peak_mb, ".0f"),
            ]
            for row in rows
        ],
    )


def brief_release_table(rows: Sequence[ReleaseRow]) -> ResultTable:
    """Releases of all cases."""
    full = release_table(rows)
    columns = [
        full.headings.index(name) for name in ("case", "α", "seeds", "failed", "median", "worst", "Ipopt O(d)", "ratio")
    ]
    return ResultTable(
        title=full.title,
        headings=[full.headings[k] for k in columns],
        rows=[[row[k] for k in columns] for row in full.rows],
    )


def release_table(rows: Sequence[ReleaseRow]) -> ResultTable:
    """Releases: one line per case and α, relative to one O(d) by Ipopt."""
    headings = (
        "case",
        "buses",
        "α",
        "status",
        "seeds",
        "failed",
        "median",
        "worst",
        "O evaluations",
        "Ipopt O(d)",
        "ratio",
        "MB",
    )
    first = rows[0]
    return ResultTable(
        title=f"Releases: ε = {first.epsilon:g}, β = {first.beta:.0%}, by the structured solver",
        headings=(*headings, "note"),
        rows=[
            [
                row.case,
                str(row.buses),
                f"{row.alpha:g}",
                row.status,
                str(row.seeds),
                str(row.failures),
                seconds_text(row.median_seconds),
                seconds_text(row.worst_seconds),
                _number(row.optimisations, ".1f"),
                seconds_text(row.ipopt_seconds),
                _number(row.ratio, ".2f"),
                _number(row.peak_mb, ".0f"),
                row.note,
            ]
            for row in rows
        ],
    )


def command_table(rows: Sequence[CommandRow]) -> ResultTable:
    """The whole command: one line per case and state of the caches, relative to an empty process."""
    return ResultTable(
        title=f"gridveil release --seed {rows[0].seed}: until the folder is public, and to the end",
        headings=("case", "buses", "kernels", "status", "published", "end", "import", "×", "Ipopt O(d)", "MB"),
        rows=[
            [
                row.case,
                str(row.buses),
                row.caches,
                row.status,
                seconds_text(row.public_seconds),
                seconds_text(row.total_seconds),
                seconds_text(row.empty_seconds),
                _ratio(row.public_seconds, row.empty_seconds),
                seconds_text(row.ipopt_seconds),
                _number(row.peak_mb, ".0f"),
            ]
            for row in rows
        ],
    )


def growth_table(rows: Sequence[GrowthRow]) -> ResultTable:
    """Exponents: one line per solver and quantity."""
    return ResultTable(
        title="Growth: seconds ∝ buses^exponent",
        headings=("quantity", "solver", "α", "exponent", "at 1000 buses", "sizes", "from", "to"),
        rows=[
            [
                row.quantity,
                row.solver,
                _number(row.alpha, "g"),
                f"{row.exponent:.2f}",
                seconds_text(row.seconds_at_1000),
                str(row.points),
                str(row.smallest),
                str(row.largest),
            ]
            for row in rows
        ],
    )


def seconds_text(seconds: float | None) -> str:
    """Format a time to three digits: 1.23 ms, 0.456 s, 78.9 s."""
    if seconds is None:
        return "–"
    return f"{1000 * seconds:.3g} ms" if seconds < 0.1 else f"{seconds:.3g} s"


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def _ratio(seconds: float | None, ours: float | None) -> str:
    return f"{seconds / ours:.1f}" if seconds is not None and ours else "–"


def _machine_text(found: BenchResults) -> str:
    machine: Mapping[str, Any] = found.machine
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items() if number)
    tolerances = "".join(f"- {name}: {text}\n" for name, text in found.tolerances.items())
    return (
        f"Measured on {machine['processor']}, {machine['cores']} cores, {machine['system']}, Python {machine['python']}; "
        f"{versions}.\n\nTolerances:\n\n{tolerances}"
    )
