"""Kept totals and fidelity in studies: files, rows, stores of earlier versions, tables."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pytest

from gridveil.core.errors import InputError
from gridveil.study.engine_local import LocalEngine
from gridveil.study.measures import COLUMNS, fidelity_table
from gridveil.study.runner import run_study
from gridveil.study.store import read_outcomes
from gridveil.study.study_file import read_study

TEXT = """
name = "kept"
epsilon = 1.0
methods = ["auto"]
seeds = [1, 2]
{more}
[[grid]]
alpha = ["0.02pu"]
beta = ["2%"]
[[network]]
case = "case30_ieee"
"""


def ran(tmp_path: Path, more: str, name: str = "study"):
    path = tmp_path / f"{name}.toml"
    path.write_text(TEXT.format(more=more))
    run_study(read_study(path), tmp_path / f"{name}.sqlite", LocalEngine(workers=1))
    return read_outcomes(tmp_path / f"{name}.sqlite")


def test_totals_are_kept_in_every_row_and_fidelity_is_measured(tmp_path):
    rows = ran(tmp_path, 'keep = "total=0.1%,zones:3=0.5%"\nfidelity = true')
    assert rows.verified.all()
    assert (rows.kept_error <= 0.005).all()
    assert (rows.noisy_kept_error > 0.01).all()
    assert rows[[f"released_{column}" for column in COLUMNS]].notna().any().all()
    assert np.allclose(rows.released_cost_error, rows.cost / rows.true_cost - 1, atol=1e-6)
    table = fidelity_table(rows)
    assert set(table.demands) == {"released", "noisy", "highpoint"}
    released = table[table.demands == "released"].iloc[0]
    assert released.losses_error == pytest.approx(rows.released_losses_error.abs().median())


def test_without_them_nothing_changes_and_stores_of_before_go_on(tmp_path):
    rows = ran(tmp_path, "")
    assert rows.kept_error.isna().all()
    assert rows.released_price_rank.isna().all()
    old = sqlite3.connect(tmp_path / "study.sqlite")
    for column in ("kept_error", "noisy_feasible"):
        old.execute(f"ALTER TABLE outcomes DROP COLUMN {column}")
    old.execute("DELETE FROM outcomes WHERE seed = 2")
    old.commit()
    old.close()
    assert len(read_outcomes(tmp_path / "study.sqlite")) == 1
    again = ran(tmp_path, "")
    assert len(again) == 2
    assert again.cost.tolist() == rows.cost.tolist()


@pytest.mark.parametrize("more", ['keep = "cost=1%"', 'keep = "loss=1%"', 'keep = "zones"', "fidelity = 1"])
def test_what_a_study_cannot_keep_is_refused(tmp_path, more):
    path = tmp_path / "bad.toml"
    path.write_text(TEXT.format(more=more))
    with pytest.raises(InputError):
        read_study(path)


def test_other_totals_need_another_store(tmp_path):
    ran(tmp_path, 'keep = "total=1%"')
    with pytest.raises(InputError, match="other settings"):
        ran(tmp_path, 'keep = "total=2%"')
