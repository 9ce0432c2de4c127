"""Write a series: DIR/public with the table, the network and the card, DIR/curator for the curator alone."""

from __future__ import annotations

import json
import math
import shutil
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gridveil.privacy import ledger_disk as disk
from gridveil.privacy.series_curator import SeriesCurator, SeriesErrors
from gridveil.sectors.registry import sector_of
from gridveil.service.public_files import write_proofs
from gridveil.service.publication import UNSTATED, Publication
from gridveil.service.publish import (
    CURATOR,
    PUBLIC,
    REGISTRY_FILE,
    SIMULATION,
    SIMULATION_TITLE,
    TITLE,
    CardPage,
    list_files,
    write_card,
    write_yaml,
)
from gridveil.service.series import HourlyRelease, SeriesRelease, refuse_empty
from gridveil.service.series_card import series_card
from gridveil.service.series_registry import series_registry_entry
from gridveil.service.written import verify_written

if TYPE_CHECKING:
    import pandas as pd

HOURS_FILE = "hours.csv"


def publish_series(
    release: SeriesRelease,
    curator: SeriesCurator,
    folder: Path,
    *,
    simulation_as_public: bool,
    card_page: CardPage | None = None,
    publication: Publication = UNSTATED,
) -> list[str]:
    """Write both folders and list the files, relative to ``folder``. Nothing is public before it is verified."""
    refuse_empty(release)
    release = replace(release, publication=publication)
    name = PUBLIC if not release.draw.simulation or simulation_as_public else SIMULATION
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".staging-") as staging:
        staged = Path(staging) / name
        staged.mkdir()
        _write_public(release, staged, card_page)
        shutil.move(str(staged), str(folder / name))
    (folder / CURATOR).mkdir(mode=disk.OWN, exist_ok=True)
    report = {"warning": "contains true values: do not share"} | series_summary(release)
    report["curator"] = {
        "errors_noisy": _finite(curator.errors(release.draw.values)),
        "errors_released": _finite(curator.errors(release.values)),
    }
    (folder / CURATOR / "report.json").write_text(json.dumps(report, indent=2) + "\n")
    return list_files(folder)


def _finite(errors: SeriesErrors) -> dict[str, float | None]:
    return {name: value if math.isfinite(value) else None for name, value in asdict(errors).items()}


def series_summary(release: SeriesRelease) -> dict[str, object]:
    """The public fields of ``release --series --json``."""
    card = series_card(release)
    costs = [row.released.result.cost for row in release.rows if row.released is not None]
    return {
        "case": release.case.name,
        **{key: card[key] for key in ("simulation", "promise", "mechanism", "hours", "hours_verified", "data_set")},
        "mean_cost": float(np.mean(costs)) if costs else None,
        "cost_unit": release.cost_unit,
    }


def peak_hour(release: SeriesRelease) -> int:
    """The verified hour with the largest released demand in all: the one that the network file shows."""
    total = release.values.real.sum(axis=1)
    return int(np.nanargmax(total))


def _write_public(release: SeriesRelease, folder: Path, card_page: CardPage | None) -> None:
    network, hour = release.case.network, peak_hour(release)
    title = SIMULATION_TITLE if release.draw.simulation else TITLE
    path = sector_of(network).write(network, release.values[hour], folder, release.case.file_format, title=title)
    release = _with_verified(release, hour, path)
    release.layout.write(release.values, folder)
    hours_frame(release).to_csv(folder / HOURS_FILE, index=False)
    write_yaml(folder / REGISTRY_FILE, series_registry_entry(release))
    write_proofs(folder)
    write_card(folder, series_card(release) | {"network_file": _network_file(release, hour)}, card_page)


def _with_verified(release: SeriesRelease, hour: int, path: Path) -> SeriesRelease:
    """The release with what readers find in the written network, which holds one hour."""
    row, solver = release.rows[hour], release.settings.release.solver.value
    assert row.released is not None and row.target is not None
    released = verify_written(release.prepared, row.released, row.target, path, solver=solver)
    rows = list(release.rows)
    rows[hour] = replace(row, released=released)
    return replace(release, rows=tuple(rows))


def _network_file(release: SeriesRelease, hour: int) -> dict[str, object]:
    """Which hour the network file holds, and what readers find in it."""
    row = release.rows[hour]
    assert row.released is not None and row.target is not None
    checked = row.released.checked
    return {
        "holds": f"demands of {release.layout.timestamps[hour]}, the highest in all",
        "optimal_cost": row.released.result.cost,
        "cost_target": row.target.value,
        "beta": row.target.beta,
        "unit": release.cost_unit,
        "checked_by": [] if checked is None else [asdict(check) for check in checked.checks],
        "spread": None if checked is None else checked.spread,
    }


def hours_frame(release: SeriesRelease) -> pd.DataFrame:
    """One row for each hour: what came of it, its optimal cost and its band."""
    import pandas as pd

    rows, layout = release.rows, release.layout
    return pd.DataFrame(
        {
            layout.time_name: layout.timestamps,
            "status": [row.status for row in rows],
            "optimal_cost": [None if row.released is None else row.released.result.cost for row in rows],
            "cost_target": [None if row.target is None else row.target.value for row in rows],
            "beta": [None if row.target is None else row.target.beta for row in rows],
            "spread": [_spread(row) for row in rows],
        }
    )


def _spread(row: HourlyRelease) -> float | None:
    """How far the costs lie apart that readers found; None for an hour that was solved by the default solver alone."""
    return None if row.released is None or row.released.checked is None else row.released.checked.spread
