"""Data sets with scenarios that have no solution: their readers find every file, and the command says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from gridveil.core.choices import BatchEngine, Outages, TableLayout
from gridveil.service import data_set_numbering, data_set_shards
from gridveil.service.data_set import make_data_set
from gridveil.service.data_set_source import DataSetRequest
from gridveil.solvers.batch.engine_native import missing_compiler

ENGINE = BatchEngine.STRUCTURED if missing_compiler() else BatchEngine.NATIVE
TABLES = ("bus_data", "gen_data", "branch_data", "y_bus_data")
HOPELESS = "9.0"
"""A factor on the loads with which there is no solution."""


def request_of(tmp_path: Path, *factors: str, **changes: Any) -> DataSetRequest:
    """One scenario for each factor."""
    (tmp_path / "profile.csv").write_text("".join(f"{factor}\n" for factor in factors))
    usual = {"source": "veil9", "loads": f"profile:{tmp_path / 'profile.csv'}", "retries": 0, "not_private": True}
    return DataSetRequest(**{**usual, "scenarios": len(factors), "layout": TableLayout.GRIDFM, **changes})


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def partitions_of_two(monkeypatch) -> None:
    """Two scenarios in each partition, and in each shard."""
    monkeypatch.setattr(data_set_shards, "SHARD_NUMBERS", 0)
    monkeypatch.setattr(data_set_shards, "PARTITION", 2)


@pytest.mark.parametrize("layout", TableLayout)
def test_a_data_set_without_any_solution_is_complete_and_ends_with_code_3(layout, cli, tmp_path):
    request = request_of(tmp_path, HOPELESS)
    result = cli(
        "generate", "veil9", "--not-private", "--scenarios", 3, "--loads", request.loads, "--layout", layout.value,
        "--retries", 0, "--engine", ENGINE.value, "--out", tmp_path / "data",
    )  # fmt: skip
    home = tmp_path / "data" / "not-private"
    assert result.code == 3 and "no scenario was solved" in result.err
    facts = yaml.safe_load((home / "metadata.yaml").read_text())
    assert facts["complete"] and (facts["solved"], facts["failed"]) == (0, 3)
    assert pd.read_parquet(home / "failures")["scenario"].tolist() == [0, 1, 2]
    if layout is TableLayout.PGLEARN:
        assert len(pd.read_parquet(home / "solved")) == 0 and len(pd.read_parquet(home / "unsolved")) == 3
        return
    assert (home / "raw" / "n_scenarios.txt").read_text() == "3\n"
    for name in TABLES:
        table = pd.read_parquet(home / "raw" / f"{name}.parquet" / "scenario_partition=0")
        assert len(table) == 0 and {"scenario", "load_scenario_idx"} <= set(table.columns)


@pytest.mark.usefixtures("partitions_of_two")
def test_gridfm_scenarios_are_counted_without_a_gap_in_partitions_without_a_gap(tmp_path):
    """gridfm-datakit opens all partitions up to the last, and gridfm-graphkit wants scenarios 0 … n − 1."""
    make_data_set(request_of(tmp_path, "1", HOPELESS, HOPELESS, HOPELESS, "1", "0.9", "0.8"), tmp_path / "data", ENGINE)
    raw = tmp_path / "data" / "not-private" / "raw"
    for name in TABLES:
        parts = [pd.read_parquet(raw / f"{name}.parquet" / f"scenario_partition={k}") for k in range(4)]
        assert [len(part) > 0 for part in parts] == [True, False, True, True]
        whole = pd.concat(parts)[["scenario", "load_scenario_idx"]].drop_duplicates()
        assert whole["scenario"].tolist() == [0, 1, 2, 3] and whole["load_scenario_idx"].tolist() == [0, 4, 5, 6]
        assert whole["scenario"].dtype == np.int64


@pytest.mark.usefixtures("partitions_of_two")
def test_a_run_that_is_stopped_while_it_numbers_ends_as_an_unbroken_one(tmp_path, monkeypatch):
    request = request_of(tmp_path, HOPELESS, "1", HOPELESS, "1", "0.9", "0.8")
    make_data_set(request, tmp_path / "whole", ENGINE)
    places, calls = data_set_numbering._places, []

    def breaks(*given: Any) -> Any:
        calls.append(given)
        if len(calls) > 5:
            raise KeyboardInterrupt
        return places(*given)

    monkeypatch.setattr(data_set_numbering, "writers", lambda: 1)
    monkeypatch.setattr(data_set_numbering, "_places", breaks)
    with pytest.raises(KeyboardInterrupt):
        make_data_set(request, tmp_path / "stopped", ENGINE)
    monkeypatch.setattr(data_set_numbering, "_places", places)
    assert make_data_set(request, tmp_path / "stopped", ENGINE)["engine"] is None, "nothing is solved again"
    assert bytes_of(tmp_path / "stopped") == bytes_of(tmp_path / "whole")


def test_the_reference_bus_of_gridfm_tables_keeps_its_generators(tmp_path):
    """gridfm-datakit never switches them off, and refuses tables in which they are all out."""
    request = request_of(tmp_path, "0.8", scenarios=120, outages=Outages.N_1)
    assert make_data_set(request, tmp_path / "data", ENGINE)["solved"] > 50
    raw = tmp_path / "data" / "not-private" / "raw"
    bus, gen = (pd.read_parquet(raw / f"{name}_data.parquet") for name in ("bus", "gen"))
    reference = bus[bus["REF"] == 1][["scenario", "bus"]]
    fed = reference.merge(gen[gen["in_service"] == 1], on=["scenario", "bus"])
    assert set(fed["scenario"]) == set(reference["scenario"]) and (gen["in_service"] == 0).any()
