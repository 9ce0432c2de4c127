"""The commands of ``gridveil study``."""

from __future__ import annotations

import json
import sys

import pandas as pd
import pytest
from study_tools import write_study

from gridveil.cli.study_commands import study_app
from gridveil.core.errors import GridveilError


@pytest.fixture
def study(monkeypatch, capsys, tmp_path):
    """Run one command in this process, in a folder of its own; gives exit code, standard output and standard error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GRIDVEIL_DATA", raising=False)

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["gridveil study", *map(str, arguments)])
        code = 0
        try:
            study_app()
        except SystemExit as stop:
            code = int(stop.code or 0)
        except GridveilError as error:
            sys.stderr.write(f"gridveil: {error}\n")
            code = error.exit_code
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_run_status_and_export(study, tmp_path):
    write_study(tmp_path / "mine.toml", name="mine", seeds=2)
    code, out, err = study("run", "mine.toml", "--workers", 1, "--json")
    report = json.loads(out)
    assert code == 0 and not err and report["store"] == "mine.sqlite"
    assert [report[key] for key in ("tasks", "done", "verified", "failed", "computed_now")] == [8, 8, 8, 0, 8]
    assert report["reasons"] == {} and 0 < report["seconds_now"] == report["seconds"]
    assert report["note"] == "simulation; contains distances to true demands"

    again = json.loads(study("run", "mine.toml", "--workers", 1, "--json")[1])
    assert (again["done"], again["computed_now"], again["seconds_now"]) == (8, 0, 0.0)
    assert again["seconds"] == report["seconds"]

    state = json.loads(study("status", "mine.sqlite", "--json")[1])
    assert state["settings"]["cells"] == [[0.1, 0.01]] and state["sessions"][0]["tasks"] == 8
    people = study("status", "mine.sqlite")[1]
    assert "alpha 0.1, beta 1 %" in people and "veil2, veil9" in people and "simulation" in people

    assert json.loads(study("export", "mine.sqlite", "--parquet", "rows.parquet", "--json")[1])["rows"] == 8
    assert pd.read_parquet(tmp_path / "rows.parquet")["verified"].all()


def test_failed_tasks_are_counted_by_reason_and_retried_when_asked(study, tmp_path):
    write_study(tmp_path / "mine.toml", name="mine", seeds=1, more="[limits]\ntask_seconds = 1e-9\nworkers = 1")
    report = json.loads(study("run", "mine.toml", "--json")[1])
    assert (report["verified"], report["failed"]) == (0, 4)
    assert report["reasons"] == {"the time limit was reached before a point in the band was found and verified": 4}
    write_study(tmp_path / "mine.toml", name="mine", seeds=1, more="[limits]\nworkers = 1")
    assert json.loads(study("run", "mine.toml", "--json")[1])["failed"] == 4
    assert json.loads(study("run", "mine.toml", "--json", "--retry-failed")[1])["failed"] == 0


def test_list_names_the_shipped_studies(study):
    names = [row["name"] for row in json.loads(study("list", "--json")[1])["studies"]]
    assert names == ["paper-gas", "paper-power", "secrets", "small"]
    assert all(name in study("list")[1] for name in names)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["run", "nonesuch"], "nonesuch: no such study file, nor a study that comes with gridveil"),
        (
            ["run", "paper-power"],
            "there is no file nesta/nesta_case14_ieee.m beside the study; name its folder with --data",
        ),
        (["run", "small", "--data", "nowhere"], "nowhere: there is no such data folder"),
        (["run", "small", "--engine", "dask"], "needs --scheduler"),
        (["run", "small", "--scheduler", "tcp://x:1"], "--scheduler requires --engine dask, gpu or native"),
        (["run", "small", "--scheduler", "tcp://x:1", "--engine", "gpu", "--workers", "2"], "omit --workers"),
        (["run", "small", "--store", "no/folder/s.sqlite"], "check the folder"),
        (["status", "none.sqlite"], "no such store"),
        (["export", "none.sqlite", "--parquet", "x.parquet"], "no such store"),
    ],
)
def test_bad_input_is_one_line_and_code_two(study, tmp_path, arguments, line):
    code, out, err = study(*arguments)
    assert code == 2 and not out and err.count("\n") == 1 and line in err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("engine", ["native", "gpu"])
def test_batches_do_not_pass_over_the_solver_that_was_asked_for(study, cli, tmp_path, engine):
    written = write_study(tmp_path / "mine.toml", name="mine", seeds=1)
    written.write_text('solver = "ipopt"\n' + written.read_text())
    code, _, err = study("run", "mine.toml", "--engine", engine)
    words = f"batches by {engine} solve as the structured solver does, not by ipopt"
    assert code == 2 and words in err and not (tmp_path / "mine.sqlite").exists()
    explored = cli("explore", "veil9", "--alpha", "1MVA", "--beta", "1%", "--solver", "ipopt", "--batch", engine)
    assert explored.code == 2 and words in " ".join(explored.err.split())
