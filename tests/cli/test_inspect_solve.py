"""The two commands on good input."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest

from conftest import two_bus_net


def test_inspect_json_is_one_object_without_demands(cli):
    result = cli("inspect", "veil9", "--json")
    report = json.loads(result.out)
    assert (result.code, result.err) == (0, "")
    assert (report["buses"], report["branches"], report["generators"], report["load_sites"]) == (9, 13, 4, 7)
    assert "268" not in result.out  # the total demand in MW


def test_inspect_lists_names(cli):
    assert {"veil9", "case14_ieee", "case14_ieee__api"} <= set(
        json.loads(cli("inspect", "--list", "--json").out)["cases"]
    )


@pytest.mark.parametrize(("formulation", "cost"), [("ac", 2178.1), ("dc", 2051.5)])
def test_solve_json(cli, formulation, cost):
    result = cli("solve", "case14_ieee", "--formulation", formulation, "--json")
    report = json.loads(result.out)
    assert result.err == ""
    assert set(report) == {
        "case", "formulation", "solver", "status", "cost", "iterations", "build_seconds", "solve_seconds", "schema", "units",
    }  # fmt: skip
    assert report["cost"] == pytest.approx(cost, rel=1e-4)
    assert (report["case"], report["status"], report["formulation"]) == ("case14_ieee", "converged", formulation)


def test_an_unsolvable_case_has_no_cost_and_its_own_exit_code(cli, tmp_path):
    net = two_bus_net()
    net.gen[0][8] = 10.0
    path = tmp_path / "short.m"
    path.write_text(net.text())
    result = cli("solve", path, "--json")
    report = json.loads(result.out)
    assert result.code == 3
    assert report["cost"] is None
    assert report["status"] == "infeasible"


def test_interrupt_stops_the_solver_cleanly():
    """SIGINT in the middle of a long solve: exit code 130 and not a word."""
    arguments = ["gridveil", "solve", "case9241_pegase", "--solver", "ipopt", "--quiet"]
    code = f"import sys; sys.argv = {arguments!r}; from gridveil.cli import main; main()"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(5)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (130, "", "")
