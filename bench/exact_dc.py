"""How far Algorithm 1 and the method auto end from the true bilevel optimum, on DC networks that can be solved exactly.

    python bench/exact_dc.py ROWS.jsonl [--alpha 0.1] [--beta 0.01] [--seeds 20] [--networks case5_pjm,...] [--time-limit 60]

Rows are appended one by one to the file, and rows already there are not computed again. The noise is scalar Laplace of
scale α/ε, ε = 1, on the active demand of every served load, per unit; the cost target is the true optimum (public here).
δ is the squared distance ‖d − d̃‖²; Algorithm 1 runs with η = 1e-5 on δ. Ratios are over the releases that need the
bilevel step: those where the high-point relaxation alone does not reach the band.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import numpy as np

from gridveil.bilevel.exact_dc import exact_bilevel_dc
from gridveil.bilevel.methods.algorithm1 import solve_bilevel
from gridveil.bilevel.methods.auto import solve_auto
from gridveil.bilevel.methods.settings import BisectionSettings
from gridveil.core.band import CostTarget
from gridveil.core.choices import CostTargetMode
from gridveil.core.secret import SecretValues
from gridveil.privacy.mechanisms.simulation import simulate_laplace
from gridveil.sectors.power.dcopf import dc_opf
from gridveil.sectors.power.network import PowerNetwork
from gridveil.sectors.registry import load_case
from gridveil.solvers.ipopt import IpoptBackend
from gridveil.solvers.solves import Solves
from gridveil.study.trial import noise_stream

NETWORKS = ["case5_pjm", "case14_ieee", "case24_ieee_rts", "case30_ieee", "case39_epri"]
ETA = 1e-5
WITHIN = 1.01  # the share of seeds with δ within 1 % of the optimum is reported

Row = dict[str, float | str | int | bool | None]


def run_network(name: str, alpha: float, beta: float, seeds: list[int], time_limit: float, rows: Path) -> None:
    """Compute and append the rows of one network."""
    case = load_case(name)
    network = case.network
    assert isinstance(network, PowerNetwork)
    backend = IpoptBackend(dc_opf(network))
    active = SecretValues(case.values.reveal().real[network.served])  # public benchmark data
    true = Solves(backend).afresh(active.reveal())
    assert true.converged, f"{name}: {true.detail}"
    band = CostTarget(value=true.cost, beta=beta * true.cost, source=CostTargetMode.PUBLIC)
    for seed in seeds:
        # A stream of its own for each network: with a common one, a lucky draw would repeat in every row of the table.
        stream = noise_stream(name, seed)
        noisy = simulate_laplace(active, epsilon=1.0, alpha=alpha, seed=stream).values
        exact = exact_bilevel_dc(network, noisy, band, time_limit=time_limit)
        paper = solve_bilevel(backend, noisy, band, BisectionSettings(eta=ETA))
        auto = solve_auto(backend, noisy, band)
        row: Row = {
            "network": name,
            "alpha": alpha,
            "beta": beta,
            "seed": seed,
            "status": exact.status.name,
            "convex": exact.convex,
            "exact": _finite(exact.delta),
            "gap": _finite(exact.gap),
            "exact_seconds": exact.seconds,
            "ending": paper.ending.name,
            "paper": _finite(paper.delta),
            "optimisations": paper.optimisations,
            "paper_seconds": paper.seconds,
            "auto": _finite(auto.delta),
            "auto_optimisations": auto.optimisations,
        }
        with rows.open("a") as file:
            file.write(json.dumps(row) + "\n")


def print_table(rows: list[Row]) -> None:
    """One line per draw that needs the bilevel step, then one per network."""
    print(
        f"{'network':16} {'seed':>4} {'exact':>12} {'gap':>8} {'Algorithm 1':>12} {'ratio':>9} "
        f"{'auto':>12} {'ratio':>9} {'s exact':>8}"
    )
    for row in rows:
        if not row["convex"]:
            ratio, auto_ratio = _ratio(row, "paper"), _ratio(row, "auto")
            print(
                f"{row['network']:16} {row['seed']:4d} {_number(row['exact']):12.6g} {_number(row['gap']):8.1e} "
                f"{_number(row['paper']):12.6g} {ratio:9.4f} {_number(row['auto']):12.6g} {auto_ratio:9.4f} "
                f"{row['exact_seconds']:8.2f}"
                + ("" if row["status"] == "OPTIMAL" else f"  {row['status']}")
                + ("" if math.isfinite(ratio) else f"  {row['ending']}")
            )
    print()
    print(
        f"{'network':16} {'method':12} {'draws':>5} {'proven':>6} {'bilevel':>7} {'no point':>8} {'ratio mean':>10} "
        f"{'median':>8} {'worst':>9} {'within 1 %':>10} {'solves':>7}"
    )
    for name in dict.fromkeys(str(row["network"]) for row in rows):
        mine = [row for row in rows if row["network"] == name]
        hard = [row for row in mine if not row["convex"]]
        for method, label, solves in (
            ("paper", "Algorithm 1", "optimisations"),
            ("auto", "auto", "auto_optimisations"),
        ):
            ratios = np.array([_ratio(row, method) for row in hard])
            known = ratios[np.isfinite(ratios)] if np.any(np.isfinite(ratios)) else np.array([np.nan])
            print(
                f"{name:16} {label:12} {len(mine):5d} {sum(row['status'] == 'OPTIMAL' for row in mine):6d} {len(hard):7d} "
                f"{sum(row[method] is None for row in mine):8d} {known.mean():10.4f} {np.median(known):8.4f} "
                f"{known.max():9.4f} {np.sum(ratios <= WITHIN):5d}/{len(hard):<4d} "
                f"{np.mean([_number(row[solves]) for row in hard]) if hard else float('nan'):7.1f}"
            )


def _ratio(row: Row, method: str) -> float:
    """δ of a method over the exact δ; NaN where either has no point."""
    return _number(row[method]) / _number(row["exact"])


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else float("nan")


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def main() -> None:
    """Compute what is missing, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path)
    parser.add_argument("--alpha", type=float, default=0.1)
    parser.add_argument("--beta", type=float, default=0.01)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--time-limit", type=float, default=60.0)
    options = parser.parse_args()
    networks = options.networks.split(",")
    for name in networks:
        done = {row["seed"] for row in _read(options) if row["network"] == name}
        missing = [seed for seed in range(options.seeds) if seed not in done]
        if missing:
            run_network(name, options.alpha, options.beta, missing, options.time_limit, options.rows)
    print_table([row for row in _read(options) if row["network"] in networks])


def _read(options: argparse.Namespace) -> list[Row]:
    if not options.rows.exists():
        return []
    rows: list[Row] = [json.loads(line) for line in options.rows.read_text().splitlines()]
    return [row for row in rows if (row["alpha"], row["beta"]) == (options.alpha, options.beta)]


if __name__ == "__main__":
    main()
