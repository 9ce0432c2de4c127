"""A year of hourly releases of one network: how many are verified, and how long it takes.

    python bench/year_of_releases.py [--case case118_ieee] [--hours 8760] [--workers 2] [--alpha 0.1pu] [--beta 1%]

Every hour of one customer is protected (ε = 1), and the cost targets are derived from the noisy values. The loads of the
file are scaled by a pattern of day, week and season between about 0.6 and 1.0. The time is that of the whole call: noise,
starting the workers, targets, repairs.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gridveil.core.band import Tolerance
from gridveil.core.choices import CostTargetMode, Protects
from gridveil.core.threads import all_cores
from gridveil.sectors.registry import load_case
from gridveil.sectors.series_table import SeriesCase, SeriesLayout, site_names
from gridveil.service.account import NoAccount
from gridveil.service.series import release_series
from gridveil.service.series_settings import SeriesSettings
from gridveil.service.settings import CostTargetSettings, ReleaseSettings
from gridveil.solvers.structured.warm_up import warm_up

DAY, WEEK, YEAR = 24, 168, 8760


def load_pattern(hours: int) -> NDArray[np.float64]:
    """Scale of the loads per hour: a day with its peak in the evening, quieter weekends, a winter that draws most."""
    hour = np.arange(hours)
    day = 0.5 + 0.5 * np.cos(2 * np.pi * (hour - 18) / DAY)
    weekend = (hour % WEEK) >= 5 * DAY
    season = 0.5 + 0.5 * np.cos(2 * np.pi * hour / YEAR)
    return np.asarray((0.70 + 0.20 * day + 0.10 * season) * np.where(weekend, 0.9, 1.0))


def main() -> None:
    """Release the year and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", default="case118_ieee")
    parser.add_argument("--hours", type=int, default=YEAR)
    parser.add_argument("--workers", type=int, default=all_cores())
    parser.add_argument("--alpha", default="0.1pu")
    parser.add_argument("--beta", default="1%")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warm_up()
    case = load_case(options.case)
    release = ReleaseSettings(
        epsilon="1",
        alpha=options.alpha,
        beta=Tolerance.parse(options.beta),
        seed=options.seed,
        target=CostTargetSettings(mode=CostTargetMode.DERIVED),
    )
    layout = SeriesLayout(
        timestamps=pd.date_range("2026-01-05", periods=options.hours, freq="h"),
        time_name="timestamp",
        site_name="site",
        sites=site_names(case.field),
        columns=("p_mw", "q_mvar"),
        base=case.field.base,
    )
    hours = tuple(case.values.scaled(scale) for scale in load_pattern(options.hours))
    series = SeriesCase(case=case, layout=layout, hours=hours)
    clock = time.perf_counter()
    settings = SeriesSettings(release=release, protects=Protects.HOUR)
    rows = release_series(series, settings, NoAccount(), workers=options.workers).rows
    seconds = time.perf_counter() - clock
    verified = sum(row.verified for row in rows)
    print(
        f"{case.name}: {verified} of {len(rows)} hourly releases verified in {seconds:.1f} s on {options.workers} workers "
        f"({1000 * seconds / len(rows):.1f} ms each; alpha {options.alpha}, beta {options.beta}, epsilon 1)"
    )
    for reason, count in Counter(row.status for row in rows if not row.verified).items():
        print(f"  {count} not released: {reason}")


if __name__ == "__main__":
    main()
