"""The bench of batches: rates of what was solved, beside the structured solver on the same scenarios."""

from __future__ import annotations

import json

import pytest

from gridveil.benchmark import batches
from gridveil.solvers.batch.device_kernels import missing_gpu
from gridveil.solvers.batch.engine_native import missing_compiler


@pytest.mark.skipif(missing_compiler() is not None, reason=str(missing_compiler()))
def test_a_batch_beside_the_structured_solver(cli, tmp_path):
    cases = ("--cases", "case14_ieee,case57_ieee", "--scenarios", "60")
    run = cli("bench", "--batch", "native", *cases, "--json", "--out", tmp_path)
    report = json.loads(run.out)
    rows = report["batches"]
    assert report["schema"] == "gridveil/1"
    assert [row["case"] for row in rows] == ["case14_ieee", "case57_ieee"] and rows == json.loads(
        (tmp_path / "batches.json").read_text(encoding="utf-8")
    )["batches"]
    for row in rows:
        assert row["engine"] == "native" and row["scenarios"] == 60
        assert row["solved"] + sum(row["failures"].values()) == 60 and row["solved"] >= 55
        assert row["beside"] == 20 and row["beside_unsolved"] == 0
        assert 0 < row["worst_cost_gap"] < 1e-6 and 0 < row["worst_residual"] < 1e-5
        assert row["per_second_kernels"] >= row["per_second"] > 0 and row["beside_per_second"] > 0


@pytest.mark.skipif(missing_compiler() is not None, reason=str(missing_compiler()))
def test_what_a_batch_misses_is_counted(monkeypatch):
    """Demands five times as large cannot be served: both solvers fail, and none counts as missed by the batch alone."""
    plain = batches.shaken
    monkeypatch.setattr(batches, "shaken", lambda p, q, count: plain(5.0 * p, 5.0 * q, count))
    row = batches.bench_batches("case14_ieee", batches.BatchEngine.NATIVE, 3, 1)
    assert row.solved == 0 and sum(row.failures.values()) == 3 and row.beside_unsolved == 0
    assert row.failed.startswith("case14_ieee: 3 not solved: ")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--batch", "native", "--repeats", "2", "--cold"), "--repeats, --cold: only without --batch or --gpu"),
        (("--scenarios", "7"), "--scenarios: only with --batch or --gpu"),
        (("--gpu", "--batch", "native"), "--gpu is --batch gpu; leave one of them out"),
        (("--batch", "structured"), "choose native, gpu or auto"),
    ],
)
def test_options_without_effect_are_refused(cli, options, words):
    run = cli("bench", *options)
    assert run.code == 2 and words in " ".join(run.err.split())


@pytest.mark.skipif(missing_gpu() is None, reason="there is a GPU")
def test_without_a_gpu_one_line_says_so(cli):
    run = cli("bench", "--gpu")
    assert run.code != 0 and run.err.count("\n") == 1 and ("CuPy" in run.err or "CUDA" in run.err)
