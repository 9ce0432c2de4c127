"""Releases in bulk on a machine with NumPy and CuPy alone: made ready where gridveil is installed, then run from files.

    python bench/bulk.py export case118_ieee --references 100 --data .gpu-data
    python bench/bulk.py export paper --from FOLDER --references 3 --data .gpu-data   # the 19 networks of the paper
    python bench/bulk.py run case118_ieee --releases 20000 --engine gpu --data .gpu-data --out bulk.jsonl
    python bench/bulk.py year case118_ieee --engine gpu --data .gpu-data --out bulk.jsonl
    python bench/bulk.py run paper --engine gpu --data .gpu-data --out bulk.jsonl

ε = 1, method ``auto``, noise simulated on public benchmark demands; α = 10 MVA and β = 1 % of the public optimum, or the
five settings of the paper with 50 seeds each. ``year`` makes a release of every hour, each with its own public optimum.
``export`` writes the networks and what single releases with the first seeds come to; the others draw the same noise from
their seeds. Every run is made twice, since the first compiles kernels. Releases that are handed over have no result here, as the
solvers behind batches are not installed; ``--all`` makes them in threads, where problems that batches leave unsolved fail.
"""

from __future__ import annotations

import argparse
import json
import pickle
import time
import types
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gridveil.bilevel.bulk import run_together
from gridveil.bilevel.methods.auto import solve_auto
from gridveil.bilevel.together.record import ReleasedRows
from gridveil.bilevel.together.releases import release_together
from gridveil.bilevel.together.rows import Bands, HandOver
from gridveil.core.band import CostTarget
from gridveil.core.choices import BatchEngine, CostTargetMode
from gridveil.programs import Status
from gridveil.solvers.backend import Answer, Capabilities, Start
from gridveil.solvers.batch.backends import engine_for
from gridveil.solvers.batch.contract import Scenarios
from gridveil.solvers.batch.engine import Engine
from gridveil.solvers.batch.network import load_network
from gridveil.solvers.batch.power import PowerBatches
from gridveil.solvers.batch.solver import BatchSolver

ALPHA, BETA, SAME = 0.1, 0.01, 1e-3  # per unit; share of the cost; relative difference of δ that counts as none
PAPER = ((0.1, 0.01), (1.0, 0.01), (10.0, 0.01), (0.1, 0.1), (0.1, 0.001))  # α and β of the study paper-power
PAPER_SEEDS = 50
DAY, WEEK, YEAR = 24, 168, 8760
PROBLEMS = (
    "nearest",
    "cut",
    "push",
    "at joint points",
    "from scratch",
    "softened",
    "near joint points",
    "there in thin interiors",
)


def noisy_demands(given: dict[str, Any], alpha: float, seed: int, scale: float = 1.0) -> Any:
    """Demands with the noise of a study (``simulate_laplace``, ε = 1), laid out as the program's d."""
    values, generator = scale * given["values"], np.random.default_rng(zlib.crc32(f"{given['label']} {seed}".encode()))
    n = len(values)
    noise = generator.gamma(2.0, alpha, n) * np.exp(1j * generator.uniform(0.0, 2 * np.pi, n))
    values = (values + np.where(values.real > 0, noise, 0))[given["served"]]
    return np.concatenate([values.real, values.imag])


def export(
    name: str, source: Path | None, settings: tuple[tuple[float, float], ...], references: int, to: Path
) -> None:
    """Write a network, its public demands, and what single releases with the first seeds come to."""
    from gridveil.core.methods import Method, Solver
    from gridveil.privacy.curator import published_values
    from gridveil.privacy.mechanisms.simulation import NoiseSites, simulate_laplace
    from gridveil.solvers.batch.network import lower_network
    from gridveil.solvers.structured.settings import INTERIOR
    from gridveil.study.study_file import NetworkEntry
    from gridveil.study.trial import Rules, Task, inspect_network, noise_stream, prepare, run_trial

    label = name.removeprefix("paper-")
    entry = NetworkEntry(label=label, case=label, path=source, preset=None, checksum="")
    prepared = prepare(inspect_network(entry, Solver.STRUCTURED))
    model, sites = prepared.model, NoiseSites.POSITIVE
    if model.arrays is None:
        raise SystemExit(f"{name} is no power network")
    tasks = [
        Task(alpha=alpha, beta=beta, epsilon=1.0, seed=seed, method=Method.AUTO)
        for alpha, beta in settings
        for seed in range(references)
    ]
    begin, rules = time.perf_counter(), Rules(sites=sites, task_seconds=None)
    delta = [run_trial(rules, prepared, task).delta for task in tasks]
    given = {
        "label": label,
        "values": published_values(prepared.case),
        "served": model.layout.served,
        "cost": prepared.true_cost,
        "n_x": model.program.n_x,
        "x_start": model.program.x_start,
        "settings": np.array(settings),
        "delta": np.array([np.nan if one is None else one for one in delta], float).reshape(len(settings), references),
        "reference_seconds": time.perf_counter() - begin,
    }
    drawn = simulate_laplace(prepared.case.values, epsilon=1.0, alpha=ALPHA, seed=noise_stream(label, 1), sites=sites)
    if not np.array_equal(noisy_demands(given, ALPHA, 1), model.layout.to_program(drawn.values)):
        raise SystemExit("the noise of this file is not that of the studies")
    to.mkdir(exist_ok=True)
    with (to / f"{name}-arrays.pickle").open("wb") as file:  # for single releases
        pickle.dump({room: model.arrays(room) for room in (0.0, INTERIOR)}, file)
    lower_network(model.arrays(0.0)).save(to / f"{name}-dispatch.npz")
    lower_network(model.arrays(INTERIOR), joint=True).save(to / f"{name}-joint.npz")
    np.savez_compressed(to / f"{name}-releases.npz", **given)


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


def program_of(given: dict[str, Any]) -> Any:
    """What the methods know of an exported network's program."""
    n_d = 2 * int(given["served"].sum())
    return types.SimpleNamespace(
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


class Network:
    """An exported network with its batches."""

    def __init__(self, name: str, folder: Path, engine: Engine) -> None:
        with np.load(folder / f"{name}-releases.npz") as file:
            self.given: dict[str, Any] = dict(file)
        self.program = program_of(self.given)
        self._networks = [load_network(folder / f"{name}-{kind}.npz") for kind in ("dispatch", "joint")]
        self.n_bus = int(self._networks[0].grid.n_bus)
        self.engine, self.batches = engine, PowerBatches(self.program, *self._networks, engine)

    def optimum(self, demand: Any) -> Any:
        """O(d) of public demands."""
        half = demand.shape[1] // 2
        found = BatchSolver(self._networks[0], self.engine).dispatch(
            Scenarios(demand_p=demand[:, :half], demand_q=demand[:, half:]), keep=False
        )
        if not found.converged.all():
            raise SystemExit("a public optimum was not found")
        return found.cost

    def releases(self, noisy: Any, target: Bands, options: argparse.Namespace) -> dict[str, Any]:
        """Make all releases together, as often as asked for, and count the last time."""
        seconds = []
        for _ in range(options.runs):
            begin = time.perf_counter()
            parts = list(release_together(self.batches.rows, self.program, noisy, target))
            seconds.append(time.perf_counter() - begin)
        delta = np.concatenate([rows.delta for rows in parts])
        handed_over = np.concatenate([rows.handed_over for rows in parts])
        made = int(np.isfinite(delta).sum())
        found = {
            "engine": self.engine.name,
            "releases": len(noisy),
            "verified": made,
            "seconds": seconds[-1],
            "per_second": made / seconds[-1],
            "seconds_of_runs": seconds,
            "handed_over": {
                HandOver(why).name: int((handed_over == why).sum()) for why in np.unique(handed_over[handed_over > 0])
            },
            **_where_time_went(parts),
        }
        if options.all:
            found |= self._handed_over(noisy, target, delta, options.at_once)
        return found | {"_delta": delta}

    def _handed_over(self, noisy: Any, target: Bands, delta: Any, at_once: int) -> dict[str, Any]:
        """Make the releases that were handed over, in threads; their distances are filled in."""
        left, nobody, begin = np.flatnonzero(np.isnan(delta)), _Nobody(self.program), time.perf_counter()
        jobs = [partial(_release, target, row, noisy[row]) for row in left]
        for index, outcome in run_together(jobs, nobody, self.batches, at_once=at_once):
            delta[left[index]] = outcome.get().delta
        return {
            "handed_over_seconds": time.perf_counter() - begin,
            "handed_over_verified": int(np.isfinite(delta[left]).sum()),
            "unsolved_by_batches": nobody.asked,
        }


def _release(target: Bands, row: int, noisy: Any, backend: Any) -> Any:
    band = CostTarget(value=float(target.value[row]), beta=float(target.beta[row]), source=CostTargetMode.PUBLIC)
    return solve_auto(backend, noisy, band)


def _where_time_went(parts: list[ReleasedRows]) -> dict[str, Any]:
    """How often the host looked at what had ended, how long it waited for that, and how many problems there were."""
    turns = [turn for rows in parts for turn in rows.turns]
    joint, dispatches = (
        np.array([getattr(turn, name) for turn in turns]).sum(axis=0) for name in ("joint", "dispatches")
    )
    return {
        "turns": len(turns),
        "waiting_seconds": sum(turn.waiting for turn in turns),
        "iterations": sum(turn.iterations for turn in turns),
        "each": [
            f"{sum(turn.joint)}+{sum(turn.dispatches)}: waited {1e3 * turn.waiting:.0f} of {1e3 * turn.seconds:.0f} ms"
            for turn in turns
        ],
        "problems": dict(zip(PROBLEMS, [*joint.tolist(), *dispatches.tolist()], strict=True)),
    }


def run(name: str, engine: Engine, releases: int, options: argparse.Namespace) -> dict[str, Any]:
    """Make releases of one network together, and compare the first with single ones."""
    network = Network(name, options.data, engine)
    given, settings = network.given, [tuple(setting) for setting in network.given["settings"]]
    each = releases // len(settings)
    noisy = np.stack([noisy_demands(given, alpha, seed) for alpha, _ in settings for seed in range(each)])
    cost = float(given["cost"])
    target = Bands(np.full(len(noisy), cost), np.repeat([beta * cost for _, beta in settings], each))
    found = network.releases(noisy, target, options)
    expected = given["delta"][:, :each]
    delta = found.pop("_delta").reshape(len(settings), each)[:, : expected.shape[1]]
    gap = (np.abs(delta - expected) / np.maximum(expected, 1e-6))[np.isfinite(expected)]
    compared = {
        "references": len(gap),
        "references_handed_over": int(np.isnan(gap).sum()),
        "same_delta": int((gap <= SAME).sum()),
        "within_1e-6": int((gap <= 1e-6).sum()),
        "worst_delta_gap": float(np.nanmax(gap, initial=0.0)),
        "reference_seconds": float(given["reference_seconds"]),
    }
    return {"case": name, **found, **compared}


def year(name: str, engine: Engine, hours: int, options: argparse.Namespace) -> dict[str, Any]:
    """Make a release of every hour, with loads that follow the pattern of bench/year_of_releases.py."""
    network, hour = Network(name, options.data, engine), np.arange(hours)
    day, season = (0.5 + 0.5 * np.cos(2 * np.pi * turn) for turn in ((hour - 18) / DAY, hour / YEAR))
    scale = (0.70 + 0.20 * day + 0.10 * season) * np.where(hour % WEEK >= 5 * DAY, 0.9, 1.0)
    values = network.given["values"][network.given["served"]]
    cost = network.optimum(scale[:, None] * np.concatenate([values.real, values.imag]))
    noisy = np.stack([noisy_demands(network.given, ALPHA, one, scale[one]) for one in range(hours)])
    found = network.releases(noisy, Bands(cost, BETA * cost), options)
    found.pop("_delta")
    return {"case": f"{name}, {hours} hours", **found}


def lines(given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """What a command line asks for, network by network."""
    engine = engine_for(BatchEngine(given.engine))
    assert engine is not None  # neither choice is the structured solver
    if given.what == "year":
        yield year(given.case, engine, given.releases or YEAR, given)
    elif given.case != "paper":
        yield run(given.case, engine, given.releases or 1000, given)
    else:
        for path in sorted(given.data.glob("paper-*-releases.npz")):
            name = path.name.removesuffix("-releases.npz")
            yield run(name, engine, given.releases or len(PAPER) * PAPER_SEEDS, given)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("export", "run", "year"))
    parser.add_argument("case")
    parser.add_argument("--from", dest="source", type=Path, help="folder of the paper's networks")
    parser.add_argument("--releases", type=int)
    parser.add_argument("--references", type=int, default=20)
    parser.add_argument("--engine", choices=("gpu", "native"), default="gpu")
    parser.add_argument("--runs", type=int, default=2, help="the first may compile kernels; the last counts")
    parser.add_argument("--all", action="store_true", help="also make what was handed over, in threads")
    parser.add_argument("--at-once", type=int, default=2048, help="threads for that")
    parser.add_argument("--data", type=Path, default=Path(".gpu-data"))
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.what == "export" and given.case == "paper":
        for path in sorted(given.source.glob("nesta_*.m")):
            name = f"paper-{path.stem.removeprefix('nesta_')}"
            if not (given.data / f"{name}-releases.npz").exists():
                export(name, path.absolute(), PAPER, given.references, given.data)
        return
    if given.what == "export":
        export(given.case, None, ((ALPHA, BETA),), given.references, given.data)
        return
    for line in lines(given):
        print(json.dumps(line), flush=True)
        if given.out is not None:
            with given.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
