"""Releases of costs, ratings and impedances on PGLib networks, and on the settings of others who published such methods.

    python bench/further_secrets.py ROWS.jsonl [--networks case14_ieee,...] [--seeds 20]

The table secret × network comes from ``gridveil study run secrets``. This script adds the anchors:

- *ratings*: case73, limit=30MVA, ε = 1: the setting of wdvorkin/SyntheticData, with ratings × 0.8 instead of × 0.6: that is
  a DC setting there, and the AC flow has no solution below × 0.8 (in steps of 0.05);
- *impedances*: impedance=1%, ε = 1: α of PowerModelsPrivacyPreserving.jl, at β = 1 % instead of 50 %, and with one budget
  for all that is drawn of a branch.

Rows are appended one by one, and rows already there are not computed again. The cost target is the true optimum, which is
public here. Distances are relative, in units of α; cost errors are relative.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from gridveil.bilevel.methods import method_named
from gridveil.core.band import Tolerance
from gridveil.core.choices import CostTargetMode
from gridveil.core.deadline import time_limit, usual_time_limit
from gridveil.core.methods import Method
from gridveil.core.secret_choice import parse_secrets
from gridveil.privacy.curator import Curator
from gridveil.privacy.mechanisms.simulation import simulate_noise
from gridveil.sectors.case import Case
from gridveil.sectors.power.network import PowerNetwork
from gridveil.sectors.registry import build_model, load_case, sector_of
from gridveil.service.secrets import with_secrets
from gridveil.solvers.ipopt import IpoptBackend
from gridveil.solvers.solves import Solves
from gridveil.study.trial import noise_stream

RATINGS = ("case73_ieee_rts × 0.8", "limit=30MVA")
IMPEDANCE = "impedance=1%"
NETWORKS = ["case14_ieee", "case30_ieee", "case57_ieee", "case118_ieee", "case300_ieee", "case500_goc"]
BETA = "1%"


def tight_ratings(share: float = 0.8) -> Case:
    """case73 with every rating reduced to a share of it."""
    case = load_case("case73_ieee_rts")
    network = case.network
    assert isinstance(network, PowerNetwork)
    branch = replace(network.branch, rate=share * network.branch.rate)
    return replace(case, network=replace(network, branch=branch))


def run(name: str, case: Case, secret: str, seeds: int, rows: Path, known: set[tuple[str, str, int]]) -> None:
    """Compute and append the rows of one network."""
    hidden = with_secrets(case, parse_secrets(secret))
    model = build_model(hidden.network)
    backend = IpoptBackend(model.program)
    true = Solves(backend).afresh(model.layout.to_program(hidden.values.reveal()))  # public benchmark data
    assert true.converged, f"{name}: {true.detail}"
    band = Tolerance.parse(BETA).around(true.cost, CostTargetMode.PUBLIC)
    for seed in range(seeds):
        if (name, secret, seed) in known:
            continue
        noisy = simulate_noise(hidden.secret, epsilon=1.0, alpha=1.0, seed=noise_stream(f"{secret} {name}", seed))
        clock = time.perf_counter()
        with time_limit(usual_time_limit(sector_of(hidden.network).size(hidden.network))):
            found = method_named(Method.AUTO)(backend, model.layout.to_program(noisy.values), band)
        seconds, curator = time.perf_counter() - clock, Curator(hidden)
        row = {"network": name, "secret": secret, "seed": seed, "verified": found.verified, "seconds": seconds}
        row |= {"cost_error": None, "noisy_distance": curator.distance(noisy.values), "released_distance": None}
        row |= {"ending": found.ending.name}
        if found.d is not None:
            released = model.layout.to_sites(found.d, noisy.values)
            row |= {"cost_error": abs(found.cost / true.cost - 1), "released_distance": curator.distance(released)}
        with rows.open("a") as file:
            file.write(json.dumps(row) + "\n")


def table(rows: Path) -> None:
    """Print one line per secret and network."""
    found = [json.loads(line) for line in rows.read_text().splitlines()]
    for name, secret in sorted({(row["network"], row["secret"]) for row in found}):
        own = [row for row in found if (row["network"], row["secret"]) == (name, secret)]
        good = [row for row in own if row["verified"]]
        print(
            f"{secret:16} {name:24} verified {len(good)}/{len(own)}  distance noisy "
            f"{np.mean([row['noisy_distance'] for row in own]):.4f} released "
            f"{np.mean([row['released_distance'] for row in good]) if good else np.nan:.4f}  cost error "
            f"{max((row['cost_error'] for row in good), default=np.nan):.4f}  seconds "
            f"{np.mean([row['seconds'] for row in own]):.1f}"
        )


def main() -> None:
    """Compute what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path)
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--seeds", type=int, default=20)
    chosen = parser.parse_args()
    lines = chosen.rows.read_text().splitlines() if chosen.rows.exists() else []
    known = {(row["network"], row["secret"], row["seed"]) for row in map(json.loads, lines)}
    run(RATINGS[0], tight_ratings(), RATINGS[1], chosen.seeds, chosen.rows, known)
    for name in chosen.networks.split(","):
        run(name, load_case(name), IMPEDANCE, chosen.seeds, chosen.rows, known)
    table(chosen.rows)


if __name__ == "__main__":
    main()
