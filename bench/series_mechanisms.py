"""Noise on time series at the same promise: error of hourly demand, of daily energy, of peaks and of the total.

    python bench/series_mechanisms.py [--case case118_ieee] [--hours 24] [--epsilon 1] [--alpha 1MVA] [--repair]
        [--output docs/results/series-mechanisms.csv]
    python bench/series_mechanisms.py --hours 8760 --write loads.parquet

The profiles are made from a seed: every site mixes three public shapes (homes, offices, works) by weights of its own, with
weekends, a season and hourly deviations that persist for some hours. Their mean size is that of the case's demands. The basis
``shape`` is one level with the mean of the three shapes, as a published total would show it; ``misfit_hourly`` is what the
basis misses without any noise. Errors are root mean squares as
shares of the mean size of a demand (of the mean total, for the total), over all seeds; ``--repair`` also repairs every hour of
the last seed and measures the released values. Rows are added to the output. ``--write`` writes the profiles as a table for
``gridveil release --series`` and measures nothing.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gridveil.core.band import Tolerance
from gridveil.core.choices import CostTargetMode, Protects
from gridveil.core.secret import SecretValues
from gridveil.privacy.curator import published_values
from gridveil.privacy.series_curator import SeriesCurator, series_errors
from gridveil.sectors.case import Case
from gridveil.sectors.registry import load_case
from gridveil.sectors.series_table import SeriesCase, SeriesLayout, site_names
from gridveil.service.account import NoAccount
from gridveil.service.prepare import PublicCase, prepare
from gridveil.service.series import release_series
from gridveil.service.series_basis import plan_series
from gridveil.service.series_draw import draw_series
from gridveil.service.series_settings import SeriesSettings
from gridveil.service.settings import CostTargetSettings, ReleaseSettings

DELTA = "1e-6"
CHOICES: list[tuple[Protects, str | None, str | None]] = [
    (Protects.HOUR, None, None),
    *((Protects.PROFILE, noise, "hours") for noise in ("laplace", "k-norm", "gaussian")),
    *(
        (Protects.PROFILE, noise, basis)
        for basis in ("week", "parts", "level", "shape")
        for noise in ("k-norm", "gaussian")
    ),
    (Protects.PROFILE, "shared-shape", "week"),
]

Table = NDArray[np.complex128]


def typical_shapes(times: pd.DatetimeIndex) -> NDArray[np.float64]:
    """Three public shapes, (3, hours), each of mean about one: homes, offices and works."""
    hour, weekend = np.asarray(times.hour), np.asarray(times.dayofweek >= 5)
    season = 1 + 0.12 * np.cos(2 * np.pi * (np.asarray(times.dayofyear) - 15) / 365)
    bump = lambda centre, width: np.exp(-(((hour - centre + 12) % 24 - 12) ** 2) / (2 * width**2))  # noqa: E731
    homes = 0.65 + 0.35 * bump(8, 2) + 0.75 * bump(19.5, 3) + np.where(weekend, 0.12, 0.0)
    offices = np.where(weekend, 0.5, 0.55 + 1.0 * bump(12.5, 4))
    works = np.where(weekend, 0.8, 0.9 + 0.25 * bump(11, 6))
    return np.stack([homes, offices, works]) * season


def profiles(case: Case, hours: int, seed: int) -> tuple[SeriesLayout, Table, NDArray[np.float64]]:
    """Layout, true profiles (per unit, hours × sites) and the public shape."""
    times = pd.date_range("2026-01-05", periods=hours, freq="h")
    generator, size = np.random.default_rng(seed), published_values(case)
    shapes = typical_shapes(times)
    weights = generator.dirichlet([1.0, 1.0, 1.0], len(size))
    deviation = np.zeros((hours, len(size)))
    shocks = generator.normal(0.0, 0.06, deviation.shape)
    deviation[0] = shocks[0]
    for hour in range(1, hours):
        deviation[hour] = 0.8 * deviation[hour - 1] + 0.6 * shocks[hour]
    scale = 0.75 * (weights @ shapes).T * (1 + deviation)  # below the file's own demands, which are a peak
    layout = SeriesLayout(
        timestamps=times,
        time_name="timestamp",
        site_name="site",
        sites=site_names(case.field),
        columns=("p_mw", "q_mvar"),
        base=case.field.base,
    )
    return layout, scale * size, shapes.mean(axis=0)


def measure(options: argparse.Namespace, folder: Path) -> list[dict[str, object]]:
    """One row for each mechanism and basis."""
    case = load_case(options.case)
    layout, truth, shape = profiles(case, options.hours, seed=options.profiles_seed)
    shape_file = folder / "shape.csv"
    pd.DataFrame({"timestamp": layout.timestamps, "shape": shape}).to_csv(shape_file, index=False)
    read = pd.read_csv(shape_file)["timestamp"]
    series = SeriesCase(case=case, layout=layout, hours=tuple(SecretValues(row) for row in truth))
    curator, prepared, rows = SeriesCurator(case, series.hours), prepare(PublicCase.of(case), solver="structured"), []
    as_read = SeriesLayout(**vars(layout) | {"timestamps": pd.Index(read)})
    for protects, noise, name in CHOICES:
        found = []
        for seed in range(options.seeds):
            settings = SeriesSettings(
                release=ReleaseSettings(
                    epsilon=options.epsilon,
                    alpha=options.alpha,
                    beta=Tolerance.parse(options.beta),
                    target=CostTargetSettings(mode=CostTargetMode.DERIVED),
                    seed=seed,
                ),
                protects=protects,
                mechanism=noise,
                basis=str(shape_file) if name == "shape" else name,
                delta=DELTA if noise == "gaussian" else None,
            )
            settings, basis = plan_series(settings, as_read if name == "shape" else layout, prepared)
            draw = draw_series(
                curator, settings, basis, Fraction(0), NoAccount(), purpose="bench", announce=lambda: None
            )
            found.append(asdict(series_errors(truth, draw.values)))
        misfit = series_errors(truth, basis.spread(basis.means(truth))).hourly
        row: dict[str, object] = {
            "case": options.case,
            "hours": options.hours,
            "protects": protects.value,
            "noise": noise or "planar laplace",
            "basis": name or "hours",
            "epsilon": options.epsilon,
            "delta": settings.delta or 0,
            "alpha": options.alpha,
            "numbers": basis.blocks,
            "noise_mva": round(float(np.sqrt(draw.mechanism.expected_square)) * case.field.base, 3),
            "misfit_hourly": "" if noise == "shared-shape" else f"{misfit:.4g}",
            **{f"noisy_{key}": f"{np.sqrt(np.mean([one[key] ** 2 for one in found])):.4g}" for key in found[0]},
        }
        if options.repair:
            row |= repaired(series, settings, truth, as_read if name == "shape" else layout, options.workers)
        rows.append(row)
        print(row, flush=True)
    return rows


def repaired(
    series: SeriesCase, settings: SeriesSettings, truth: Table, used: SeriesLayout, workers: int
) -> dict[str, object]:
    """Release the series and measure it."""
    made = release_series(
        SeriesCase(case=series.case, layout=used, hours=series.hours), settings, NoAccount(), workers=workers
    )
    values = made.values
    kept = np.isfinite(values).all(axis=1)
    errors = asdict(series_errors(truth[kept], values[kept]))
    return {
        **{f"released_{key}": f"{value:.4g}" for key, value in errors.items()},
        "hours_verified": int(kept.sum()),
    }


def main() -> None:
    """Measure, print and append."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", default="case118_ieee")
    parser.add_argument("--hours", type=int, default=24)
    parser.add_argument("--epsilon", default="1")
    parser.add_argument("--alpha", default="1MVA")
    parser.add_argument("--beta", default="1%")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--profiles-seed", type=int, default=1)
    parser.add_argument("--repair", action="store_true")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--output", type=Path, default=None)
    parser.add_argument("--write", type=Path, default=None)
    options = parser.parse_args()
    if options.write is not None:
        layout, truth, _ = profiles(load_case(options.case), options.hours, seed=options.profiles_seed)
        layout.frame(truth).to_parquet(options.write, index=False)
        return
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(options, Path(folder))
    if options.output is not None:
        before = list(csv.DictReader(options.output.open())) if options.output.exists() else []
        merged = pd.DataFrame([*before, *rows])
        merged.to_csv(options.output, index=False)


if __name__ == "__main__":
    main()
