"""Releases of costs, ratings and impedances in the settings of others who published such methods, and against Ipopt alone.

    python bench/further_secrets.py ROWS.jsonl [--most-buses 3000] [--seeds 7]
    python bench/further_secrets.py ROWS.jsonl --against-ipopt [--most-buses 500] [--seeds 3]

The table secret × network comes from ``gridveil study run secrets``. This script adds the anchors:

- *ratings*: case73, limit=30MVA, ε = 1: the setting of wdvorkin/SyntheticData, with ratings × 0.8 instead of × 0.6: that is
  a DC setting there, and the AC flow has no solution below × 0.8 (in steps of 0.05);
- *impedances*: impedance=1%, ε = 1: α of PowerModelsPrivacyPreserving.jl, at β = 1 % instead of 50 %, and with one budget
  for all that is drawn of a branch. Networks are the typical ones of PGLib.

``--against-ipopt`` repeats releases of that study, with the usual solver and with Ipopt alone, on the same noise.

Rows are appended one by one, and rows already there are not computed again. The cost target is the true optimum, which is
public here. Distances are relative, in units of α; cost errors are relative; seconds are processor time.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gridveil.bilevel.methods import method_named
from gridveil.core.band import Tolerance
from gridveil.core.choices import CostTargetMode
from gridveil.core.deadline import time_limit
from gridveil.core.methods import Method, Solver
from gridveil.core.secret_choice import parse_secrets
from gridveil.privacy.curator import Curator
from gridveil.privacy.mechanisms.simulation import simulate_noise
from gridveil.sectors.builtin import pglib_names
from gridveil.sectors.case import Case
from gridveil.sectors.power.network import PowerNetwork
from gridveil.sectors.registry import build_model, load_case
from gridveil.service.secrets import with_secrets
from gridveil.solvers.registry import backend_for
from gridveil.solvers.solves import Solves
from gridveil.study.trial import noise_stream

RATINGS = ("case73_ieee_rts × 0.8", "limit=30MVA")
IMPEDANCE = "impedance=1%"
STUDIED = ["case14_ieee", "case30_ieee", "case57_ieee", "case118_ieee", "case300_ieee", "case500_goc"]
STUDIED += ["case1354_pegase", "case2000_goc", "case2869_pegase"]
EACH = {"cost": "cost=2$/MWh", "limit": "limit=20MVA", "impedance": "impedance=5%"}
EACH["all"] = "demand=1MVA,cost=2$/MWh,limit=20MVA,impedance=5%"
BETA = "1%"
DISTANCES = ("noisy_distance", "released_distance")
LIMIT = 1800.0  # seconds of a release: wall time, so that a busy machine ends none


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What one set of rows has in common."""

    network: str
    secret: str
    solver: Solver
    stream: str
    """Seeds are numbered within it; that of the study where its releases are repeated."""


def tight_ratings(share: float = 0.8) -> Case:
    """case73 with every rating reduced to a share of it."""
    case = load_case("case73_ieee_rts")
    network = case.network
    assert isinstance(network, PowerNetwork)
    branch = replace(network.branch, rate=share * network.branch.rate)
    return replace(case, network=replace(network, branch=branch))


def run(setting: Setting, case: Case, seeds: int, rows: Path) -> None:
    """Compute and append the rows of one setting."""
    missing = [seed for seed in range(seeds) if not any(_is_of(row, setting, seed) for row in read(rows))]
    if not missing:
        return
    hidden = with_secrets(case, parse_secrets(setting.secret))
    model = build_model(hidden.network)
    backend = backend_for(model, setting.solver)
    true = Solves(backend).afresh(model.layout.to_program(hidden.values.reveal()))  # public benchmark data
    assert true.converged, f"{setting.network}: {true.detail}"
    band = Tolerance.parse(BETA).around(true.cost, CostTargetMode.PUBLIC)
    for seed in missing:
        noisy = simulate_noise(hidden.secret, epsilon=1.0, alpha=1.0, seed=noise_stream(setting.stream, seed))
        clock = time.process_time()
        with time_limit(LIMIT):
            found = method_named(Method.AUTO)(backend, model.layout.to_program(noisy.values), band)
        seconds, curator = time.process_time() - clock, Curator(hidden)
        row = {"network": setting.network, "secret": setting.secret, "solver": setting.solver, "seed": seed}
        row |= {"verified": found.verified, "seconds": seconds, "ending": found.ending.name}
        row |= {"cost_error": None, "released_distance": None, "delta": None}
        row |= {"noisy_distance": curator.distance(noisy.values)}
        if found.d is not None:
            released = model.layout.to_sites(found.d, noisy.values)
            row |= {"cost_error": abs(found.cost / true.cost - 1), "released_distance": curator.distance(released)}
            row |= {"delta": found.delta}
        with rows.open("a") as file:
            file.write(json.dumps(row) + "\n")


def read(rows: Path) -> list[dict[str, Any]]:
    """All rows so far."""
    return [json.loads(line) for line in rows.read_text().splitlines()] if rows.exists() else []


def _is_of(row: dict[str, Any], setting: Setting, seed: int) -> bool:
    own = (setting.network, setting.secret, setting.solver, seed)
    return (row["network"], row["secret"], row["solver"], row["seed"]) == own


def anchors(most_buses: int, seeds: int, rows: Path) -> None:
    """The settings of others."""
    stream = f"{RATINGS[1]} {RATINGS[0]}"
    setting = Setting(network=RATINGS[0], secret=RATINGS[1], solver=Solver.STRUCTURED, stream=stream)
    run(setting, tight_ratings(), seeds, rows)
    typical = [name for name in pglib_names() if "__" not in name and size(name) <= most_buses]
    for name in sorted(typical, key=size):
        stream = f"{IMPEDANCE} {name}"
        run(
            Setting(network=name, secret=IMPEDANCE, solver=Solver.STRUCTURED, stream=stream),
            load_case(name),
            seeds,
            rows,
        )


def against_ipopt(most_buses: int, seeds: int, rows: Path) -> None:
    """The releases of the study ``secrets`` by both solvers."""
    for name in [one for one in STUDIED if size(one) <= most_buses]:
        for label, secret in EACH.items():
            for solver in (Solver.STRUCTURED, Solver.IPOPT):
                stream = f"{label} {name.removeprefix('case')}"
                run(Setting(network=name, secret=secret, solver=solver, stream=stream), load_case(name), seeds, rows)


def size(name: str) -> int:
    """Number of buses, by the name of a PGLib case."""
    return int(re.findall(r"\d+", name)[0])


def table(rows: list[dict[str, Any]], out: Path | None) -> None:
    """Print one line per secret, network and solver, and write them if asked to."""
    lines = []
    for key in dict.fromkeys((row["secret"], row["network"], row["solver"]) for row in rows):
        own = [row for row in rows if (row["secret"], row["network"], row["solver"]) == key]
        good = [row for row in own if row["verified"]]
        lines.append(
            dict(zip(("secret", "network", "solver"), key, strict=True))
            | {"seeds": len(own), "verified": len(good)}
            | {name: _digits([row[name] for row in good], np.median, 5) for name in DISTANCES}
            | {"cost_error_worst": _digits([row["cost_error"] for row in good], np.max, 5)}
            | {"seconds_median": _digits([row["seconds"] for row in own], np.median, 3)}
            | {"seconds_worst": _digits([row["seconds"] for row in own], np.max, 3)}
        )
    print("\n".join("  ".join(f"{value!s:>9}" for value in line.values()) for line in lines))
    print(f"verified {sum(row['verified'] for row in rows)} of {len(rows)}")
    if out is not None:
        with out.open("w", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=list(lines[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(lines)


def _digits(values: list[float], measure: Any, digits: int) -> str:
    """A measure of values, rounded; empty where there are none."""
    return f"{measure(values):.{digits}f}" if values else ""


def comparison(rows: list[dict[str, Any]]) -> None:
    """Print how far releases of the two solvers agree: pairs of the same noise."""
    by_ipopt = {_noise(row): row for row in rows if row["solver"] == Solver.IPOPT}
    pairs = [(row, by_ipopt[_noise(row)]) for row in rows if row["solver"] != Solver.IPOPT and _noise(row) in by_ipopt]
    both = [(a, b) for a, b in pairs if a["verified"] and b["verified"]]
    roots = [tuple(np.sqrt(one["delta"]) for one in pair) for pair in both]
    # Ipopt stops at a thousandth of α per value or so, where the noisy data themselves are in the band.
    farther = [a - b for a, b in roots if a > b * 1.01 + 0.01]
    nearer = [b - a for a, b in roots if b > a * 1.01 + 0.01]
    print(
        f"{len(pairs)} pairs: verified {sum(a['verified'] for a, _ in pairs)}, by Ipopt {sum(b['verified'] for _, b in pairs)}"
    )
    print(f"of {len(both)}: within 1 % (or 0.01 α) {len(both) - len(farther) - len(nearer)}, ", end="")
    print(f"nearer {len(nearer)}, farther {len(farther)} {[round(one, 3) for one in farther]}")
    times = [sum(row["seconds"] for row in side) for side in zip(*pairs, strict=True)]
    print(f"processor time {times[0]:.1f} s, by Ipopt {times[1]:.1f} s")


def _noise(row: dict[str, Any]) -> tuple[str, str, int]:
    return row["network"], row["secret"], row["seed"]


def main() -> None:
    """Compute what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path)
    parser.add_argument("--against-ipopt", action="store_true")
    parser.add_argument("--most-buses", type=int, default=500)
    parser.add_argument("--seeds", type=int, default=7)
    parser.add_argument("--out", type=Path, help="CSV file for the table")
    chosen = parser.parse_args()
    (against_ipopt if chosen.against_ipopt else anchors)(chosen.most_buses, chosen.seeds, chosen.rows)
    table(read(chosen.rows), chosen.out)
    if chosen.against_ipopt:
        comparison(read(chosen.rows))


if __name__ == "__main__":
    main()
