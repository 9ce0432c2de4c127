"""The two commands on good input."""

from __future__ import annotations

import json
import subprocess
import sys

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


INTERRUPTED = """
import os, signal, sys
from gridveil.cli import main
from gridveil.programs.interrupt import InterruptWatch

ask, asked = InterruptWatch.eval, []

def interrupt_after_the_first(self, arg):
    answer = ask(self, arg)
    asked.append(answer)
    if len(asked) == 1:
        os.kill(os.getpid(), signal.SIGINT)
    return answer

InterruptWatch.eval = interrupt_after_the_first
sys.argv = ["gridveil", "solve", "veil9", "--solver", "ipopt", "--quiet"]
try:
    main()
finally:
    assert asked == [[0], [1]], asked
"""


def test_interrupt_stops_the_solver_cleanly():
    """SIGINT in the middle of a solve: over at the next iteration, with exit code 130 and not a word."""
    ended = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=300, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")
