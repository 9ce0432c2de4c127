"""All power releases of the paper at once: networks side by side on a GPU, small ones and what is handed over on all cores.

    python bench/bulk.py export paper --from FOLDER --references 50 --data .gpu-data
    GRIDVEIL_CACHE=.gpu-cache python bench/bulk_paper.py --data .gpu-data --settings 16x1x25000,16x1x25000 --out paper.jsonl

What ``gridveil study run paper-power --engine gpu`` does between reading the networks and writing rows, on a machine with
NumPy, CuPy, numba and a compiler alone. Single releases have the structured solver, without Ipopt behind it. Time is counted from
the moment at which the networks are read, by the process for batches too: worker processes start within it. Each setting is one
run, and the first compiles kernels.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import pickle
import sys
import threading
import time
import types
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bulk import PAPER, PAPER_SEEDS, SAME, Network, noisy_demands, program_of
from gridveil.bilevel.methods.auto import solve_auto
from gridveil.bilevel.result import BilevelResult
from gridveil.bilevel.together.releases import release_together
from gridveil.bilevel.together.rows import Bands, HandOver
from gridveil.core.band import CostTarget
from gridveil.core.choices import BatchEngine, CostTargetMode
from gridveil.core.deadline import OutOfTimeError, time_limit
from gridveil.core.parallel import Failure, JobPool
from gridveil.solvers.batch.backends import engine_for
from gridveil.solvers.batch.engine_native import NativeEngine
from gridveil.solvers.structured.backend import StructuredBackend

TURN = 5e-4  # seconds, as in cli/main.py
GPU_WORTH = 100_000  # as study/engine_batch.py, which needs more than is installed here
PORTION = 50  # as study/engine_batch.py
LAST = 8
"""Releases whose ends are listed."""
MOST_SECONDS = 8.0
"""Of a single release: without Ipopt, which solves such in less, one can take longer than all others together."""
Job = tuple[Any, float, float]
"""d̃, f̃ and β of a release."""
Kept = tuple[StructuredBackend, Network]
"""What a worker process keeps of a network: for single releases, and for portions in native code."""


def kept_of(folder: Path, name: str) -> Kept:
    """Read what a worker process keeps."""
    with (folder / f"{name}-arrays.pickle").open("rb") as file:
        arrays = pickle.load(file)  # written by bench/bulk.py
    with np.load(folder / f"{name}-releases.npz") as file:
        program = program_of(dict(file))
    model: Any = types.SimpleNamespace(program=program, arrays=arrays.__getitem__, ordinary=None)
    return StructuredBackend(model), Network(name, folder, NativeEngine(threads=1))


def single_release(backend: StructuredBackend, job: Job) -> float:
    """δ of a single release; NaN if it is not verified, or not made in time without Ipopt."""
    noisy, value, beta = job
    try:
        with time_limit(MOST_SECONDS):
            found: BilevelResult = solve_auto(
                backend, noisy, CostTarget(value=value, beta=beta, source=CostTargetMode.PUBLIC)
            )
    except OutOfTimeError:
        return float("nan")
    return found.delta if found.verified else float("nan")


def releases(kept: Kept, jobs: tuple[Job, ...]) -> tuple[float, ...]:
    """δ of a release, or of those of a portion, NaN for what is left over: as ``run_tasks`` of study/engine_batch.py."""
    backend, network = kept
    if len(jobs) == 1:
        return (single_release(backend, jobs[0]),)
    noisy, value, beta = (np.array(one) for one in zip(*jobs, strict=True))
    parts = release_together(network.batches.rows, network.program, noisy, Bands(value, beta))
    return tuple(np.concatenate([part.delta for part in parts]).tolist())


def batches_in_a_process(connection: Any, folder: Path, seeds: int) -> None:
    """Make the releases of networks that are named, side by side, and say what comes of each."""
    sys.setswitchinterval(TURN)
    study = Study(folder, seeds)
    lock = threading.Lock()

    def say(*what: Any) -> None:
        with lock:
            connection.send(what)

    def together(name: str) -> None:
        network, handed_over, turns = study.networks[name], [], []
        given = (network.batches.rows, network.program, study.noisy[name], study.target[name])
        for rows in release_together(*given, hand_over=lambda rows: [say(name, row, None) for row in rows.tolist()]):
            for row in np.flatnonzero(rows.finished).tolist():
                say(name, len(handed_over) + row, float(rows.delta[row]))
            handed_over += rows.handed_over.tolist()
            turns += rows.turns
        why = {HandOver(why).name: n for why, n in Counter(handed_over).items() if why}
        waiting, iterations = (sum(getattr(turn, what) for turn in turns) for what in ("waiting", "iterations"))
        say(name, None, {"turns": len(turns), "waiting": waiting, "iterations": iterations, "handed_over": why})

    connection.send(None)
    while True:
        threads = [threading.Thread(target=together, args=(name,)) for name in connection.recv()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        connection.send(None)


class Study:
    """The releases of all networks, numbered one after the other."""

    def __init__(self, folder: Path, seeds: int) -> None:
        self.folder, self.worth, self.seeds = folder, GPU_WORTH, seeds
        self.children: list[Any] = []
        self.lock = threading.Lock()
        names = sorted(path.name.removesuffix("-releases.npz") for path in folder.glob("paper-*-releases.npz"))
        engine = engine_for(BatchEngine.AUTO)
        assert engine is not None
        self.networks = {name: Network(name, folder, engine) for name in names}
        self.noisy: dict[str, Any] = {}
        self.target: dict[str, Bands] = {}
        self.first, self.reference = {}, []
        for position, (name, network) in enumerate(self.networks.items()):
            given, cost = network.given, float(network.given["cost"])
            self.noisy[name] = np.stack(
                [noisy_demands(given, alpha, seed) for alpha, _ in PAPER for seed in range(seeds)]
            )
            beta = np.repeat([share * cost for _, share in PAPER], seeds)
            self.target[name] = Bands(np.full(len(beta), cost), beta)
            self.first[name] = position * len(beta)
            known = np.full((len(PAPER), seeds), np.nan)
            known[:, : given["delta"].shape[1]] = given["delta"][:, :seeds]
            self.reference.append(known.reshape(-1))

    def start(self, processes: int) -> None:
        """Start processes for batches, and wait until they have read the networks."""
        context, self.children = multiprocessing.get_context("spawn"), []
        for _ in range(processes):
            ours, theirs = context.Pipe()
            given = (theirs, self.folder, self.seeds)
            context.Process(target=batches_in_a_process, args=given, daemon=True).start()
            self.children.append(ours)
        for child in self.children:
            child.recv()

    def job(self, name: str, row: int) -> Job:
        """A release for a worker process."""
        return self.noisy[name][row], float(self.target[name].value[row]), float(self.target[name].beta[row])

    def is_small(self, name: str) -> bool:
        """Whether a network is for worker processes from the beginning."""
        return len(self.noisy[name]) * self.networks[name].n_bus < self.worth

    def run(self, workers: int, processes: int, worth: int) -> dict[str, Any]:
        """Make all releases; what came of them, and where."""
        self.worth = worth
        begin = time.perf_counter()
        pool: Any = JobPool(partial(kept_of, self.folder), releases, workers=workers)
        self.first_of_portions, self.open = {}, 1  # portions under way, and the batches
        by_size = sorted(self.networks, key=lambda n: -self.networks[n].n_bus)
        large = [name for name in by_size if not self.is_small(name)]
        for name in filter(self.is_small, by_size):
            for row in range(0, len(self.noisy[name]), PORTION):
                rows = range(row, min(row + PORTION, len(self.noisy[name])))
                self.first_of_portions[self.first[name] + row] = (name, row)
                pool.add(self.first[name] + row, name, tuple(self.job(name, one) for one in rows))
        notes: dict[str, Any] = {}
        for child in self.children[:processes]:
            child.send([name for place, name in enumerate(large) if place % processes == self.children.index(child)])
        readers = [
            threading.Thread(target=self._read, args=(child, pool, notes, begin)) for child in self.children[:processes]
        ]
        for reader in readers:
            reader.start()

        def end() -> None:
            for reader in readers:
                reader.join()
            self.end_one(pool)

        self.open += len(self.first_of_portions)
        threading.Thread(target=end).start()
        delta = np.full(sum(map(len, self.noisy.values())), np.nan)
        self.in_batches = np.zeros(len(delta), bool)
        failures: Counter[str] = Counter()
        ended = np.full(len(delta), np.nan)
        for index, found in pool.results():
            if isinstance(found, Failure):
                failures[found.reason] += 1
                continue
            delta[index : index + len(found)] = found
            ended[index : index + len(found)] = time.perf_counter() - begin
            if len(found) > 1:
                name, row = self.first_of_portions[index]
                for place in np.flatnonzero(np.isnan(found)).tolist():
                    pool.add(index + place, name, (self.job(name, row + place),))
                self.end_one(pool)
        seconds = time.perf_counter() - begin
        by_network = ended.reshape(len(self.networks), -1)
        return {
            "seconds": seconds,
            "last_ended": [round(one, 2) for one in np.sort(ended)[: -LAST - 1 : -1].tolist()],
            "failures": dict(failures),
            "networks": notes,
            "ended": {
                name: round(float(last), 1) for name, last in zip(self.networks, by_network.max(axis=1), strict=True)
            },
            **self._compared(delta),
        }

    def end_one(self, pool: Any) -> None:
        """Of portions and batches; the last says that nothing more will come."""
        with self.lock:
            self.open -= 1
            if not self.open:
                pool.end()

    def _read(self, child: Any, pool: Any, notes: dict[str, Any], begin: float) -> None:
        while (said := child.recv()) is not None:
            name, row, what = said
            if row is None:
                notes[name] = what | {"until": time.perf_counter() - begin}
            elif what is None:
                pool.add(self.first[name] + row, name, (self.job(name, row),))
            else:
                self.in_batches[self.first[name] + row] = True
                pool.give(self.first[name] + row, (what,))

    def _compared(self, delta: Any) -> dict[str, Any]:
        expected = np.concatenate(self.reference)
        both = np.isfinite(expected)
        gap = np.abs(delta - expected)[both] / np.maximum(expected[both], 1e-6)
        mine = self.in_batches[both]
        return {
            "made_in_batches": int(self.in_batches.sum()),
            "references_in_batches": int(mine.sum()),
            "same_delta_in_batches": int((gap[mine] <= SAME).sum()),
            "releases": len(delta),
            "verified": int(np.isfinite(delta).sum()),
            "references": len(gap),
            "same_delta": int((gap <= SAME).sum()),
            "farther": int((gap > SAME).sum() - ((delta < expected)[both] & (gap > SAME)).sum()),
            "unverified_references": int(np.isnan(gap).sum()),
        }


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(".gpu-data"))
    parser.add_argument(
        "--settings",
        default=f"{os.cpu_count()}x1x{GPU_WORTH}",
        help="workers x processes for batches x buses of all releases from which on a GPU is for them; comma-separated",
    )
    parser.add_argument("--seeds", type=int, default=PAPER_SEEDS)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    sys.setswitchinterval(TURN)
    study = Study(given.data, given.seeds)
    settings = [tuple(map(int, one.split("x"))) for one in given.settings.split(",")]
    study.start(max(processes for _, processes, _ in settings))
    for workers, processes, worth in settings:
        line = {"workers": workers, "processes": processes, "worth": worth, **study.run(workers, processes, worth)}
        print(json.dumps(line), flush=True)
        if given.out is not None:
            with given.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
