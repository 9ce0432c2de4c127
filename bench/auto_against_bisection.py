"""The method auto beside Algorithm 1 (η = 1e-5): distance, solves, seconds, and what can be certified.

    python bench/auto_against_bisection.py ROWS.jsonl [--seeds 20] [--networks case14_ieee,24-pipe,...] [--alphas 0.1,1,10]

Rows are appended one by one to the file, and rows already there are not computed again; two processes may write to the same
file if their networks differ. The ratio is over releases that need the bilevel step and that both methods verified.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import numpy as np

from conftest import data_folder
from gridveil.bilevel.certificate import certify
from gridveil.bilevel.methods.algorithm1 import solve_bilevel
from gridveil.bilevel.methods.auto import solve_auto
from gridveil.bilevel.methods.settings import BisectionSettings
from gridveil.core.band import CostTarget
from gridveil.core.choices import CostTargetMode
from gridveil.core.methods import Solver
from gridveil.privacy.curator import published_values
from gridveil.privacy.mechanisms.simulation import NoiseSites, simulate_laplace
from gridveil.sectors.case import Case
from gridveil.sectors.gas.boundary import preset_boundary
from gridveil.sectors.registry import build_model, load_case
from gridveil.solvers.registry import backend_for
from gridveil.solvers.solves import Solves
from gridveil.study.trial import noise_stream

UP_TO_300 = [
    "case14_ieee", "case24_ieee_rts", "case29_edin", "case30_as", "case30_fsr", "case30_ieee", "case39_epri", "case57_ieee",
    "case73_ieee_rts", "case89_pegase", "case118_ieee", "case162_ieee_dtc", "case189_edin", "case240_wecc", "case300_ieee",
]  # fmt: skip
GAS = {"24-pipe": "case-30.m", "gaslib-40": "gaslib-40-E.m", "gaslib-135": "gaslib-135-F.m"}
ETA = 1e-5
BETAS = (0.01, 0.001)
GAS_LARGEST_ALPHA = 1.0

Row = dict[str, float | str | int | bool | None]


def load_network(name: str) -> Case:
    """Read one of the paper's networks, gas under the boundary conditions of our preset."""
    if name in GAS:
        return load_case(str(data_folder() / "gas" / GAS[name]), preset_boundary(name))
    return load_case(str(data_folder() / "nesta" / f"nesta_{name}.m"))


def run_network(name: str, alphas: list[float], seeds: int, rows: Path, done: set[tuple[object, ...]]) -> None:
    """Compute and append the missing rows of one network."""
    case = load_network(name)
    model = build_model(case.network)
    backend = backend_for(model, Solver.STRUCTURED)
    true = Solves(backend).afresh(model.layout.to_program(published_values(case)))
    for alpha in alphas:
        for beta in BETAS:
            band = CostTarget(value=true.cost, beta=beta * true.cost, source=CostTargetMode.PUBLIC)
            for seed in range(seeds):
                if (name, alpha, beta, seed) in done or (name in GAS and alpha > GAS_LARGEST_ALPHA):
                    continue
                stream = noise_stream(name, seed)
                noisy = simulate_laplace(case.values, epsilon=1.0, alpha=alpha, seed=stream, sites=NoiseSites.POSITIVE)
                d = model.layout.to_program(noisy.values)
                auto, paper = solve_auto(backend, d, band), solve_bilevel(backend, d, band, BisectionSettings(eta=ETA))
                proof = certify(case.network, model, d, band, auto) if auto.verified and beta == BETAS[0] else None
                row: Row = {
                    "network": name,
                    "alpha": alpha,
                    "beta": beta,
                    "seed": seed,
                    "auto_ending": auto.ending.name,
                    "paper_ending": paper.ending.name,
                    "auto": _finite(auto.delta),
                    "paper": _finite(paper.delta),
                    "auto_solves": auto.optimisations,
                    "paper_solves": paper.optimisations,
                    "auto_seconds": auto.seconds,
                    "paper_seconds": paper.seconds,
                    "global": proof.band == "global" if proof else None,
                    "gap": proof.gap if proof else None,
                }
                with rows.open("a") as file:
                    file.write(json.dumps(row) + "\n")


def print_table(rows: list[Row]) -> None:
    """One line per network, α and β, then one for all."""
    print(
        f"{'network':18} {'alpha':>5} {'beta':>6} {'auto':>7} {'Alg. 1':>7} {'both':>5} {'mean':>7} {'p95':>8} {'worst':>8} "
        f"{'solves':>13} {'share':>6} {'seconds':>15} {'global':>8} {'med. gap':>8}"
    )
    keys = list(dict.fromkeys((row["network"], row["alpha"], row["beta"]) for row in rows))
    for key in keys:
        _print_line(key, [row for row in rows if (row["network"], row["alpha"], row["beta"]) == key])
    _print_line(("all", 0.0, 0.0), rows)


def _print_line(key: tuple[object, ...], rows: list[Row]) -> None:
    needed = [row for row in rows if row["auto"] is not None and row["paper"] is not None and row["paper_solves"] != 1]
    ratios = np.array([_number(row["auto"]) / _number(row["paper"]) for row in needed if row["paper"]])
    solves = [
        np.mean([_number(row[name]) for row in needed]) if needed else math.nan
        for name in ("auto_solves", "paper_solves")
    ]
    times = [
        np.mean([_number(row[name]) for row in needed]) if needed else math.nan
        for name in ("auto_seconds", "paper_seconds")
    ]
    judged = [row for row in rows if row["global"] is not None]
    gaps = [_number(row["gap"]) for row in judged if row["gap"] is not None]
    statistics = (ratios.mean(), np.quantile(ratios, 0.95), ratios.max()) if len(ratios) else (math.nan,) * 3
    auto, paper = (sum(row[name] is not None for row in rows) for name in ("auto", "paper"))
    proved = sum(bool(row["global"]) for row in judged)
    cells = [
        f"{key[0]:18} {key[1]:5g} {key[2]:6g} {auto:3d}/{len(rows):<3d} {paper:3d}/{len(rows):<3d} {len(needed):5d}",
        f"{statistics[0]:7.4f} {statistics[1]:8.4f} {statistics[2]:8.4f}",
        f"{solves[0]:5.1f} / {solves[1]:5.1f} {solves[0] / solves[1]:6.2f} {times[0]:6.3f} / {times[1]:6.3f}",
        f"{proved:3d}/{len(judged):<4d} {np.median(gaps) if gaps else math.nan:8.3f}",
    ]
    print(" ".join(cells))


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else math.nan


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _read(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def main() -> None:
    """Compute what is missing, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--alphas", default="0.1,1,10")
    parser.add_argument("--networks", default=",".join([*UP_TO_300, *GAS]))
    options = parser.parse_args()
    alphas = [float(alpha) for alpha in options.alphas.split(",")]
    networks = options.networks.split(",")
    for name in networks:
        done = {(row["network"], row["alpha"], row["beta"], row["seed"]) for row in _read(options.rows)}
        run_network(name, alphas, options.seeds, options.rows, done)
    print_table([row for row in _read(options.rows) if row["network"] in networks and row["alpha"] in alphas])


if __name__ == "__main__":
    main()
