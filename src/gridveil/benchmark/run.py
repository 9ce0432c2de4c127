"""A complete benchmark: every contestant on every case, releases, and growth with size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gridveil.benchmark.command import CommandRow, command_rows
from gridveil.benchmark.growth import growth_rows
from gridveil.benchmark.machine import machine_facts
from gridveil.benchmark.opf import OpfRow, judged, opf_row
from gridveil.benchmark.process import measure_apart
from gridveil.benchmark.public_case import BenchCase, public_case
from gridveil.benchmark.registry import ALL, FOLLOWER, check_names
from gridveil.benchmark.releases import ReleaseRow, release_rows
from gridveil.benchmark.results import BenchResults, seconds_text
from gridveil.core.errors import InputError
from gridveil.sectors.builtin import SHIPPED, pglib_folder

Tell = Callable[[str], None]

IPOPT = "ipopt"
SMALL_CASES = ("case14_ieee", "case118_ieee", "case300_ieee")


@dataclass(frozen=True, kw_only=True)
class BenchSettings:
    """What to measure. ``limit`` is in seconds, for each contestant on each case and for the releases of each case."""

    cases: Sequence[str]
    solvers: Sequence[str]
    repeats: int
    limit: float
    releases: bool
    seeds: int
    growth: bool
    command: bool = False
    cold: bool = False

    def __post_init__(self) -> None:
        """Check the settings."""
        check_names(self.solvers)
        if self.repeats < 1 or self.seeds < 1:
            raise InputError("repeats and seeds must be at least 1")
        if not self.limit > 0:
            raise InputError("the limit must be a positive number of seconds")

    @property
    def compiled_code(self) -> bool:
        """Whether anything to be measured needs the structured solver."""
        return self.releases or self.command or not {"structured", FOLLOWER}.isdisjoint(self.solvers)


def default_cases() -> list[str]:
    """Small PGLib cases, or the shipped ones if PGLib is not installed."""
    return list(SMALL_CASES if pglib_folder() else SHIPPED)


def run_bench(settings: BenchSettings, tell: Tell) -> BenchResults:
    """Run all measurements in sequence."""
    cases = [public_case(source) for source in settings.cases]
    if settings.compiled_code:
        measure_apart({"task": "warm up"}, None)
    results: list[OpfRow] = []
    releases: list[ReleaseRow] = []
    commands: list[CommandRow] = []
    for case in cases:
        measured = _measure_case(case, settings, tell)
        results += measured
        if settings.releases:
            found = release_rows(case, settings.seeds, settings.repeats, settings.limit)
            releases += found
            for row in found:
                tell(
                    f"{row.case}, releases at alpha {row.alpha:g}: {row.status}, median {seconds_text(row.median_seconds)}"
                )
        if settings.command:
            # Compiling is the same for all cases, so one of them is measured without compiled kernels.
            runs = _measure_command(case, settings, measured, cold=settings.cold and case is cases[0])
            commands += runs
            for run in runs:
                tell(
                    f"{run.case}, whole command, {run.caches}: {run.status}, published {seconds_text(run.public_seconds)}, "
                    f"end {seconds_text(run.total_seconds)}, import alone {seconds_text(run.empty_seconds)}"
                )
    return BenchResults(
        machine=machine_facts(),
        tolerances={name: ALL[name].tolerances for name in settings.solvers},
        results=results,
        releases=releases,
        commands=commands,
        growth=growth_rows(results, releases, commands) if settings.growth else [],
    )


def _measure_command(
    case: BenchCase, settings: BenchSettings, measured: Sequence[OpfRow], *, cold: bool
) -> list[CommandRow]:
    ipopt = next((row.solve_seconds for row in measured if row.solver == IPOPT), None)
    return command_rows(case, repeats=settings.repeats, limit=settings.limit, cold=cold, ipopt_seconds=ipopt)


def _measure_case(case: BenchCase, settings: BenchSettings, tell: Tell) -> list[OpfRow]:
    rows = []
    for solver in settings.solvers:
        row = opf_row(case, solver, settings.repeats, settings.limit)
        tell(f"{case.name}, {solver}: {row.status}, {seconds_text(row.solve_seconds)}")
        rows.append(row)
    return judged(rows, case.published)
