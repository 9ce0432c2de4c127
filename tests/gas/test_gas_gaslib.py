"""GasLib XML: every kind of element, units to SI, simplifications told."""

from __future__ import annotations

import numpy as np
import pytest
from gas_builders import CS, GASLIB_SECRETS, SCN, gaslib_benchmark, network_of, write_gaslib

from gas_check import check_gas_point
from gridveil.programs import Follower
from gridveil.sectors.gas.boundary import GasBoundary
from gridveil.sectors.gas.gaslib import read_gaslib
from gridveil.sectors.gas.ogf import ogf_point, optimal_gas_flow
from gridveil.sectors.gas.tables import GAS_CONSTANT

BAR = 1e5
NORMAL = 0.8 * 1000 / 3600  # kg/s in 1000 m³/h at the normal density of the file


def test_all_elements_and_units(tmp_path):
    tables = read_gaslib(write_gaslib(tmp_path))
    assert tables.junction.id == ("well", "a", "b", "c", "town", "port")
    # own limits, then those of pipe (both ends), station (inlet, outlet), control valve and scenario
    np.testing.assert_allclose(tables.junction.p_min / BAR, [42, 40, 40, 41, 44.01325, 40])
    np.testing.assert_allclose(tables.junction.p_max / BAR, [71.01325, 75, 78, 80, 80, 60])
    assert tables.pipe.id == ("p", "r")
    np.testing.assert_allclose(tables.pipe.diameter, [0.5, 0.4])
    np.testing.assert_allclose(tables.pipe.length[0], 36e3)
    np.testing.assert_allclose(tables.pipe.flow_min, [-900 * NORMAL, -np.inf])
    np.testing.assert_allclose(tables.pipe.friction_factor[0], (2 * np.log10(0.5 / 5e-5) + 1.138) ** -2)
    np.testing.assert_allclose(tables.pipe.friction_factor[1] * tables.pipe.length[1] / 0.4, 7.0)
    assert tables.link.id == ("s", "v", "q")
    assert (tables.compressor.flow_min[0], tables.compressor.flow_max[0]) == (0.0, pytest.approx(1800 * NORMAL))
    assert (tables.regulator.ratio_min[0], tables.regulator.ratio_max[0]) == (0.0, 1.0)
    assert (tables.regulator.flow_min[0], tables.regulator.flow_max[0]) == (0.0, 50.0)
    np.testing.assert_allclose(tables.receipt.injection, [360 * NORMAL])
    np.testing.assert_allclose(tables.delivery.withdrawal.reveal(), [31.625, 48.375])
    assert not [secret for secret in GASLIB_SECRETS if secret in repr(tables)]


def test_gas_and_largest_ratio(tmp_path):
    tables = read_gaslib(write_gaslib(tmp_path))
    middle = np.mean([55.506625, 60, 59, 60, 60, 60]) / 46  # limits of nodes and pipes; 70 barg is 71.01325 bar
    z = 1 + 0.257 * middle - 0.533 * middle * 190 / 283.15
    square = z * GAS_CONSTANT * 283.15 / 0.0185
    assert tables.gas.sound_speed**2 == pytest.approx(square, rel=2e-3)
    head = 2 * 1e3 * ((2 + 0.004 * 6000) + (1 + 0.0005 * 6000) ** 2 / 4)  # two stages at 6000 per minute, peak at Q = 2
    ratio = (1 + 0.4 / 1.4 * head / tables.gas.sound_speed**2) ** (1.4 / 0.4)
    assert tables.compressor.ratio_max[0] == pytest.approx(ratio)


def test_heights_need_no_unit(tmp_path):
    """GasLib-24 states none, and was refused, although heights are left out anyway."""
    path = write_gaslib(tmp_path)
    path.write_text(path.read_text().replace('<height value="10" unit="m"/>', '<height value="10"/>'))
    assert any("heights of nodes left out" in note for note in read_gaslib(path).notes)
    path.write_text(path.read_text().replace('<height value="10"/>', '<height value="0"/>'))
    assert not any("heights" in note for note in read_gaslib(path).notes)


def test_simplifications_are_told(tmp_path):
    notes = "\n".join(read_gaslib(write_gaslib(tmp_path)).notes)
    for part in (
        "heights of nodes left out",
        "1 valves treated as open short pipes",
        "1 resistors with a drag factor treated as pipes",
        "1 resistors with a fixed pressure loss treated as short pipes",
        "1 control valves treated as regulators",
        "Nikuradse",
        "AGA formula",
        "peak head of their machines",
    ):
        assert part in notes


def test_without_machine_data_pressure_limits_bound_the_ratio(tmp_path):
    tables = read_gaslib(write_gaslib(tmp_path, cs=None))
    assert tables.compressor.ratio_max[0] == pytest.approx(75 / 42)
    assert any("without machine data" in note for note in tables.notes)
    piston = CS.replace("turboCompressor", "pistonCompressor")
    assert read_gaslib(write_gaslib(tmp_path, cs=piston)).compressor.ratio_max[0] == pytest.approx(75 / 42)


def test_a_range_of_flow_gives_its_middle_without_telling_it(tmp_path):
    upper = SCN.replace('value="142.3125" bound="upper"', 'value="160.3125" bound="upper"')
    tables = read_gaslib(write_gaslib(tmp_path, scn=upper))
    np.testing.assert_allclose(tables.delivery.withdrawal.reveal()[0], 151.3125 * NORMAL)
    assert "1 entries and exits with a range of flow: its middle is used" in tables.notes


def test_the_first_of_several_scenarios_is_used(tmp_path):
    second = SCN.replace("</boundaryValue>", '<scenario id="two"/></boundaryValue>')
    assert any("2 scenarios" in note for note in read_gaslib(write_gaslib(tmp_path, scn=second)).notes)


def test_other_file_names_can_be_given(tmp_path):
    path = write_gaslib(tmp_path)
    for suffix in (".scn", ".cs"):
        path.with_suffix(suffix).rename(tmp_path / f"other{suffix}")
    tables = read_gaslib(path, scenario=tmp_path / "other.scn", stations=tmp_path / "other.cs")
    assert tables.compressor.ratio_max[0] != pytest.approx(75 / 42)


def test_a_gaslib_network_can_be_solved(tmp_path):
    tables = read_gaslib(write_gaslib(tmp_path))
    network, demand = network_of(tables, GasBoundary(slack={"well": 45 * BAR}))
    solution = Follower(optimal_gas_flow(network)).solve(demand)
    assert solution.converged
    assert solution.cost > 0
    check = check_gas_point(network, demand, ogf_point(network, solution.x))
    assert check.worst < 1e-6
    assert check.cost == pytest.approx(solution.cost, rel=1e-5)


@pytest.mark.parametrize(
    ("name", "counts"),
    [("GasLib-11", (11, 8, 1, 2, 3)), ("GasLib-40", (40, 39, 0, 6, 29)), ("GasLib-135", (135, 141, 0, 29, 99))],
)
def test_benchmark_networks(name, counts):
    tables = read_gaslib(gaslib_benchmark(name))
    found = (tables.junction.id, tables.pipe.id, tables.link.id, tables.compressor.id, tables.delivery.junction)
    assert tuple(map(len, found)) == counts
    total = tables.receipt.injection.sum()
    assert tables.delivery.withdrawal.reveal().sum() == pytest.approx(total, rel=1e-3)  # a nomination is balanced
