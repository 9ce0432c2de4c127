"""How near a release comes to the true optimal cost, by kind of cost target: one row per network and mode.

    python bench/cost_targets.py --out docs/results/cost-targets.csv [--draws 50] [--seed 9000] [NETWORK ...]

Simulated releases (seeded), ε = 1 in all, α = 10 MVA (veilgas 0.5 kg/s, other gas networks 0.1 of their flow base), β = 1 %.
The forecast is 3 % above the true cost. A network is a built-in name, or FILE@PRESET for gas. A row that exists already is
kept, so a run can be stopped and resumed.
"""

from __future__ import annotations

import argparse
import csv
import math
import time
from pathlib import Path

import numpy as np

from gridveil.core.band import Tolerance
from gridveil.core.choices import CostTargetMode
from gridveil.core.errors import NoReleaseError
from gridveil.privacy.curator import Curator
from gridveil.sectors.case import Case
from gridveil.sectors.gas.boundary import preset_boundary
from gridveil.sectors.registry import load_case
from gridveil.service import release as service
from gridveil.service.account import NoAccount
from gridveil.service.draw import cost_share
from gridveil.service.prepare import PublicCase, prepare
from gridveil.service.settings import CostTargetSettings, ReleaseSettings

POWER = ("veil9", "case14_ieee", "case30_ieee", "case57_ieee", "case118_ieee", "case300_ieee", "case1354_pegase", "case2000_goc",
         "case9241_pegase")  # fmt: skip
GAS = ("veilgas",)
FORECAST_ERROR = 0.03
COLUMNS = (
    "network", "mode", "draws", "released", "share", "error_median", "error_p90", "target_error_median", "distance_median",
    "distance_noisy_median", "seconds_median", "first_seed",
)  # fmt: skip


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("networks", nargs="*", default=[*POWER, *GAS])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--draws", type=int, default=50)
    parser.add_argument("--seed", type=int, default=9000)
    parser.add_argument("--modes", default="private,derived,public,forecast")
    arguments = parser.parse_args()
    done = set()
    if arguments.out.exists():
        with arguments.out.open() as file:
            done = {(row["network"], row["mode"]) for row in csv.DictReader(file)}
    else:
        arguments.out.write_text(",".join(COLUMNS) + "\n")
    for named in arguments.networks:
        source, _, preset = named.partition("@")
        case, network = load_case(source, preset_boundary(preset) if preset else None), preset or source
        truth = Curator(case).optimum().cost
        for mode in map(CostTargetMode, arguments.modes.split(",")):
            if (network, mode.value) not in done:
                row = measure(network, case, truth, mode, arguments.draws, arguments.seed)
                print(row, flush=True)
                with arguments.out.open("a", newline="") as file:
                    csv.DictWriter(file, COLUMNS).writerow(row)


def measure(network: str, case: Case, truth: float, mode: CostTargetMode, draws: int, first: int) -> dict[str, object]:
    """Release ``draws`` times with one mode."""
    forecast = (1 + FORECAST_ERROR) * truth if mode is CostTargetMode.FORECAST else None
    settings = ReleaseSettings(
        epsilon="1",
        alpha="10MVA" if case.field.is_complex else "0.5kg/s" if network == "veilgas" else "0.1pu",
        beta=Tolerance.parse("1%"),
        target=CostTargetSettings(mode=mode, forecast=forecast),
        seed=first,
    )
    prepared, curator = prepare(PublicCase.of(case), solver="structured"), Curator(case)
    errors, targets, distances, noisy, seconds = [], [], [], [], []
    for seed in range(first, first + draws):
        one = service.replace(settings, seed=seed)
        clock = time.perf_counter()
        draw = service.draw_for(curator, prepared, one, NoAccount()) if mode is not CostTargetMode.PUBLIC else None
        if draw is None:
            draw = service.replace(service.make_draw(curator, prepared, one, NoAccount(), "study"), declared_cost=truth)
        noisy.append(curator.distance(draw.noisy.values))
        try:
            aim, released = service.repaired(prepared, draw, one)
        except NoReleaseError:
            continue
        seconds.append(time.perf_counter() - clock)
        errors.append(abs(released.result.cost / truth - 1))
        targets.append(abs(aim.target.value / truth - 1))
        distances.append(curator.distance(released.values))
    return {
        "network": network,
        "mode": mode.value,
        "draws": draws,
        "released": len(errors),
        "share": float(cost_share(prepared, settings)),
        "error_median": _quantile(errors, 0.5),
        "error_p90": _quantile(errors, 0.9),
        "target_error_median": _quantile(targets, 0.5),
        "distance_median": _quantile(distances, 0.5),
        "distance_noisy_median": _quantile(noisy, 0.5),
        "seconds_median": _quantile(seconds, 0.5),
        "first_seed": first,
    }


def _quantile(values: list[float], share: float) -> float:
    return round(float(np.quantile(values, share)), 5) if values else math.nan


if __name__ == "__main__":
    main()
