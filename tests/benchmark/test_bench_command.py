"""The command: its JSON, its files, and that nothing that goes wrong is left out."""

from __future__ import annotations

import json
import shlex
import time
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from conftest import two_bus_net
from gridveil.benchmark import opf, registry
from gridveil.benchmark.command import CommandRow, _CommandEnd, command_rows
from gridveil.benchmark.growth import fit_power_law, growth_rows
from gridveil.benchmark.opf import OpfRow, judged
from gridveil.benchmark.process import supervise
from gridveil.benchmark.public_case import public_case
from gridveil.benchmark.releases import ReleaseRow
from gridveil.benchmark.run import BenchSettings
from gridveil.cli.bench_commands import bench
from gridveil.core.errors import InputError

ROW = {"case", "solver", "status", "cost", "build_seconds", "solve_seconds", "iterations", "residual", "baseline_gap"}


def run(*arguments: str) -> str:
    app = typer.Typer()
    app.command()(bench)
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_json_and_files(tmp_path: Path):
    text = run(
        *("--cases", "veil2", "--solvers", "structured,ipopt", "--repeats", "2", "--seeds", "2"),
        *("--out", str(tmp_path), "--json"),
    )
    found = json.loads(text)
    assert found.pop("schema") == "gridveil/1"
    assert set(found) == {"machine", "tolerances", "results", "releases", "commands", "growth"}
    assert [(row["case"], row["solver"], row["status"]) for row in found["results"]] == [
        ("veil2", "structured", "converged"),
        ("veil2", "ipopt", "converged"),
    ]
    for row in found["results"]:
        assert set(row) >= ROW | {"peak_mb", "repeats", "buses", "note"}
        assert row["build_seconds"] > 0 and row["solve_seconds"] > 0 and row["iterations"] > 0
        assert row["repeats"] == 2 and row["buses"] == 2
        assert 0 <= row["residual"] < 1e-6 and abs(row["baseline_gap"]) < 1e-6
        assert 30 < row["peak_mb"] < 2000
    for row in found["releases"]:
        assert (row["status"], row["seeds"], row["failures"]) == ("done", 2, 0)
        assert row["ratio"] == pytest.approx(row["median_seconds"] / row["ipopt_seconds"])
    assert [row["alpha"] for row in found["releases"]] == [0.1, 1.0]
    (command,) = found["commands"]
    assert (command["status"], command["caches"], command["seed"], command["note"]) == ("done", "warm", 5, "")
    assert 0 < command["public_seconds"] < command["total_seconds"] and command["empty_seconds"] > 0
    assert command["ipopt_seconds"] == found["results"][1]["solve_seconds"] and 60 < command["peak_mb"] < 2000
    assert json.loads((tmp_path / "results.json").read_text()) == found
    assert (tmp_path / "results.md").read_text().count("| veil2 |") == 5
    assert (tmp_path / "bench.svg").read_text().startswith("<?xml")
    assert (tmp_path / "bench.png").read_bytes().startswith(b"\x89PNG")


def test_who_is_slow_is_stopped_and_has_a_row():
    text = run("--cases", "veil2", "--solvers", "ipopt", "--no-releases", "--no-command", "--limit", "0.05", "--json")
    (row,) = json.loads(text)["results"]
    assert (row["status"], row["cost"], row["solve_seconds"]) == ("time limit", None, None)
    assert row["note"].startswith("stopped after 0.05 s")


def test_a_command_that_is_slow_or_fails_has_a_row(tmp_path: Path):
    case = public_case("veil2")
    (slow,) = command_rows(case, repeats=1, limit=0.2, cold=False, ipopt_seconds=None)
    assert (slow.status, slow.public_seconds, slow.total_seconds) == ("time limit", None, None)
    missing = replace(case, source=str(tmp_path / "gone.m"))
    (failed,) = command_rows(missing, repeats=1, limit=60.0, cold=False, ipopt_seconds=None)
    assert failed.status == "failed" and "code 2" in failed.note and "gone.m" in failed.note


def test_a_cold_command_compiles_and_leaves_the_kernels_on_disk_alone(monkeypatch: pytest.MonkeyPatch):
    seen: list[dict[str, str]] = []

    def watch(command, environment, awaited, errors, limit):
        errors.touch()
        seen.append(dict(environment))
        return _CommandEnd(code=0, public=1.0, total=2.0, peak_mb=3.0)

    monkeypatch.setattr("gridveil.benchmark.command._watch", watch)
    monkeypatch.setenv("NUMBA_CACHE_DIR", "usual")
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    rows = command_rows(public_case("veil2"), repeats=2, limit=60.0, cold=True, ipopt_seconds=0.5)
    assert [(row.caches, row.repeats) for row in rows] == [("warm", 2), ("cold", 1)]
    assert [environment["NUMBA_CACHE_DIR"] for environment in seen[:2]] == ["usual", "usual"]
    assert len(seen) == 3 and seen[2]["NUMBA_CACHE_DIR"] != "usual"
    assert all("PYTHONDONTWRITEBYTECODE" not in environment for environment in seen)


def test_what_hangs_is_killed_with_its_children(tmp_path: Path):
    sign = tmp_path / "alive"
    child = f"while true; do touch {shlex.quote(str(sign))}; sleep 0.05; done"  # a shell is there long before the limit
    clock = time.monotonic()
    ending = supervise(["sh", "-c", f"({child}) & sleep 600"], 1.5, tmp_path / "errors.txt")
    assert ending.code is None and time.monotonic() - clock < 300
    assert sign.exists()
    sign.unlink()
    time.sleep(0.4)
    assert not sign.exists()


def test_who_crashes_has_a_row(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("gridveil.benchmark.process.WORKER", "gridveil.no_such_module")
    row = opf.opf_row(public_case("veil2"), "ipopt", 1, 60.0)
    assert row.status == "failed" and "No module named" in row.note


def test_who_is_not_installed_has_a_row(monkeypatch: pytest.MonkeyPatch):
    absent = registry.ContestantEntry(title="", module="", contestant="", needs=("no_such_package",), tolerances="")
    monkeypatch.setitem(registry.ALL, "pypower", absent)
    (row,) = json.loads(run("--cases", "veil2", "--solvers", "pypower", "--no-releases", "--no-command", "--json"))[
        "results"
    ]
    assert (row["status"], row["note"], row["cost"]) == ("not installed", "needs no_such_package", None)


def test_who_cannot_represent_a_case_has_a_row(tmp_path: Path):
    cubic = tmp_path / "cubic.m"
    net = two_bus_net()
    net.gencost = [[2, 0, 0, 4, 1e-4, 0.01, 10.0, 0.0]]
    cubic.write_text(net.text())
    row = opf.opf_row(public_case(str(cubic)), "structured", 1, 60.0)
    assert row.status == "not applicable" and "degree two" in row.note


def _row(solver: str, cost: float | None, status: str = "converged", buses: int = 10, seconds: float = 1.0) -> OpfRow:
    return OpfRow(case="c", buses=buses, solver=solver, status=status, cost=cost, solve_seconds=seconds)


def test_a_worse_optimum_is_marked_and_an_infeasible_one_is_no_yardstick():
    rows = [_row("a", 100.0), _row("b", 100.02), _row("c", 90.0, "inaccurate"), _row("d", None, "not converged")]
    marked = judged(rows, None)
    assert [row.status for row in marked] == ["converged", "converged elsewhere", "inaccurate", "not converged"]
    assert [row.baseline_gap for row in marked] == pytest.approx([0.0, 2e-4, -0.1, None])


def test_the_published_optimum_marks_even_who_stands_alone():
    assert judged([_row("a", 100.02)], 100.0)[0].status == "converged elsewhere"
    assert judged([_row("a", 100.005)], 100.0)[0].status == "converged"
    better = judged([_row("a", 99.0)], 100.0)[0]
    assert (better.status, better.baseline_gap) == ("converged", pytest.approx(-0.01))


def test_growth_recovers_a_known_exponent():
    buses = [14, 118, 1354, 9241]
    seconds = [3e-5 * n**1.21 for n in buses]
    assert fit_power_law(buses, seconds) == pytest.approx((1.21, 3e-5 * 1000**1.21))
    rows = [_row("x", 1.0, buses=n, seconds=t) for n, t in zip(buses, seconds, strict=True)]
    rows.append(_row("x", 1.0, "converged elsewhere", 20_000, 1e-9))
    releases = [
        ReleaseRow(case="c", buses=n, alpha=1.0, status="done", median_seconds=2e-4 * n**0.9) for n in buses[:3]
    ]
    commands = [
        CommandRow(case="c", buses=n, caches=caches, repeats=1, public_seconds=factor * n**0.7)
        for n in (14, 300, 9241)
        for caches, factor in (("warm", 0.1), ("cold", 100.0 * n))
    ]
    opf_fit, release_fit, command_fit = growth_rows([*rows, _row("y", 1.0)], releases, commands)
    assert (command_fit.quantity, command_fit.exponent) == ("command, published", pytest.approx(0.7))
    assert (opf_fit.solver, opf_fit.points, opf_fit.largest) == ("x", 4, 9241)
    assert opf_fit.exponent == pytest.approx(1.21)
    assert (release_fit.quantity, release_fit.alpha) == ("release", 1.0)
    assert release_fit.exponent == pytest.approx(0.9)


@pytest.mark.parametrize(
    "wrong", [{"solvers": ["gurobi"]}, {"repeats": 0}, {"seeds": 0}, {"limit": 0.0}, {"limit": float("nan")}]
)
def test_settings_that_make_no_sense_are_refused(wrong):
    usual = {"cases": ["veil2"], "solvers": ["ipopt"], "repeats": 1, "limit": 1.0, "seeds": 1}
    with pytest.raises(InputError):
        BenchSettings(**(usual | wrong), releases=False, growth=False)


def test_a_folder_that_cannot_be_made_is_told_before_the_run(tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="name another folder with --out"):
        run("--cases", "veil2", "--out", str(tmp_path / "file"))


def test_gas_is_refused():
    with pytest.raises(InputError, match="gas network"):
        public_case("veilgas")
