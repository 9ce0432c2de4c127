"""All power releases of the paper at once: networks side by side on a GPU, small ones and what is handed over on all cores.

    python bench/bulk.py export paper --from FOLDER --references 50 --data .gpu-data
    python bench/bulk_paper.py --data .gpu-data --workers 16 --out paper.jsonl

What ``gridveil study run paper-power --engine gpu`` does between reading the networks and writing rows, on a machine with
NumPy, CuPy and numba alone. Single releases have the structured solver, without Ipopt behind it. Time is counted from the moment at
which the networks are read: worker processes start within it. Every run is made as often as asked for, since the first
compiles kernels; the last counts.
"""

from __future__ import annotations

import argparse
import json
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
from gridveil.core.parallel import Failure, JobPool
from gridveil.solvers.batch.backends import engine_for
from gridveil.solvers.structured.backend import StructuredBackend

TURN = 5e-4  # seconds, as in cli/main.py
GPU_WORTH = 100_000  # as study/engine_batch.py, which needs more than is installed here
Job = tuple[Any, float, float]
"""d̃, f̃ and β of a release."""


def backend_of(folder: Path, name: str) -> StructuredBackend:
    """What a worker process keeps of a network."""
    with (folder / f"{name}-arrays.pickle").open("rb") as file:
        arrays = pickle.load(file)  # written by bench/bulk.py
    with np.load(folder / f"{name}-releases.npz") as file:
        program = program_of(dict(file))
    model: Any = types.SimpleNamespace(program=program, arrays=arrays.__getitem__, ordinary=None)
    return StructuredBackend(model)


def single_release(backend: StructuredBackend, job: Job) -> float:
    """δ of a single release, NaN if it is not verified."""
    noisy, value, beta = job
    found: BilevelResult = solve_auto(backend, noisy, CostTarget(value=value, beta=beta, source=CostTargetMode.PUBLIC))
    return found.delta if found.verified else float("nan")


class Study:
    """The releases of all networks, numbered one after the other."""

    def __init__(self, folder: Path, seeds: int, worth: int) -> None:
        self.folder, self.worth = folder, worth
        names = sorted(path.name.removesuffix("-releases.npz") for path in folder.glob("paper-*-releases.npz"))
        engine = engine_for(BatchEngine.GPU)
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

    def job(self, name: str, row: int) -> Job:
        """A release for a worker process."""
        return self.noisy[name][row], float(self.target[name].value[row]), float(self.target[name].beta[row])

    def is_small(self, name: str) -> bool:
        """Whether a network is for worker processes from the beginning."""
        return len(self.noisy[name]) * self.networks[name].n_bus < self.worth

    def run(self, workers: int) -> dict[str, Any]:
        """Make all releases; what came of them, and where."""
        begin = time.perf_counter()
        pool: Any = JobPool(partial(backend_of, self.folder), single_release, workers=workers)
        large = sorted((n for n in self.networks if not self.is_small(n)), key=lambda n: -self.networks[n].n_bus)
        for name in filter(self.is_small, self.networks):
            for row in range(len(self.noisy[name])):
                pool.add(self.first[name] + row, name, self.job(name, row))
        notes: dict[str, Any] = {}
        left = [len(large)]
        lock = threading.Lock()

        def together(name: str) -> None:
            notes[name] = self._together(name, pool, begin)
            with lock:
                left[0] -= 1
                if not left[0]:
                    pool.end()

        threads = [threading.Thread(target=together, args=(name,)) for name in large]
        for thread in threads:
            thread.start()
        if not threads:
            pool.end()
        delta = np.full(sum(map(len, self.noisy.values())), np.nan)
        failures: Counter[str] = Counter()
        for index, found in pool.results():
            if isinstance(found, Failure):
                failures[found.reason] += 1
            else:
                delta[index] = found
        seconds = time.perf_counter() - begin
        return {"seconds": seconds, "failures": dict(failures), "networks": notes} | self._compared(delta)

    def _together(self, name: str, pool: Any, begin: float) -> dict[str, Any]:
        """The releases of one network on the GPU; what is handed over goes to the pool."""
        network, handed_over, turns, noisy = self.networks[name], [], [], self.noisy[name]

        def hand_over(rows: Any) -> None:
            for row in rows.tolist():
                pool.add(self.first[name] + row, name, self.job(name, row))

        for rows in release_together(
            network.batches.rows, network.program, noisy, self.target[name], hand_over=hand_over
        ):
            first = self.first[name] + len(handed_over)
            handed_over += rows.handed_over.tolist()
            turns += rows.turns
            for row in np.flatnonzero(rows.finished).tolist():
                pool.give(first + row, float(rows.delta[row]))
        return {
            "until": time.perf_counter() - begin,
            "turns": len(turns),
            "waiting": sum(turn.waiting for turn in turns),
            "iterations": sum(turn.iterations for turn in turns),
            "handed_over": {HandOver(why).name: n for why, n in Counter(handed_over).items() if why},
        }

    def _compared(self, delta: Any) -> dict[str, Any]:
        expected = np.concatenate(self.reference)
        both = np.isfinite(expected)
        gap = np.abs(delta - expected)[both] / np.maximum(expected[both], 1e-6)
        return {
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
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--seeds", type=int, default=PAPER_SEEDS)
    parser.add_argument(
        "--worth", type=int, default=GPU_WORTH, help="buses of all releases from which on a GPU is for them"
    )
    parser.add_argument("--turn", type=float, default=TURN, help="seconds after which a thread lets another have Python")
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    sys.setswitchinterval(given.turn)
    study = Study(given.data, given.seeds, given.worth)
    for run in range(given.runs):
        line = {"run": run, "workers": given.workers, "worth": given.worth, **study.run(given.workers)}
        print(json.dumps(line), flush=True)
        if given.out is not None:
            with given.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
