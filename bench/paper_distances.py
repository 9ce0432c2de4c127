"""Algorithm 1 on the paper's networks: distances and costs beside the published tables, with standard errors.

    python bench/paper_distances.py ROWS.jsonl [--alpha 0.1] [--beta 0.01] [--seeds 10] [--networks case14_ieee,24-pipe,...]

Rows are appended one by one to the file, and rows already there are not computed again. The noise is the paper's: planar
Laplace on loads with positive active power, ε = 1; scalar Laplace on gas demands, α in units of the preset's flow base.
Distances are ‖· − d°‖/‖d°‖, for power over active and reactive demand.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import sys
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import numpy as np

from conftest import data_folder
from gridveil.bilevel.algorithm1 import solve_bilevel
from gridveil.bilevel.auto import solve_auto
from gridveil.bilevel.engines import engine_for
from gridveil.bilevel.method import Method, Solver
from gridveil.networks.case import Case
from gridveil.networks.gas_boundary import preset_boundary
from gridveil.networks.load import load_case
from gridveil.networks.model import build_model
from gridveil.privacy.curator import solve_true
from gridveil.privacy.noisy import CostTarget, TargetSource
from gridveil.privacy.simulation import NoiseSites, simulate_laplace

UP_TO_118 = [
    "case14_ieee", "case24_ieee_rts", "case29_edin", "case30_as", "case30_fsr", "case30_ieee", "case39_epri", "case57_ieee",
    "case73_ieee_rts", "case89_pegase", "case118_ieee",
]  # fmt: skip
UP_TO_300 = [*UP_TO_118, "case162_ieee_dtc", "case189_edin", "case240_wecc", "case300_ieee"]
GAS = {"24-pipe": "case-30.m", "gaslib-40": "gaslib-40-E.m", "gaslib-135": "gaslib-135-F.m"}
PAPER_RUNS = 50
METHODS = ("laplace", "highpoint", "bilevel")

Row = dict[str, float | str | int | bool | None]


def load_network(name: str) -> Case:
    """Read one of the paper's networks, gas under the boundary conditions of our preset."""
    if name in GAS:
        return load_case(str(data_folder() / "gas" / GAS[name]), preset_boundary(name))
    return load_case(str(data_folder() / "nesta" / f"nesta_{name}.m"))


def run_network(name: str, options: argparse.Namespace, seeds: list[int]) -> None:
    """Compute and append the rows of one network."""
    case = load_network(name)
    model = build_model(case.network)
    engine = engine_for(case.network, model, Solver(options.solver))
    alpha, beta, method = options.alpha, options.beta, Method(options.method)
    true = solve_true(case, model, engine.solve_afresh)
    truth = model.layout.to_program(case.demand.reveal())  # public benchmark data
    norm = float(np.linalg.norm(truth))
    band = CostTarget(value=true.cost, beta=beta * true.cost, source=TargetSource.PUBLIC)
    for seed in seeds:
        # A stream of its own for each network: with a common one, a lucky draw would repeat in every row of the table.
        stream = zlib.crc32(f"{name} {seed}".encode())
        noisy = simulate_laplace(case.demand, epsilon=1.0, alpha=alpha, seed=stream, sites=NoiseSites.POSITIVE)
        d_noisy = model.layout.to_program(noisy.values)
        result = (solve_auto if method is Method.AUTO else solve_bilevel)(engine, d_noisy, band)
        high = result.highpoint
        row: Row = {
            "network": name,
            "alpha": alpha,
            "beta": beta,
            "seed": seed,
            "method": options.method,
            "solver": options.solver,
            "ending": result.ending.name,
            "verified": result.verified,
            "laplace": float(np.linalg.norm(d_noisy - truth)) / norm,
            "highpoint": float(np.linalg.norm(high.d - truth)) / norm if high else None,
            "bilevel": float(np.linalg.norm(result.d - truth)) / norm if result.d is not None else None,
            "highpoint_cost": 100 * (high.cost / true.cost - 1) if high and math.isfinite(high.cost) else None,
            "bilevel_cost": 100 * (result.cost / true.cost - 1) if result.verified else None,
            "optimisations": result.optimisations,
            "seconds": result.seconds,
            "follower_seconds": true.seconds,
            "monotone": result.monotonicity.holds,
        }
        with options.rows.open("a") as file:
            file.write(json.dumps(row) + "\n")


def published(alpha: float) -> dict[str, dict[str, float]]:
    """Distances of the paper's Tables V and VI: network → method → mean."""
    found: dict[str, dict[str, float]] = {}
    for name in ("power-dist.csv", "gas-dist.csv"):
        path = data_folder().parent / "paper" / "tables" / name
        if path.exists():
            with path.open() as file:
                for row in csv.DictReader(file):
                    if f"laplace a{alpha:g}" in row:
                        found[row["network"]] = {m: float(row[f"{m} a{alpha:g}"]) for m in METHODS}
    return found


def print_table(rows: list[Row], alpha: float) -> None:
    """Mean of each method, the paper's, and the difference in standard errors of both samples together."""
    paper = published(alpha)
    settings = ", ".join(f"{name} {rows[0][name]}" for name in ("beta", "method", "solver")) if rows else "no rows"
    print(f"alpha {alpha:g}, {settings}: mean (paper; difference in standard errors)")
    header = " ".join(f"{method:>22}" for method in METHODS)
    print(f"{'network':18} {'verified':>9} {header} {'cost HPR/BL %':>15} {'opt':>6} {'s':>7}")
    for name in dict.fromkeys(str(row["network"]) for row in rows):
        mine = [row for row in rows if row["network"] == name]
        good = sum(bool(row["verified"]) for row in mine)
        cells = [_cell([row[m] for row in mine], paper.get(name, {}).get(m)) for m in METHODS]
        costs = f"{_mean([r['highpoint_cost'] for r in mine]):7.2f}/{_mean([r['bilevel_cost'] for r in mine]):.2f}"
        print(
            f"{name:18} {good:4d}/{len(mine):<4d} " + " ".join(f"{cell:>22}" for cell in cells)
            + f" {costs:>15} {_mean([r['optimisations'] for r in mine]):6.1f} {_mean([r['seconds'] for r in mine]):7.2f}"
        )  # fmt: skip


def _mean(values: list[object]) -> float:
    numbers = [float(v) for v in values if v is not None]  # type: ignore[arg-type]
    return float(np.mean(numbers)) if numbers else float("nan")


def _cell(values: list[object], paper: float | None) -> str:
    numbers = np.array([float(v) for v in values if v is not None])  # type: ignore[arg-type]
    if paper is None or len(numbers) < 2:
        return f"{_mean(values):.3f}"
    error = float(numbers.std(ddof=1)) * math.sqrt(1 / len(numbers) + 1 / PAPER_RUNS)
    rounding = 0.005 / math.sqrt(3)  # the paper prints two decimals
    return f"{numbers.mean():.3f} ({paper:.2f}; {(numbers.mean() - paper) / math.hypot(error, rounding):+.1f})"


def main() -> None:
    """Compute what is missing, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path)
    parser.add_argument("--alpha", type=float, default=0.1)
    parser.add_argument("--beta", type=float, default=0.01)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--method", choices=[method.value for method in Method], default=Method.BISECTION.value)
    parser.add_argument("--solver", choices=[solver.value for solver in Solver], default=Solver.STRUCTURED.value)
    parser.add_argument("--networks", default=",".join(UP_TO_300))
    options = parser.parse_args()
    networks = options.networks.split(",")
    for name in networks:
        done = {row["seed"] for row in _read(options) if row["network"] == name}
        missing = [seed for seed in range(options.seeds) if seed not in done]
        if missing:
            run_network(name, options, missing)
    print_table([row for row in _read(options) if row["network"] in networks], options.alpha)


def _read(options: argparse.Namespace) -> list[Row]:
    if not options.rows.exists():
        return []
    rows: list[Row] = [json.loads(line) for line in options.rows.read_text().splitlines()]
    wanted = {name: getattr(options, name) for name in ("alpha", "beta", "method", "solver")}
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


if __name__ == "__main__":
    main()
