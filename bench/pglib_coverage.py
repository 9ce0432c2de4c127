"""How many PGLib cases the structured solver solves alone, cold and without Ipopt behind it, at the published optimum.

    python bench/pglib_coverage.py [--families typical,api,sad] [--most-buses 14000] [--workers 2] [--fallback] [--rows FILE]

One row per case is appended to FILE as soon as it is known; a run that was stopped goes on where it was. With --fallback, cases
that the structured solver fails on are solved by the whole follower too. The exit code is 1 if any answer is wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path

from gridveil.benchmark.baseline import pglib_baseline
from gridveil.benchmark.opf import CONVERGED, COST_TOLERANCE, ELSEWHERE, INACCURATE, OpfRow, judged, opf_row
from gridveil.benchmark.process import measure_apart
from gridveil.benchmark.public_case import BenchCase
from gridveil.benchmark.registry import FOLLOWER
from gridveil.sectors.builtin import pglib_names

ALONE = "structured"
FAMILIES = ("typical", "api", "sad")
WRONG = {ELSEWHERE, INACCURATE}


def family(name: str) -> str:
    """Say which of PGLib's families a case belongs to."""
    return name.partition("__")[2] or "typical"


def wanted(families: list[str], most_buses: int) -> list[BenchCase]:
    """List the cases of some families up to a size, smallest first."""
    installed = set(pglib_names())
    found = [
        BenchCase(source=name, name=name, buses=published.buses, published=published.cost)
        for name, published in pglib_baseline().items()
        if name in installed and family(name) in families and published.buses <= most_buses
    ]
    return sorted(found, key=lambda case: case.buses)


def known_rows(path: Path) -> dict[tuple[str, str], OpfRow]:
    """Read the rows of earlier runs; the last one of a case and solver counts."""
    lines = path.read_text().splitlines() if path.exists() else []
    rows = [OpfRow(**json.loads(line)) for line in lines if line.endswith("}")]
    return {(row.case, row.solver): row for row in rows}


def solve_missing(
    cases: list[BenchCase], solver: str, known: dict[tuple[str, str], OpfRow], workers: int, limit: float
) -> Iterator[OpfRow]:
    """Solve what is not known yet, several cases at a time."""
    missing = [case for case in cases if (case.name, solver) not in known]

    def solve(case: BenchCase) -> OpfRow:
        return judged([opf_row(case, solver, 1, limit)], case.published)[0]

    pool = ThreadPoolExecutor(workers)
    try:
        for solved in as_completed([pool.submit(solve, case) for case in missing]):
            yield solved.result()
    finally:
        pool.shutdown(cancel_futures=True)


def counts(cases: list[BenchCase], known: dict[tuple[str, str], OpfRow], fallback: bool) -> None:
    """Print, for each family, how many are at the published optimum, better, failed (and what became of them) or wrong."""
    for chosen in FAMILIES:
        names = [case.name for case in cases if family(case.name) == chosen]
        if not names:
            continue
        alone = Counter(_verdict(known[name, ALONE]) for name in names)
        line = f"{chosen:8} {len(names):4} cases: {alone['optimum']} at the optimum by the structured solver alone, "
        line += f"{alone['better']} better than published, {alone['failed']} failed, {alone['wrong']} wrong"
        if fallback:
            rescued = [_verdict(known[name, FOLLOWER]) for name in names if _verdict(known[name, ALONE]) == "failed"]
            line += f"; with Ipopt behind it {rescued.count('optimum')} more, {rescued.count('wrong')} wrong"
        print(line)


def _verdict(row: OpfRow) -> str:
    if row.status == CONVERGED:
        return "better" if (row.baseline_gap or 0.0) < -COST_TOLERANCE else "optimum"
    return "wrong" if row.status in WRONG else "failed"


def main() -> int:
    """Solve, append, count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--most-buses", type=int, default=14_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--limit", type=float, default=600.0, help="seconds per case")
    parser.add_argument("--fallback", action="store_true")
    parser.add_argument("--rows", type=Path, default=Path("coverage.jsonl"))
    options = parser.parse_args()
    cases = wanted(options.families.split(","), options.most_buses)
    if not cases:
        print("no PGLib case to solve: install gridveil[cases], and choose families among typical, api and sad")
        return 2
    known = known_rows(options.rows)
    measure_apart({"task": "warm up"}, None)
    with options.rows.open("a") as file:
        for solver in [ALONE, FOLLOWER] if options.fallback else [ALONE]:
            chosen = cases if solver == ALONE else [c for c in cases if _verdict(known[c.name, ALONE]) == "failed"]
            for row in solve_missing(chosen, solver, known, options.workers, options.limit):
                known[row.case, row.solver] = row
                file.write(json.dumps(asdict(row)) + "\n")
                file.flush()
                gap = "" if row.baseline_gap is None else f"{row.baseline_gap:+.1e}"
                print(f"{row.case:32} {row.buses:6} {row.solver:10} {row.status:20} {gap:>9}  {row.note}", flush=True)
    counts(cases, known, options.fallback)
    names = {case.name for case in cases}
    return int(any(_verdict(row) == "wrong" for row in known.values() if row.case in names))


if __name__ == "__main__":
    sys.exit(main())
