"""Throughput of batches of optimal power flows: GPU beside native, on the same scenarios, from files of bench/batch_export.py.

    python bench/batch.py [--engine gpu] [--runs case118_ieee:1000000,case118_ieee:1000:32] [--data .gpu-data] [--cold]
        [--beside 200]

A run is CASE:SCENARIOS[:LANES[:BOUNDS]], BOUNDS as 2/3/4/4/4 (device_kernels.BOUNDS). Loads are ±10 % of the file's,
independently in P and Q of every load. Every scenario is checked. Scenarios start at the optimum for the file's own loads,
which is found anew within the time; with ``--cold`` from scratch. Times, after a batch to warm up: of the kernels alone; with
the transfer of loads there and of costs, statuses and residuals back ("costs"); and with the primal and dual points back as
well ("points"). One JSON line per run goes to --out. Needs NumPy, and CuPy for the GPU; nothing else.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from gridveil.solvers.batch.contract import BatchAnswer, BatchStatus, Scenarios
from gridveil.solvers.batch.device_kernels import kernels_for
from gridveil.solvers.batch.draws import uniform_rows
from gridveil.solvers.batch.engine import Engine
from gridveil.solvers.batch.engine_gpu import GpuEngine
from gridveil.solvers.batch.network import load_network
from gridveil.solvers.batch.solver import BatchSolver

SEED, SPREAD = 7, 0.1
RUNS = (
    "case118_ieee:1000,case118_ieee:10000,case118_ieee:1000000,case300_ieee:400000,case1354_pegase:200000,"
    "case2869_pegase:60000,case9241_pegase:6000"
)
WARM_UP = 200  # scenarios that are solved before the clock runs, if not all of them are
MOST_TWICE = 119_000_000  # bus voltages of a batch that is solved twice, the first time to warm up
MOST_POINT_BYTES = 8e9  # of points that are fetched to measure their transfer


def shaken(demand_p: Any, demand_q: Any, spread: float, seed: int, begin: int, end: int) -> Scenarios:
    """Scenarios begin … end − 1: every load up to ``spread`` away from its demand; the first is as in the file."""
    n_load = len(demand_p)
    factor = 1.0 + spread * (2.0 * uniform_rows(seed, 0, begin, end, 2 * n_load) - 1.0)
    if begin == 0:
        factor[0] = 1.0
    return Scenarios(demand_p=factor[:, :n_load] * demand_p, demand_q=factor[:, n_load:] * demand_q)


def engine_of(name: str, lanes: int | None, bounds: str = "") -> Engine:
    """The engine of that name."""
    if name == "gpu":
        from gridveil.solvers.batch.device_kernels import BOUNDS

        return GpuEngine(lanes, tuple(map(int, bounds.split("/"))) if bounds else BOUNDS)
    from gridveil.solvers.batch.engine_native import NativeEngine

    return NativeEngine()


LANES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


def measured(path: Path, engine: Engine, count: int, cold: bool, phases: bool) -> dict[str, Any]:
    """One run: a batch to warm up, the same batch timed, and once more with its points."""
    network = load_network(path)
    with np.load(path) as file:
        demand_p, demand_q, reference = file["demand_p"], file["demand_q"], file["reference_costs"]
    usual = None if cold else (demand_p, demand_q)
    solver = BatchSolver(network, engine, usual=usual)
    scenarios = shaken(demand_p, demand_q, SPREAD, SEED, 0, count)
    begin = time.perf_counter()
    if isinstance(engine, GpuEngine):
        for lanes in LANES:  # whichever the batch comes to need is not compiled within the time
            kernels_for(lanes, engine.bounds, network.rows)
    few = count * network.grid.n_bus <= MOST_TWICE
    solver.dispatch(scenarios if few else scenarios.rows(slice(0, WARM_UP)), keep=False)
    first = time.perf_counter() - begin
    solver = BatchSolver(network, engine, usual=usual)
    answer = solver.dispatch(scenarios, keep=False)
    timing = solver.timing
    solved = int(answer.converged.sum())
    row = {
        "case": path.stem,
        "engine": engine.name,
        "start": "cold" if cold else "usual optimum",
        "scenarios": count,
        "solved": solved,
        "statuses": _counted(answer),
        "iterations_mean": float(answer.iterations[answer.converged].mean()),
        "iterations_max": int(answer.iterations.max()),
        "factorisations_mean": float(answer.factorisations.mean()),
        "worst_residual": float(answer.residuals[answer.converged].max()),
        "per_second_kernels": solved / timing.kernels,
        "per_second_costs": solved / (timing.kernels + timing.transfers),
        "check_seconds": timing.check,
        "first_seconds": first,
        **_against(reference, answer),
        **getattr(engine, "last", {}),
    }
    if 8.0 * count * network.sizes(False)["n_point"] <= MOST_POINT_BYTES:
        solver.dispatch(scenarios, keep=True)
        row["per_second_points"] = solved / (solver.timing.kernels + solver.timing.transfers)
    if phases:
        engine.phases = {}  # type: ignore[attr-defined]
        solver.dispatch(scenarios, keep=False)
        row["phases"] = {k: round(v, 4) for k, v in engine.phases.items() if k != "last"}  # type: ignore[attr-defined]
        engine.phases = None  # type: ignore[attr-defined]
    return row


def _counted(answer: BatchAnswer) -> dict[str, int]:
    codes, counts = np.unique(answer.status, return_counts=True)
    return {BatchStatus(code).name: int(count) for code, count in zip(codes, counts, strict=True)}


def _against(reference: np.ndarray, answer: BatchAnswer) -> dict[str, Any]:
    """Agreement with the structured solver's costs of the first scenarios."""
    n = min(len(reference), len(answer.cost))
    known, solved = np.isfinite(reference[:n]), answer.converged[:n]
    both = known & solved
    gap = np.abs(answer.cost[:n][both] / reference[:n][both] - 1.0)
    return {
        "references": int(known.sum()),
        "references_missed": int((known & ~solved).sum()),
        "worst_cost_gap": float(gap.max(initial=0.0)),
    }


def main() -> None:
    """Read the command line and make all runs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", choices=("gpu", "native"), default="gpu")
    parser.add_argument("--runs", default=RUNS)
    parser.add_argument("--data", type=Path, default=Path(".gpu-data"))
    parser.add_argument("--beside", type=int, default=0, help="scenarios of each case for the native engine beside it")
    parser.add_argument("--cold", action="store_true", help="start from scratch")
    parser.add_argument("--phases", action="store_true", help="also time each kernel")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.engine == "gpu":
        from gridveil.solvers.batch.device_kernels import device_facts

        print(json.dumps(device_facts()), flush=True)
    seen: set[str] = set()
    for run in given.runs.split(","):
        name, count, lanes, bounds = [*run.split(":"), "", ""][:4]
        engine = engine_of(given.engine, int(lanes) if lanes else None, bounds)
        row = measured(given.data / f"{name}.npz", engine, int(count), given.cold, given.phases)
        report(row | ({"bounds": bounds} if bounds else {}), given.out)
        if given.engine == "gpu":
            from gridveil.solvers.batch.device_kernels import registers

            used = (engine.last["lanes"], engine.bounds)  # type: ignore[attr-defined]
            if str(used) not in seen:
                report({"lanes": used[0], "bounds": used[1], "registers_and_spilt_bytes": registers(*used)}, given.out)
            seen.add(str(used))
        if given.beside and name not in seen:
            seen.add(name)
            beside = measured(given.data / f"{name}.npz", engine_of("native", None), given.beside, given.cold, False)
            report(beside, given.out)


def report(row: dict[str, Any], out: Path | None) -> None:
    """Print a row, and append it to the file."""
    line = json.dumps({key: float(f"{value:.6g}") if isinstance(value, float) else value for key, value in row.items()})
    print(line, flush=True)
    if out is not None:
        with out.open("a", encoding="utf-8") as file:
            file.write(line + "\n")


if __name__ == "__main__":
    main()
