"""The same network in other formats, and three-winding transformers against an independent network matrix."""

from __future__ import annotations

import numpy as np
import powerio
import pytest

from conftest import optimum
from gridveil.core.choices import Formulation
from gridveil.sectors.builtin import resolve_case
from gridveil.sectors.power.network import Grid
from gridveil.sectors.registry import load_case, write_network

COSTS_KEPT = {
    "matpower": "case.m",
    "powermodels-json": "case.json",
    "egret-json": "case.json",
    "pandapower-json": "case.json",
    "powerworld": "case.aux",
}

THREE_WINDINGS = """0, 100.00, 33, 0, 0, 60.00 / three windings
made for gridveil
test
1,'A',230.0,3,1,1,1,1.0,0.0,1.1,0.9,1.1,0.9
2,'B',115.0,1,1,1,1,1.0,0.0,1.1,0.9,1.1,0.9
3,'C',13.8,1,1,1,1,1.0,0.0,1.1,0.9,1.1,0.9
0 / END OF BUS DATA
2,'1',1,1,1,50.0,10.0,0,0,0,0,1,1,0
0 / END OF LOAD DATA
0 / END OF FIXED SHUNT DATA
1,'1',50,0,100,-100,1.0,0,100,0,1,0,0,1,1,100,200,0,1,1
0 / END OF GENERATOR DATA
0 / END OF BRANCH DATA
1,2,3,'1',1,1,1,0.002,-0.01,2,'T',1,1,1
0.01,0.11,100,0.02,0.12,100,0.03,0.13,100,1.0,0.0
1.02,230,5.0,100,100,100,0,0,1.1,0.9,1.1,0.9,33,0,0,0,0
0.98,115,0,100,100,100,0,0,1.1,0.9,1.1,0.9,33,0,0,0,0
1.01,13.8,0,100,100,100,0,0,1.1,0.9,1.1,0.9,33,0,0,0,0
0 / END OF TRANSFORMER DATA
Q
"""


@pytest.mark.parametrize("token", COSTS_KEPT)
def test_same_optimum_in_every_format(tmp_path, token):
    source = resolve_case("veil9")
    target = tmp_path / COSTS_KEPT[token]
    powerio.emit(powerio.parse(str(source)), token, str(target))
    case = load_case(str(target))
    assert case.file_format == token
    assert optimum(case).cost == pytest.approx(optimum(load_case("veil9")).cost, rel=1e-5)


def test_pypsa_folder(tmp_path):
    """The format has no reactive limits, so only the DC optimum must survive."""
    powerio.emit(powerio.parse(str(resolve_case("veil9"))), "pypsa-csv", str(tmp_path / "case"))
    cost = optimum(load_case(str(tmp_path / "case")), Formulation.DC).cost
    assert cost == pytest.approx(optimum(load_case("veil9"), Formulation.DC).cost, rel=1e-6)


def network_matrix(grid: Grid) -> np.ndarray:
    matrix = np.diag(grid.bus.shunt).astype(complex)
    np.add.at(matrix, (grid.from_bus, grid.from_bus), grid.y_ff)
    np.add.at(matrix, (grid.from_bus, grid.to_bus), grid.y_ft)
    np.add.at(matrix, (grid.to_bus, grid.from_bus), grid.y_tf)
    np.add.at(matrix, (grid.to_bus, grid.to_bus), grid.y_tt)
    return matrix


def test_psse_has_no_costs_but_the_same_physics(tmp_path):
    target = tmp_path / "case.raw"
    powerio.emit(powerio.parse(str(resolve_case("veil9"))), "psse", str(target))
    case, original = load_case(str(target)), load_case("veil9")
    assert not case.network.generator.cost.stated
    assert np.allclose(network_matrix(case.network.grid), network_matrix(original.network.grid), atol=1e-6)
    assert np.allclose(case.values.reveal(), original.values.reveal())


def test_three_winding_transformer_becomes_a_star(tmp_path):
    path = tmp_path / "star.raw"
    path.write_text(THREE_WINDINGS)
    case = load_case(str(path))
    grid = case.network.grid
    assert grid.n_bus == 4
    assert any("star" in note for note in case.notes)
    # PSS/E connects the magnetising admittance at the first winding's bus; powerio's matrix has it at the star.
    magnetising = np.zeros((4, 4), dtype=complex)
    magnetising[0, 0], magnetising[3, 3] = 0.002 - 0.01j, -(0.002 - 0.01j)
    theirs = powerio.parse(str(path)).value.calc_admittance_matrix().toarray()
    assert np.allclose(network_matrix(grid), theirs + magnetising, atol=1e-9)


def test_a_released_pandapower_file_opens_in_pandapower(tmp_path):
    """And holds the demands that were written."""
    pandapower = pytest.importorskip("pandapower")
    case = load_case("veil9")
    path = write_network(case.network, case.values.reveal(), tmp_path, "pandapower-json", title="released")
    net = pandapower.from_json(str(path))
    base = case.network.base_mva
    assert sorted(net.load.p_mw) == pytest.approx(sorted(base * case.values.reveal().real))


def test_a_released_pypsa_folder_fixes_no_dispatch(tmp_path):
    case = load_case("veil9")
    path = write_network(case.network, case.values.reveal(), tmp_path, "pypsa-csv", title="released")
    header, *rows = (path / "generators.csv").read_text().splitlines()
    assert "p_set" not in header.split(",") and "p_nom" in header.split(",")
    assert len(rows) == len(case.network.generator.bus) and "p_set" in (path / "loads.csv").read_text()
