"""A data set of N-1 scenarios from a file of bench/batch_export.py to Parquet, timed: ``gridveil generate`` after reading.

    python bench/batch_parquet.py [--case case118_ieee] [--scenarios 1000000] [--engine gpu] [--data .gpu-data] --out FOLDER

Loads lognormal:5%, one state of n-1 each, PGLearn's columns, by the loop of ``generate`` itself; nothing is retried by the
structured solver, which needs more than NumPy, PyArrow and, for the GPU, CuPy. One shard is solved and written before the clock
runs, which compiles kernels (``first_seconds``). The thread that feeds the engine spends ``seconds`` on what is listed after
them; other threads draw and write at the same time.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from gridveil.core.choices import BatchEngine, TableLayout
from gridveil.service.data_set_here import shards_here, writers
from gridveil.service.data_set_rules import Sampler, load_rule, outage_states
from gridveil.service.data_set_shards import Shards, shard_size
from gridveil.service.data_set_tables import Solved
from gridveil.solvers.batch.contract import BatchBackend, Scenarios
from gridveil.solvers.batch.network import load_network
from gridveil.solvers.batch.solver import BatchSolver, Timing


@dataclass(frozen=True)
class Span:
    """A piece of work: begin and end in wall-clock seconds, and CPU seconds of its thread."""

    begin: float
    end: float
    cpu: float


@dataclass(frozen=True, eq=False, kw_only=True)
class TimedShards(Shards):
    """Shards that note when each was drawn, solved and written."""

    spans: dict[str, dict[int, Span]] = field(default_factory=lambda: {"draw": {}, "solve": {}, "write": {}})
    timings: list[Timing] = field(default_factory=list)

    @contextmanager
    def _noted(self, kind: str, index: int) -> Iterator[None]:
        begin, cpu = time.perf_counter(), time.thread_time()
        yield
        self.spans[kind][index] = Span(begin, time.perf_counter(), time.thread_time() - cpu)

    def scenarios(self, index: int) -> Scenarios:
        """Draw."""
        with self._noted("draw", index):
            return super().scenarios(index)

    def solved(self, index: int, scenarios: Scenarios, backend: BatchBackend) -> Solved:
        """Solve, and bring the columns here."""
        with self._noted("solve", index):
            found = super().solved(index, scenarios, backend)
        assert isinstance(backend, BatchSolver)
        self.timings.append(backend.timing)
        return found

    def write(self, index: int, solved: Solved) -> dict[str, int]:
        """Make files."""
        with self._noted("write", index):
            return super().write(index, solved)

    def spent(self, begin: float, end: float) -> dict[str, float]:
        """Seconds of the thread that feeds the engine, by what it did or waited for; and what other threads did meanwhile."""
        draw, solve, write = (self.spans[kind] for kind in ("draw", "solve", "write"))
        order = sorted(solve)
        ready = [begin, *(solve[index].end for index in order[:-1])]  # when the feeding thread could have gone on
        drawn = [max(at, draw[index].end) for at, index in zip(ready, order, strict=True)]
        inside = {name: sum(getattr(one, name) for one in self.timings) for name in ("kernels", "transfers", "check")}
        dispatched = sum(one.total for one in self.timings)
        return {
            "waiting_for_draws": sum(drawn) - sum(ready),
            **inside,
            "rest_of_dispatch": dispatched - sum(inside.values()),
            "columns": sum(one.end - one.begin for one in solve.values()) - dispatched,
            "waiting_for_writers": sum(solve[index].begin for index in order) - sum(drawn),
            "last_files": end - solve[order[-1]].end,
            "others_drawing": sum(one.end - one.begin for one in draw.values()),
            "others_drawing_cpu": sum(one.cpu for one in draw.values()),
            "others_writing": sum(one.end - one.begin for one in write.values()),
            "others_writing_cpu": sum(one.cpu for one in write.values()),
        }


def opened(path: Path, scenarios: int, folder: Path) -> TimedShards:
    """The shards of ``generate`` for an exported network."""
    lowered = load_network(path)
    with np.load(path) as file:
        demand_p, demand_q = file["demand_p"], file["demand_q"]
    grid: Any = lowered.grid
    # Stand for a request and a source, whose modules read cases: PGLearn's columns need no more of them.
    request: Any = SimpleNamespace(scenarios=scenarios, layout=TableLayout.PGLEARN, retries=0)
    source: Any = SimpleNamespace(network=None, private=True, notice="a benchmark of public data")
    rule = load_rule("lognormal:5%")
    drawn = Sampler(demand_p=demand_p, demand_q=demand_q, loads=rule, states=outage_states(grid), seed=0)
    size = shard_size(lowered, TableLayout.PGLEARN)
    return TimedShards(folder=folder, request=request, source=source, lowered=lowered, drawn=drawn, size=size)


def main() -> None:
    """Read the command line, make the data set, and print one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", default="case118_ieee")
    parser.add_argument("--scenarios", type=int, default=1_000_000)
    parser.add_argument("--engine", choices=("gpu", "native"), default="gpu")
    parser.add_argument("--data", type=Path, default=Path(".gpu-data"))
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    os.environ.setdefault("GRIDVEIL_CACHE", str(given.out / "kernels"))  # the usual place needs a package
    path = given.data / f"{given.case}.npz"
    first = opened(path, given.scenarios, given.out / "first")
    backend = first.backend(BatchEngine(given.engine))
    begin = time.perf_counter()
    list(shards_here(first, [0], backend))
    first_seconds = time.perf_counter() - begin
    shutil.rmtree(first.home)
    shards = opened(path, given.scenarios, given.out)
    begin, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    counts = list(shards_here(shards, range(shards.count), backend))
    end, now = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    row = {
        "case": given.case,
        "engine": given.engine,
        "scenarios": given.scenarios,
        "outages": "n-1",
        "scenarios_per_shard": shards.size,
        "writers": writers(),
        "solved": sum(one["solved"] for one in counts),
        "failed": sum(one["failed"] for one in counts),
        "first_seconds": round(first_seconds, 2),
        "seconds": round(end - begin, 2),
        **{f"{name}_seconds": round(value, 2) for name, value in shards.spent(begin, end).items()},
        "user_seconds": round(now.ru_utime - used.ru_utime, 2),
        "system_seconds": round(now.ru_stime - used.ru_stime, 2),
        "most_memory_bytes": now.ru_maxrss * 1024,
        "parquet_bytes": sum(file.stat().st_size for file in given.out.rglob("*.parquet")),
    }
    print(json.dumps(row))


if __name__ == "__main__":
    main()
