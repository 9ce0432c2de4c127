"""The first release after an installation: nothing is compiled, and nobody waits for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from gridveil.cli import compile_command
from gridveil.cli.compile_command import solver_now
from gridveil.core.methods import Solver
from gridveil.programs import compilation
from gridveil.sectors.registry import load_case

WATCHED = """
import json, sys
from numba.core import event
from gridveil.cli import main
with event.install_recorder("numba:compile") as compilations:
    try:
        main()
    except SystemExit as end:
        code = end.code
print(json.dumps({"code": code, "compiled": len(compilations.buffer)}))
"""


@pytest.fixture
def uncompiled(tmp_path, monkeypatch):
    """A folder for kernels without any, and a process that may compile again afterwards."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "kernels"))
    monkeypatch.setattr(compilation, "_postponed", False)
    return tmp_path / "kernels"


def test_it_compiles_nothing_says_so_and_is_verified_by_other_solvers(tmp_path):
    command = ["release", "veil9", "--alpha", "1MVA", "--beta", "5%", "--seed", "2", "--out", "out"]
    run = subprocess.run(
        [sys.executable, "-c", WATCHED, *command],
        env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "kernels")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert json.loads(run.stdout.splitlines()[-1]) == {"code": 0, "compiled": 0}
    assert "nothing is compiled yet, so Ipopt and Clarabel solve this small network" in run.stderr
    card = (tmp_path / "out/simulation/card.yaml").read_text()
    assert "solver: ipopt" in card and "solver: structured" not in card
    assert "relaxation: second-order cone" in (tmp_path / "out/simulation/certificate.yaml").read_text()


def test_small_networks_do_without_compiled_kernels_until_there_are_some(uncompiled):
    network = load_case("veil9").network
    assert solver_now(None, network) is Solver.IPOPT and compilation.compilation_is_postponed()
    uncompiled.mkdir()
    python = f"py{sys.version_info.major}{sys.version_info.minor}"
    (uncompiled / "ipm.run-228.py30.1.nbc").touch()  # of another Python
    for name in (f"ipm.run-228.{python}.1.nbc", f"interior_point.run-1.{python}.1.nbc"):
        assert solver_now(None, network) is Solver.IPOPT
        (uncompiled / name).touch()
    assert solver_now(None, network) is Solver.STRUCTURED


def test_a_stated_solver_and_a_large_network_are_compiled_for(uncompiled, monkeypatch, capsys):
    network = load_case("veil9").network
    assert solver_now("structured", network) is Solver.STRUCTURED
    monkeypatch.setattr(compile_command, "SMALL", 8)
    assert solver_now(None, network) is Solver.STRUCTURED
    assert capsys.readouterr().err.count("compiling the structured solver, once") == 2
    assert not compilation.compilation_is_postponed()


def test_a_network_that_is_never_compiled_for_keeps_its_solver(uncompiled, capsys):
    assert solver_now(None, load_case("veilgas").network) is Solver.STRUCTURED
    assert capsys.readouterr().err == "" and not compilation.compilation_is_postponed()


def test_the_relaxation_is_the_same_by_the_conic_solver(uncompiled, monkeypatch):
    import numpy as np

    from gridveil.sectors.registry import build_model

    case = load_case("veil9")
    n = len(case.field)
    d = np.concatenate([np.linspace(0.3, 0.9, n), np.linspace(0.1, 0.2, n)])
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    bounds = []
    for postponed in (False, True):
        monkeypatch.setattr(compilation, "_postponed", postponed)
        relaxation = build_model(case.network).relaxation
        priced = relaxation.priced_cost(d, relaxation.dearest_price)
        bounds.append((relaxation.relaxed_cost(d), priced.value))
    assert bounds[0] == pytest.approx(bounds[1], rel=1e-5)
