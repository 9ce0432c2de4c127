"""Releases in bulk on a machine with NumPy and CuPy alone: made ready where gridveil is installed, then run from files.

    python bench/bulk.py export case118_ieee --releases 8000 --references 100 --data .gpu-data
    python bench/bulk.py run case118_ieee --engine gpu --at-once 2048 --data .gpu-data --out bulk.jsonl

ε = 1, α = 10 MVA, β = 1 % of the public optimum, method ``auto``; noise is simulated on public benchmark demands. ``export``
writes the network, the noisy demands and what single releases of the first of them come to; ``run`` makes all of them
together. Problems that batches leave unsolved fail here, as the solvers behind them are not installed, and are counted.
"""

from __future__ import annotations

import argparse
import json
import time
import types
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gridveil.bilevel.bulk import run_together
from gridveil.bilevel.methods.auto import solve_auto
from gridveil.core.band import CostTarget
from gridveil.core.choices import CostTargetMode
from gridveil.programs import Status
from gridveil.solvers.backend import Answer, Capabilities, Start
from gridveil.solvers.batch.engine import Engine
from gridveil.solvers.batch.network import load_network
from gridveil.solvers.batch.power import PowerBatches
from gridveil.solvers.solves import Solves

ALPHA, BETA, SAME = 0.1, 0.01, 1e-3  # per unit; share of the cost; relative difference of δ that counts as none
WARM_UP = 100  # releases that load the kernels before the clock runs


def export(name: str, releases: int, references: int, folder: Path) -> None:
    """Write the networks and the noisy demands, and what single releases make of the first of them."""
    from gridveil.core.methods import Method, Solver
    from gridveil.privacy.mechanisms.simulation import NoiseSites, simulate_laplace
    from gridveil.solvers.batch.network import lower_network
    from gridveil.solvers.structured.settings import INTERIOR
    from gridveil.study.study_file import NetworkEntry
    from gridveil.study.trial import Rules, Task, inspect_network, noise_stream, prepare, run_trial

    entry = NetworkEntry(label=name, case=name, path=None, preset=None, checksum="")
    prepared = prepare(inspect_network(entry, Solver.STRUCTURED))
    model, sites = prepared.model, NoiseSites.POSITIVE
    draws = (
        simulate_laplace(prepared.case.values, epsilon=1.0, alpha=ALPHA, seed=noise_stream(name, seed), sites=sites)
        for seed in range(releases)
    )
    noisy = np.stack([model.layout.to_program(draw.values) for draw in draws])
    rules, begin = Rules(sites=sites, task_seconds=None), time.perf_counter()
    tasks = [Task(alpha=ALPHA, beta=BETA, epsilon=1.0, seed=seed, method=Method.AUTO) for seed in range(references)]
    delta = [run_trial(rules, prepared, task).delta for task in tasks]
    seconds = time.perf_counter() - begin
    if model.arrays is None:
        raise SystemExit(f"{name} is no power network")
    folder.mkdir(exist_ok=True)
    lower_network(model.arrays(0.0)).save(folder / f"{name}-dispatch.npz")
    lower_network(model.arrays(INTERIOR), joint=True).save(folder / f"{name}-joint.npz")
    np.savez_compressed(
        folder / f"{name}-releases.npz",
        noisy=noisy,
        cost=prepared.true_cost,
        n_x=model.program.n_x,
        x_start=model.program.x_start,
        delta=np.array([np.nan if one is None else one for one in delta]),
        reference_seconds=seconds,
    )


class _Nobody:
    """Stands for the backend of single releases: solves nothing, and counts what it is asked."""

    name, capabilities = "nobody", Capabilities(accepts=lambda model: True, restarts=False)

    def __init__(self, program: Any) -> None:
        self.program, self.asked = program, 0

    def prepare(self) -> None:
        """Nothing."""

    def portable(self, start: Start) -> bool:
        """Whether a batch has made the start."""
        return start.maker == "structured"

    def _unsolved(self, d: Any, *_: Any, start: Start | None = None, **__: Any) -> Answer:
        self.asked += 1
        where, none = start or Start(self.program.x_start, d), float("nan")
        return Answer(
            status=Status.FAILED,
            x=where.x,
            d=where.d,
            cost=none,
            delta=none,
            proxy=none,
            start=where,
            solver="none",
        )

    dispatch = nearest = cut = push = _unsolved


def _engine(name: str) -> Engine:
    if name == "gpu":
        from gridveil.solvers.batch.engine_gpu import GpuEngine

        return GpuEngine()
    from gridveil.solvers.batch.engine_native import NativeEngine

    return NativeEngine()


def run(name: str, engine: str, at_once: int, folder: Path, most: int | None) -> dict[str, Any]:
    """Make the releases of a file together, and compare them with single ones."""
    with np.load(folder / f"{name}-releases.npz") as file:
        given = dict(file)
    noisy = given["noisy"][:most]
    cost, n_d = float(given["cost"]), noisy.shape[1]
    program: Any = types.SimpleNamespace(
        name="AC-OPF",
        n_x=int(given["n_x"]),
        x_start=given["x_start"],
        d_lower=np.full(n_d, -np.inf),
        d_upper=np.full(n_d, np.inf),
        typical=None,
        starts=(),
        more_starts=(),
        smoothed_cost=None,
        adaptive_barrier=False,
    )
    towards = np.repeat([1.0, 0.0], n_d // 2) / np.sqrt(n_d // 2)
    Solves.proxy_direction = lambda self, d: towards  # type: ignore[method-assign]  # the sum of active demands
    target = CostTarget(value=cost, beta=BETA * cost, source=CostTargetMode.PUBLIC)
    networks = [load_network(folder / f"{name}-{kind}.npz") for kind in ("dispatch", "joint")]
    batches, nobody = PowerBatches(program, *networks, _engine(engine)), _Nobody(program)
    jobs = [partial(_release, target, one) for one in noisy]
    list(run_together(jobs[:WARM_UP], nobody, batches))
    nobody.asked, begin = 0, time.perf_counter()
    found = dict(run_together(jobs, nobody, batches, at_once=at_once))
    seconds = time.perf_counter() - begin
    results = [found[index].get() for index in range(len(jobs))]
    known = min(len(given["delta"]), len(results))
    expected, delta = given["delta"][:known], np.array([one.delta for one in results[:known]])
    gap = np.abs(delta - expected) / np.maximum(expected, 1e-6)
    verified = sum(one.verified for one in results)
    return {
        "case": name,
        "engine": engine,
        "releases": len(results),
        "at_once": at_once,
        "verified": verified,
        "seconds": seconds,
        "per_second": verified / seconds,
        "left_unsolved_by_batches": nobody.asked,
        "references": known,
        "same_delta": int((gap <= SAME).sum()),
        "worst_delta_gap": float(np.nanmax(gap, initial=0.0)),
        "reference_seconds": float(given["reference_seconds"]),
    }


def _release(target: CostTarget, noisy: Any, backend: Any) -> Any:
    return solve_auto(backend, noisy, target)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("export", "run"))
    parser.add_argument("case")
    parser.add_argument("--releases", type=int)
    parser.add_argument("--references", type=int, default=20)
    parser.add_argument("--engine", choices=("gpu", "native"), default="gpu")
    parser.add_argument("--at-once", type=int, default=2048)
    parser.add_argument("--data", type=Path, default=Path(".gpu-data"))
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.what == "export":
        export(given.case, given.releases or 1000, given.references, given.data)
        return
    line = json.dumps(run(given.case, given.engine, given.at_once, given.data, given.releases))
    print(line)
    if given.out is not None:
        with given.out.open("a", encoding="utf-8") as file:
            file.write(line + "\n")


if __name__ == "__main__":
    main()
