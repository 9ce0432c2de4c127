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
import yaml

from gridveil.core.band import CostTarget
from gridveil.core.errors import NoReleaseError
from gridveil.privacy.curator import published_values
from gridveil.privacy.series_curator import SeriesCurator, SeriesErrors
from gridveil.sectors.registry import sector_of
from gridveil.service.prepare import PublicCase, prepare
from gridveil.service.public_files import CARD_FILE, file_hashes, write_proofs
from gridveil.service.publication import UNSTATED, Publication
from gridveil.service.publish import CURATOR, PUBLIC, SIMULATION, SIMULATION_TITLE, TITLE, list_files
from gridveil.service.series import SeriesRelease, refuse_empty
from gridveil.service.series_card import series_card

if TYPE_CHECKING:
    import pandas as pd

HOURS_FILE = "hours.csv"


def publish_series(
    release: SeriesRelease,
    curator: SeriesCurator,
    folder: Path,
    *,
    simulation_as_public: bool,
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
        _write_public(release, staged)
        shutil.move(str(staged), str(folder / name))
    (folder / CURATOR).mkdir(exist_ok=True)
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


def _write_public(release: SeriesRelease, folder: Path) -> None:
    network, hour = release.case.network, peak_hour(release)
    title = SIMULATION_TITLE if release.draw.simulation else TITLE
    path = sector_of(network).write(network, release.values[hour], folder, release.case.file_format, title=title)
    _verify_written(release, path, release.rows[hour].target)
    release.layout.write(release.values, folder)
    hours_frame(release).to_csv(folder / HOURS_FILE, index=False)
    write_proofs(folder)
    card = series_card(release) | {
        "network_file": f"demands of {release.layout.timestamps[hour]}, the highest in all",
        "files": file_hashes(folder),
    }
    (folder / CARD_FILE).write_text(yaml.safe_dump(card, sort_keys=False, allow_unicode=True), encoding="utf-8")


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
        }
    )


def _verify_written(release: SeriesRelease, path: Path, target: CostTarget | None) -> None:
    """Read the network back as its reader would, solve it, and insist that its optimum lies in the band of its hour."""
    network = release.case.network
    written = sector_of(network).read_back(network, path)
    prepared = prepare(PublicCase.of(written), solver=release.settings.release.solver.value)
    answer = prepared.solves.released(prepared.model.layout.to_program(published_values(written))).answer
    if target is None or not (answer.converged and target.contains(answer.cost)):
        raise NoReleaseError(
            f"the written {release.case.file_format} file does not keep the optimum in the band: the format loses a part "
            "of the network; convert the case to another format first"
        )
