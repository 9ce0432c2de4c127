"""A data set of N-1 scenarios from a file of bench/batch_export.py to Parquet, timed: ``gridveil generate`` after reading.

    python bench/batch_parquet.py [--case case118_ieee] [--scenarios 1000000] [--engine gpu] [--data .gpu-data] --out FOLDER

Loads lognormal:5%, one state of n-1 each, PGLearn's columns. Runs on NumPy, PyArrow and, for the GPU, CuPy alone.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from batch import engine_of
from gridveil.service.data_set_rules import Sampler, load_rule, outage_states
from gridveil.service.data_set_tables import Solved, pglearn_tables
from gridveil.solvers.batch.network import load_network
from gridveil.solvers.batch.solver import BatchSolver

SHARD, PIECE, WRITERS = 40_000, 256, 6


def write(solved: Solved, folder: Path, pool: ThreadPoolExecutor) -> tuple[int, int]:
    """Write one shard; solved scenarios and bytes."""
    tables = list(pool.map(pglearn_tables, solved.parts(PIECE)))
    size = 0
    for name, parts in zip(("solved", "unsolved"), zip(*tables, strict=True), strict=True):
        path = folder / name / f"part-{solved.first:09d}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.concat_tables(parts), path, compression="zstd", use_dictionary=False)
        size += path.stat().st_size
    return int(solved.answer.converged.sum()), size


def main() -> None:
    """Read the command line, make the data set, and print one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", default="case118_ieee")
    parser.add_argument("--scenarios", type=int, default=1_000_000)
    parser.add_argument("--engine", choices=("gpu", "native"), default="gpu")
    parser.add_argument("--data", type=Path, default=Path(".gpu-data"))
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    path = given.data / f"{given.case}.npz"
    lowered = load_network(path)
    with np.load(path) as file:
        demand_p, demand_q = file["demand_p"], file["demand_q"]
    grid: Any = lowered.grid
    states = outage_states(grid)
    drawn = Sampler(demand_p=demand_p, demand_q=demand_q, loads=load_rule("lognormal:5%"), states=states, seed=0)
    solver = BatchSolver(lowered, engine_of(given.engine, None), usual=(demand_p, demand_q))
    solver.dispatch(drawn.rows(0, min(SHARD, given.scenarios)), keep=False)  # compiles
    begin, kernels, waited = time.perf_counter(), 0.0, 0.0
    found: list[tuple[int, int]] = []
    waiting: deque[Future[tuple[int, int]]] = deque()
    no_network: Any = None  # PGLearn's columns need none of it
    with ThreadPoolExecutor(os.cpu_count()) as pool, ThreadPoolExecutor(WRITERS) as writers:
        for first in range(0, given.scenarios, SHARD):
            scenarios = drawn.rows(first, min(first + SHARD, given.scenarios))
            answer = solver.dispatch(scenarios)
            kernels += solver.timing.kernels
            solved = Solved(network=no_network, lowered=lowered, first=first, scenarios=scenarios, answer=answer)
            waiting.append(writers.submit(write, solved, given.out, pool))
            clock = time.perf_counter()
            while len(waiting) > WRITERS:
                found.append(waiting.popleft().result())
            waited += time.perf_counter() - clock
        found += [one.result() for one in waiting]
    seconds = time.perf_counter() - begin
    row = {
        "case": given.case,
        "engine": given.engine,
        "scenarios": given.scenarios,
        "outages": "n-1",
        "solved": sum(count for count, _ in found),
        "seconds": round(seconds, 2),
        "kernel_seconds": round(kernels, 2),
        "waiting_for_writers_seconds": round(waited, 2),
        "parquet_bytes": sum(size for _, size in found),
    }
    print(json.dumps(row))


if __name__ == "__main__":
    main()
