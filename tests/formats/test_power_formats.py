"""The same network in other formats, and three-winding transformers against an independent network matrix."""

from __future__ import annotations

import re

import numpy as np
import powerio
import pytest

from conftest import Matpower, data_folder, optimum, two_bus_net
from gridveil.core.choices import Formulation
from gridveil.core.errors import InputError
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


def test_psse_sections_are_known_by_their_place(tmp_path):
    """powerio knows them by the remark at their end, which the format does not ask for: without it, all but buses vanished."""
    path, bare = tmp_path / "case.raw", tmp_path / "bare.raw"
    powerio.emit(powerio.parse(str(resolve_case("veil9"))), "psse", str(path))
    bare.write_text(re.sub(r"(?m)^\s*0\s*/.*$", "0", path.read_text()))
    one, other = load_case(str(path)), load_case(str(bare))
    assert np.array_equal(network_matrix(one.network.grid), network_matrix(other.network.grid))
    assert np.array_equal(one.values.reveal(), other.values.reveal())
    bare.write_text(path.read_text().replace("END OF LOAD DATA", "END OF ZONE DATA"))
    with pytest.raises(InputError, match="should be LOAD data"):
        load_case(str(bare))
    bare.write_text(re.sub(r"(?m)^\s*0\s*/.*$", "0", path.read_text().replace(", 33,", ", 34,", 1)))
    with pytest.raises(InputError, match="has no name"):
        load_case(str(bare))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("frankenstein_70", "FACTS device 2: it has a series part"),
        ("case7_tplgy", "VSC line 2: the file states no rating"),
        ("two-terminal-hvdc_test", "no rating"),
    ],
)
@pytest.mark.parametrize("remarks", [True, False])
def test_psse_equipment_that_is_not_modelled_is_refused(tmp_path, name, reason, remarks):
    """These files were accepted as if they had no such equipment."""
    source = data_folder() / "powermodels" / f"{name}.raw"
    if not source.exists():
        pytest.skip(f"needs {source.name} from the folder named by GRIDVEIL_DATA")
    path = tmp_path / "case.raw"
    path.write_text(source.read_text() if remarks else re.sub(r"(?m)^\s*0\s*/.*$", "0", source.read_text()))
    with pytest.raises(InputError, match=reason):
        load_case(str(path))


def test_links_are_followed_and_giants_refused(tmp_path, monkeypatch):
    """A link was refused; a file of 179 MB took 16 GB of memory."""
    link = tmp_path / "link.m"
    link.symlink_to(resolve_case("veil9"))
    assert load_case(str(link)).network.base_mva == load_case("veil9").network.base_mva
    monkeypatch.setattr("gridveil.sectors.power.parsed.LARGEST_FILE", 1 << 10)
    with pytest.raises(InputError, match="is larger than"):
        load_case(str(link))


def test_a_note_names_its_rows(load_text):
    net = two_bus_net()
    for angle in ((-360.0, 360.0), (0.0, 0.0), (-30.0, 30.0), (-180.0, 180.0)):
        net.add_branch(1, 2, angle=angle)
    assert load_text(net.text()).notes == ("3 branches without an angle limit (rows 2–3, 5): 60 degrees assumed",)


def turned(second: float, *, angle: tuple[float, float] = (-360.0, 360.0), reference: int = 1) -> Matpower:
    """Two transformers between two voltages, each with a turn, and a line behind them."""
    net = Matpower()
    for bus, kind in ((1, 3), (2, 1), (3, reference)):
        net.add_bus(bus, kind=kind, pd=20.0 * (bus - 1), qd=5.0)
    net.add_gen(1, cost=(0.02, 10.0, 0.0))
    net.add_branch(1, 2, r=0.01, shift=150.0, tap=0.98, angle=angle)
    net.add_branch(1, 3, r=0.01, shift=second, tap=1.01, angle=angle)
    net.add_branch(2, 3, r=0.02, rate=60.0, angle=angle)
    return net


@pytest.mark.parametrize("second", [150.0, -210.0])
def test_vector_groups_turn_angles_and_nothing_else(load_text, second):
    """Every low-voltage network behind a Dyn5 transformer was infeasible, by angle limits that nobody had stated."""
    straight = turned(0.0)
    straight.branch[0][9] = 0.0
    case = load_text(turned(second).text())
    assert optimum(case).cost == pytest.approx(optimum(load_text(straight.text(), "straight.m")).cost, rel=1e-9)
    assert any("turns by vector groups (branches 1–2)" in note for note in case.notes)


@pytest.mark.parametrize("net", [turned(120.0), turned(150.0, angle=(-30.0, 30.0)), turned(150.0, reference=3)])
def test_turns_that_matter_stay(load_text, net):
    """A loop that turns, a stated limit, and a second reference bus behind the turn: these are other networks."""
    case = load_text(net.text())
    assert np.rad2deg(np.angle(case.network.branch.tap[0])) == pytest.approx(150.0)
    assert not any("vector groups" in note for note in case.notes)
