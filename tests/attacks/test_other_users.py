"""What other users of the computer can read: the public folder, and nothing of the curator's.

Before: ``curator/`` was made with the usual mode, so that reports and tables with true demands could be read by anybody who
could reach the folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from gridveil.core.secret import SecretValues
from gridveil.sectors.registry import load_case

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no modes of files")
OTHERS = 0o077


@pytest.fixture(autouse=True)
def usual_mask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def readable(folder: Path) -> set[str]:
    """Files that somebody else can read: the file and every folder down to it are open to others."""
    found = set()
    for path in (one for one in folder.rglob("*") if one.is_file()):
        within = [folder / part for part in path.relative_to(folder).parents][:-1]
        if path.stat().st_mode & OTHERS and all(one.stat().st_mode & OTHERS for one in within):
            found.add(str(path.relative_to(folder)))
    return found


def test_a_release_shows_others_its_public_folder_alone(cli, tmp_path):
    made = cli("release", "veil2", "--alpha", "1MVA", "--beta", "20%", "--budget", "5", "--out", tmp_path / "out")
    assert made.code == 0, made.err
    assert (tmp_path / "out" / "curator" / "demands.csv").exists()
    seen = readable(tmp_path / "out")
    assert "public/card.yaml" in seen and not [name for name in seen if not name.startswith("public/")]


def test_a_series_does_too(cli, tmp_path):
    case = load_case("veil2")
    table = pd.DataFrame({"timestamp": pd.to_datetime(["2026-01-05"]), **columns(case.values, case.field.base)})
    table.to_csv(tmp_path / "loads.csv", index=False)
    options = ("--protects", "hour", "--alpha", "1MVA", "--beta", "20%", "--budget", "5", "--workers", "1")
    made = cli("release", "veil2", "--series", tmp_path / "loads.csv", *options, "--out", tmp_path / "out")
    assert made.code == 0, made.err
    assert (tmp_path / "out" / "curator" / "report.json").exists()
    seen = readable(tmp_path / "out")
    assert "public/card.yaml" in seen and not [name for name in seen if not name.startswith("public/")]


def columns(values: SecretValues, base: float) -> dict[str, list[float]]:
    truth = values.reveal() * base
    places = load_case("veil2").field.places
    parts = {"p_mw": truth.real, "q_mvar": truth.imag}
    return {
        f"{place}.{name}": [float(x)] for name, part in parts.items() for place, x in zip(places, part, strict=True)
    }


def test_an_open_folder_would_be_seen(cli, tmp_path):
    cli("release", "veil2", "--alpha", "1MVA", "--beta", "20%", "--budget", "5", "--out", tmp_path / "out")
    (tmp_path / "out" / "curator").chmod(0o755)
    assert "curator/demands.csv" in readable(tmp_path / "out")
