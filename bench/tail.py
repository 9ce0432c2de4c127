"""Releases of PGLib files: how many are verified, how long each takes, and which solver its solves went to.

    python bench/tail.py --out tail.csv [--families typical,api,sad] [--up-to-buses 10000] [--from-buses 0] [--files a,b]
        [--alphas 0.1,1] [--seeds 1-3] [--workers 2] [--time-limit SECONDS]

The setting is the paper's: ε = 1, β = 1 % of the true optimum (declared public), method auto. One row per release is appended
as soon as it is known; a run that was stopped goes on where it was. ``--files`` names built-in cases or paths instead of
families. Solves are counted as ``problem:solver:ending``, and ``ipopt_seconds`` is what Ipopt's took of ``seconds``, the whole
repair. At the end: the share verified, and for each file the worst time over the median of files of its size.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, fields
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median

from gridveil.benchmark.process import peak_mb
from gridveil.bilevel.methods import method_named
from gridveil.core.band import CostTarget, Tolerance
from gridveil.core.choices import CostTargetMode
from gridveil.core.deadline import time_limit, usual_time_limit
from gridveil.core.errors import NoReleaseError
from gridveil.core.methods import Method, Solver
from gridveil.core.parallel import Failure, run_many
from gridveil.privacy.curator import published_values
from gridveil.privacy.mechanisms.simulation import simulate_laplace
from gridveil.sectors.case import Case
from gridveil.sectors.model import Model
from gridveil.sectors.registry import build_model, load_case, sector_of
from gridveil.solvers.backend import Answer, Backend
from gridveil.solvers.fallback import Fallback
from gridveil.solvers.ipopt import IPOPT
from gridveil.solvers.registry import backend_for
from gridveil.solvers.solves import Solves
from pglib_coverage import FAMILIES, wanted

EPSILON, BETA = 1.0, Tolerance(0.01, relative=True)
PROBLEMS = ("dispatch", "nearest", "cut", "push")
SIZES = (0, 100, 300, 1000, 2000, 3100, 5000, 10_000, 20_000, 40_000, math.inf)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One release."""

    file: str
    buses: int
    alpha: float
    seed: int
    verified: bool
    ending: str
    seconds: float
    ipopt_seconds: float
    delta: float
    optimisations: int
    solves: str
    peak_mb: float


@dataclass(frozen=True)
class Solve:
    """One solve of one solver: how it ended, and its seconds."""

    problem: str
    solver: str
    ending: str
    seconds: float


@dataclass(frozen=True, eq=False)
class Bench:
    """A network that is ready for releases."""

    case: Case
    model: Model
    backend: Backend
    target: CostTarget
    buses: int
    solves: list[Solve]


def build(name: str) -> Bench:
    """Read a file, find its optimum and rehearse, so that the first release does not load compiled code."""
    case = load_case(name)
    model = build_model(case.network)
    backend = backend_for(model, Solver.STRUCTURED)
    solves: list[Solve] = []
    parts = (backend._first, backend._second, backend._last) if isinstance(backend, Fallback) else (backend,)
    for part in filter(None, parts):
        for problem in PROBLEMS:
            setattr(part, problem, partial(_recorded, getattr(part, problem), problem, part.name, solves))
    true = Solves(backend).afresh(model.layout.to_program(published_values(case)))
    if not true.converged:
        raise NoReleaseError("O(d) of the file was not solved")
    Solves(backend).nearest_feasible(model.layout.to_program(published_values(case)))
    target = BETA.around(true.cost, CostTargetMode.PUBLIC)
    return Bench(case, model, backend, target, sector_of(case.network).size(case.network), solves)


def _recorded(solve: Callable[..., Answer], problem: str, solver: str, solves: list[Solve], *given, **named) -> Answer:  # type: ignore[no-untyped-def]
    clock = time.perf_counter()
    ending = "out of time"
    try:
        answer = solve(*given, **named)
        ending = answer.detail
        return answer
    finally:
        solves.append(Solve(problem, solver, ending, time.perf_counter() - clock))


def release(limit: float | None, bench: Bench, job: tuple[str, float, int]) -> Row:
    """Repair the noisy demands of one seed."""
    name, alpha, seed = job
    noisy = simulate_laplace(bench.case.values, epsilon=EPSILON, alpha=alpha, seed=seed)
    bench.solves.clear()
    clock = time.perf_counter()
    with time_limit(limit or usual_time_limit(bench.buses)):
        try:
            result = method_named(Method.AUTO)(bench.backend, bench.model.layout.to_program(noisy.values), bench.target)
            verified, ending = result.verified, result.ending.name
            delta, optimisations = result.delta, result.optimisations
        except NoReleaseError as error:
            verified, ending, delta, optimisations = False, str(error), math.nan, 0
    counts = Counter(f"{solve.problem}:{solve.solver}:{solve.ending}" for solve in bench.solves)
    return Row(
        file=name,
        buses=bench.buses,
        alpha=alpha,
        seed=seed,
        verified=verified,
        ending=ending,
        seconds=round(time.perf_counter() - clock, 4),
        ipopt_seconds=round(sum(solve.seconds for solve in bench.solves if solve.solver == IPOPT), 4),
        delta=delta,
        optimisations=optimisations,
        solves=" ".join(f"{what.replace(' ', '_')}={count}" for what, count in counts.items()),
        peak_mb=round(peak_mb() or math.nan),
    )


def known_rows(path: Path) -> list[Row]:
    """Read the rows of earlier runs."""
    if not path.exists():
        return []
    kinds: dict[str, Callable[[str], object]] = {"str": str, "int": int, "float": float, "bool": "True".__eq__}
    with path.open(newline="") as file:
        return [Row(**{f.name: kinds[str(f.type)](line[f.name]) for f in fields(Row)}) for line in csv.DictReader(file)]  # type: ignore[arg-type]


def seeds_of(text: str) -> list[int]:
    """Read a list of seeds and ranges of seeds, such as 1-3,1001."""
    ranges = [[int(end) for end in part.split("-")] for part in text.split(",")]
    return [seed for ends in ranges for seed in range(ends[0], ends[-1] + 1)]


def summarise(rows: Iterable[Row]) -> None:
    """Print what was verified, and each size's median and worst time."""
    rows = list(rows)
    verified = sum(row.verified for row in rows)
    print(f"{verified} of {len(rows)} verified; {sum(row.ipopt_seconds > 0 for row in rows)} asked Ipopt")
    for low, high in pairwise(SIZES):
        chosen = [row for row in rows if low <= row.buses < high]
        if chosen:
            usual, worst = median(row.seconds for row in chosen), max(chosen, key=lambda row: row.seconds)
            ratio = f"{worst.seconds / usual:6.1f} x"
            where = f"{worst.file}, alpha {worst.alpha:g}, seed {worst.seed}"
            print(f"{low:6} to {high:<6} {len(chosen):5} releases, median {usual:8.3f} s, worst {ratio} ({where})")


def main() -> int:
    """Release, append, summarise."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--files", default="")
    parser.add_argument("--from-buses", type=int, default=0)
    parser.add_argument("--up-to-buses", type=int, default=10_000)
    parser.add_argument("--alphas", default="0.1,1")
    parser.add_argument("--seeds", default="1-3")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--time-limit", type=float, help="seconds per release; by default as for any release")
    options = parser.parse_args()
    cases = wanted(options.families.split(","), options.up_to_buses)
    names = [case.name for case in cases if case.buses >= options.from_buses]
    if options.files:
        names = options.files.split(",")
    alphas = [float(alpha) for alpha in options.alphas.split(",")]
    jobs = [(name, (name, alpha, seed)) for name in names for alpha in alphas for seed in seeds_of(options.seeds)]
    rows = known_rows(options.out)
    done = {(row.file, row.alpha, row.seed) for row in rows}
    missing = [job for job in jobs if job[1] not in done]
    fresh = not options.out.exists()
    with options.out.open("a", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Row)])
        if fresh:
            writer.writeheader()
        for position, row in run_many(build, partial(release, options.time_limit), missing, workers=options.workers):
            if isinstance(row, Failure):
                print(f"{missing[position][1]}: {row.reason}", flush=True)
                continue
            rows.append(row)
            writer.writerow(asdict(row))
            file.flush()
            print(
                f"{row.file:30} {row.alpha:4g} {row.seed:5} {row.seconds:8.2f} s {row.ending} {row.solves}", flush=True
            )
    wanted_rows = {job[1] for job in jobs}
    summarise(row for row in rows if (row.file, row.alpha, row.seed) in wanted_rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
