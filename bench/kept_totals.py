"""What keeping the totals of zones costs and gains, beside releases that keep the cost alone: one row per share of ε.

    python bench/kept_totals.py --out docs/results/kept-totals.csv [--network case1354_pegase] [--zones 10] [--seeds 20]
        [--first 0] [--shares chosen,0.6]

Simulated releases (seeded) through the functions that the command calls, all targets private, ε = 1 in all, α = 10 MVA, cost
and zones within 1 %. Errors are those of the released totals of zones against the true ones: root mean square over zones and
seeds, in MVA. ``goal`` is √(sites per zone)/2, what the ratio of the errors must reach; times are of everything after the
mechanism, to the verified release.

    python bench/kept_totals.py --iterations [--network case1354_pegase] [--zones 10]

prints what one iteration of the structured solver takes on HPR with and without the rows of the zones, best of 20 solves.
"""

from __future__ import annotations

import argparse
import csv
import math
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from gridveil.core.band import CostTarget, Tolerance
from gridveil.core.choices import CostTargetMode
from gridveil.core.errors import NoReleaseError
from gridveil.core.kept import NOTHING_KEPT, Kept, parse_keep
from gridveil.privacy.curator import Curator
from gridveil.privacy.group_sums import GroupSums
from gridveil.sectors.partition import participant_groups
from gridveil.sectors.registry import load_case
from gridveil.service.account import NoAccount
from gridveil.service.kept import kept_rows, kept_targets, totals_share
from gridveil.service.prepare import Prepared, PublicCase, prepare
from gridveil.service.release import draw_for, finish
from gridveil.service.settings import ReleaseSettings
from gridveil.solvers.structured.backend import StructuredBackend


@dataclass
class Runs:
    """What the releases of one setting gave."""

    errors: list[float] = field(default_factory=list)
    distances: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    inside: int = 0

    @property
    def rms(self) -> float:
        """Root mean square of all errors."""
        return math.sqrt(float(np.mean(np.square(self.errors)))) if self.errors else math.nan


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path)
    parser.add_argument("--iterations", action="store_true")
    parser.add_argument("--network", default="case1354_pegase")
    parser.add_argument("--zones", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--shares", default="chosen,0.6")
    asked = parser.parse_args()
    case = load_case(asked.network)
    prepared, curator = prepare(PublicCase.of(case), solver="structured"), Curator(case)
    if asked.iterations:
        _, kept = parse_keep(f"zones:{asked.zones}=1%")
        kept_ms, alone_ms = iteration_ms(prepared, curator, settings(kept, asked.first))
        print(f"{kept_ms:.3f} ms with zones, {alone_ms:.3f} ms without: ratio {kept_ms / alone_ms:.2f}")
        return
    labels, group = participant_groups(case.network, "zones", asked.zones)
    query = GroupSums(group=group, n_groups=len(labels))
    seeds = range(asked.first, asked.first + asked.seeds)
    alone = release_all(prepared, curator, query, NOTHING_KEPT, seeds)
    rows = []
    for share in asked.shares.split(","):
        _, kept = parse_keep(f"zones:{asked.zones}=1%", share=None if share == "chosen" else share)
        with_zones = release_all(prepared, curator, query, kept, seeds)
        rows.append(
            {
                "network": asked.network,
                "zones": asked.zones,
                "sites_per_zone": round(len(group) / asked.zones, 1),
                "totals_share": float(totals_share(prepared, settings(kept, 0))),
                "share_was": "chosen" if share == "chosen" else "given",
                "first_seed": asked.first,
                "seeds": asked.seeds,
                "verified": with_zones.inside,
                "verified_cost_alone": len(alone.seconds),
                "zone_error": round(with_zones.rms, 2),
                "zone_error_cost_alone": round(alone.rms, 2),
                "ratio": round(alone.rms / with_zones.rms, 3),
                "goal": round(math.sqrt(len(group) / asked.zones) / 2, 3),
                "distance": round(float(np.median(with_zones.distances)), 4),
                "distance_cost_alone": round(float(np.median(alone.distances)), 4),
                "seconds": round(float(np.median(with_zones.seconds)), 3),
                "seconds_cost_alone": round(float(np.median(alone.seconds)), 3),
                "seconds_worst": round(max(with_zones.seconds), 3),
                "seconds_worst_cost_alone": round(max(alone.seconds), 3),
            }
        )
        print(rows[-1], flush=True)
    with asked.out.open("w", newline="") as file:
        table = csv.DictWriter(file, rows[0])
        table.writeheader()
        table.writerows(rows)


def settings(kept: Kept, seed: int) -> ReleaseSettings:
    """One release."""
    return ReleaseSettings(epsilon="1", alpha="10MVA", beta=Tolerance.parse("1%"), seed=seed, keep=kept)


def iteration_ms(prepared: Prepared, curator: Curator, chosen: ReleaseSettings) -> tuple[float, float]:
    """Processor time of one iteration of HPR with the rows of the zones, and without them; the two take turns."""
    draw = draw_for(curator, prepared, chosen, NoAccount())
    layout, cost = prepared.model.layout, curator.optimum().cost
    targets = kept_targets(prepared.public, draw, chosen.keep)
    backend, noisy = StructuredBackend(prepared.model), layout.to_program(draw.noisy.values)
    both = (kept_rows(targets, layout, draw.noisy.values, 1.0), None)
    bands = [CostTarget(value=cost, beta=0.01 * cost, source=CostTargetMode.PUBLIC, rows=rows) for rows in both]
    best = [math.inf, math.inf]
    for _ in range(50):
        for position, band in enumerate(bands):
            clock = time.process_time()
            answer = backend.nearest(noisy, band)
            best[position] = min(best[position], 1e3 * (time.process_time() - clock) / answer.iterations)
    return best[0], best[1]


def release_all(prepared: Prepared, curator: Curator, query: GroupSums, kept: Kept, seeds: range) -> Runs:
    """Release with every seed, and compare the totals of zones with the true ones."""
    truth, base, runs = curator.declared_sums(query), curator.field.base, Runs()
    for seed in seeds:
        chosen = settings(kept, seed)
        draw = draw_for(curator, prepared, chosen, NoAccount())
        clock = time.perf_counter()
        try:
            made = finish(prepared, draw, chosen, None)
        except NoReleaseError as error:
            print(f"seed {seed}: {error}", flush=True)
            continue
        runs.seconds.append(time.perf_counter() - clock)
        runs.errors += (np.abs(query.sums(made.values) - truth) * base).tolist()
        runs.distances.append(curator.distance(made.values))
        runs.inside += all(target.off(made.values) <= target.half_width for target in made.keeping.totals)
    return runs


if __name__ == "__main__":
    main()
