"""MatGas in and out: both dialects, what is secret, what a release may contain."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from gas_builders import MATGAS, SECRETS, SOUND, make_tables, network_of
from hypothesis import given, settings
from hypothesis import strategies as st

from gridveil.core.choices import DemandUnit
from gridveil.sectors.gas.boundary import GasBoundary
from gridveil.sectors.gas.generator import generate_gas_network
from gridveil.sectors.gas.matgas import read_matgas
from gridveil.sectors.gas.matgas_write import matgas_text
from gridveil.sectors.gas.network import public_gas_tables
from gridveil.sectors.gas.read import is_gas_file, read_gas_file
from gridveil.sectors.gas.tables import GasTables

TABLES = ("junction", "pipe", "link", "compressor", "regulator", "receipt")


@pytest.fixture
def read(tmp_path):
    def read_text(text: str) -> GasTables:
        path = tmp_path / "tiny.m"
        path.write_text(text)
        return read_matgas(path)

    return read_text


def assert_same(first: GasTables, second: GasTables, *, ids: bool = True) -> None:
    for name in TABLES:
        left, right = vars(getattr(first, name)), vars(getattr(second, name))
        for column, values in left.items():
            if column != "id":
                np.testing.assert_array_equal(values, right[column], err_msg=f"{name}.{column}")
            elif ids:
                assert values == right[column]
    np.testing.assert_array_equal(first.delivery.junction, second.delivery.junction)
    np.testing.assert_array_equal(first.delivery.withdrawal.reveal(), second.delivery.withdrawal.reveal())
    assert first.gas.sound_speed == second.gas.sound_speed


def test_columns_of_a_small_file(read):
    tables = read(MATGAS)
    assert tables.junction.id == ("1", "2", "3", "4")
    assert tables.pipe.id == ("1", "2")
    np.testing.assert_array_equal(tables.pipe.from_junction, [1, 2])
    np.testing.assert_array_equal(tables.junction.slack_pressure, [5e6, np.nan, np.nan, np.nan])
    np.testing.assert_array_equal(tables.junction.p_max, [8e6, 7.5e6, 8e6, 8e6])  # the outlet limit is folded in
    np.testing.assert_array_equal(tables.delivery.withdrawal.reveal(), [31.625, 23.125, 17.375])
    np.testing.assert_array_equal(tables.delivery.shared_junction, [2, 3])
    np.testing.assert_array_equal(tables.delivery.withdrawal_per_junction.reveal(), [31.625, 40.5])
    np.testing.assert_array_equal(tables.receipt.injection, [61.875, 10.25])
    assert tables.notes == ("1 rows of table pipe left out: not in service",)
    with pytest.raises(ValueError, match="read-only"):
        tables.pipe.length[0] = 1.0


def test_nothing_printed_shows_a_demand(read):
    tables = read(MATGAS)
    network, demand = network_of(tables)
    shown = repr(tables) + str(tables.delivery) + repr(network) + str(vars(tables))
    assert "3 sites, values hidden" in shown
    assert not [secret for secret in SECRETS if secret in shown]
    assert len(demand) == 3


@pytest.mark.parametrize(
    "change",
    [
        ("fr_junction to_junction", "f_junction t_junction"),
        ("% id", "%column_names% id"),
        ("mgc.", "mgg."),
        ("\n", "\r\n"),
        ("];", "]"),
        (" 0.5 40000 ", ", 0.5,\t4e4, "),
        ("2 3 4 0.4 20000 0.012 4000000 8000000 1 1\n3", "2 3 4 0.4 20000 0.012 4000000 8000000 1 1; 3"),
        ("\n1 1 2 1 1.6", "\n1.0 '1' 2.0 1 1.6"),
    ],
)
def test_dialects_and_layouts_read_alike(read, change):
    assert change[0] in MATGAS
    assert_same(read(MATGAS), read(MATGAS.replace(*change)))


def test_transfers_without_flow_are_no_sites_and_others_are(read):
    assert len(read(MATGAS).delivery.withdrawal) == 3
    tables = read(MATGAS.replace("1 3 -5 8.765 0.0", "1 3 -5 8.765 4.5"))
    np.testing.assert_array_equal(tables.delivery.junction, [2, 3, 3, 2])
    np.testing.assert_array_equal(tables.delivery.withdrawal.reveal(), [31.625, 23.125, 17.375, 4.5])
    assert "1 transfers with a nominal flow treated as deliveries" in tables.notes
    assert "4.5" not in repr(tables)


def test_limits_that_the_file_states_in_its_own_way(read):
    text = MATGAS.replace("1 1 2 1 1.6 1e100 -900 900 7500000 1 0", "1 1 2 0.8 1.6 2e6 -900 900 7500000 1 1")
    tables = read(
        text.replace("1 2 3 0.5 40000 0.011 4000000 8000000 1 1", "1 2 3 0.5 40000 0.011 4000000 8000000 1 0")
    )
    assert (tables.compressor.ratio_min[0], tables.compressor.flow_min[0]) == (1.0, 0.0)
    np.testing.assert_array_equal(tables.pipe.flow_min, [0.0, -np.inf])
    for part in ("1 compressors may lower the pressure", "power limits of compressors left out"):
        assert any(part in note for note in tables.notes)


def test_valves_regulators_and_resistors_are_read_with_notes(read):
    more = """
% id fr_junction to_junction status
mgc.short_pipe = [
1 2 3 1
];
% id fr_junction to_junction status
mgc.valve = [
1 3 4 1
];
% id fr_junction to_junction reduction_factor_min reduction_factor_max flow_min flow_max status
mgc.regulator = [
1 2 4 0.25 1.0 -5 90 1
];
% id fr_junction to_junction drag diameter status
mgc.resistor = [
7 2 4 3.5 0.6 1
];
% id fr_junction to_junction p_loss status
mgc.loss_resistor = [
9 2 4 100 1
];
% id junction_id
mgc.storage = [
1 2
];
"""
    tables = read(MATGAS + more)
    assert tables.link.id == ("short_pipe 1", "valve 1", "loss_resistor 9")
    assert (tables.regulator.ratio_min[0], tables.regulator.flow_min[0], tables.regulator.flow_max[0]) == (0.25, 0, 90)
    equivalent = tables.pipe.friction_factor[-1] * tables.pipe.length[-1] / tables.pipe.diameter[-1]
    assert equivalent == pytest.approx(3.5)
    for part in ("storage left out", "valve: treated as open", "loss_resistor: fixed pressure loss left out"):
        assert any(part in note for note in tables.notes)


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    old_headings=st.booleans(),
    base=st.floats(0.5, 400.0),
    unit=st.sampled_from(DemandUnit),
)
def test_what_is_written_is_read_back(tmp_path_factory, seed, old_headings, base, unit):
    tables = generate_gas_network(deliveries=8, stations=2, seed=seed)
    boundary = GasBoundary(flow_base=base, demand_unit=unit)
    network, _ = network_of(tables, boundary)
    released = np.random.default_rng(seed).normal(3.0, 5.0, network.n_site)
    path = tmp_path_factory.mktemp("written") / "released.m"
    text = matgas_text(public_gas_tables(network, released), title="t", with_fixed_injections=True)
    path.write_text(text.replace("fr_junction to_junction", "f_junction t_junction") if old_headings else text)
    again = read_matgas(path)
    np.testing.assert_array_equal(again.delivery.withdrawal.reveal(), released * base)
    network_again, demand_again = network_of(again, boundary)
    np.testing.assert_allclose(demand_again, released, rtol=1e-14)
    for name in TABLES:
        for column, values in vars(getattr(network, name)).items():
            if column != "id":
                np.testing.assert_array_equal(values, getattr(getattr(network_again, name), column))


def test_links_and_regulators_survive_a_release(tmp_path):
    tables = make_tables(
        4, pipes=[(0, 1, 0.5, 1e4, 0.01)], links=[(1, 2)], regulators=[(2, 3)], deliveries=[(3, 5.0), (2, 1.0)]
    )
    network, demand = network_of(tables)
    path = tmp_path / "released.m"
    path.write_text(matgas_text(public_gas_tables(network, demand), title="t", with_fixed_injections=True))
    again = replace(read_matgas(path), receipt=tables.receipt)  # a release names the slack as a supply
    assert_same(tables, again, ids=False)


@pytest.mark.parametrize("with_fixed_injections", [True, False])
def test_release_contains_nothing_that_tells_the_true_demands(read, with_fixed_injections):
    network, demand = network_of(read(MATGAS), GasBoundary(flow_base=2.0, sound_speed=SOUND))
    text = matgas_text(
        public_gas_tables(network, demand * 0 + 9.5), title="t", with_fixed_injections=with_fixed_injections
    )
    hidden = [*SECRETS, "ACME", "LDC", "61.875", "91.5", "20.5", "51.375", "8.765", "3.21", "6.54", "0.98", "7654.25"]
    assert not [word for word in hidden if word in text]
    assert ("10.25" in text) is with_fixed_injections  # a fixed supply that is not at the slack
    assert text.count("19.0") == 9  # three sites: least, most and nominal withdrawal are the released one
    assert "comment" not in text


def test_gas_and_power_files_are_told_apart(tmp_path):
    gas, power = tmp_path / "gas.m", tmp_path / "power.m"
    gas.write_text(MATGAS)
    power.write_text("function mpc = x\nmpc.bus = [\n1 2\n];\n% mgc.junction = [\n")
    assert is_gas_file(gas)
    assert not is_gas_file(power)
    assert is_gas_file(tmp_path / "any.net")
    assert read_gas_file(gas).file_format == "matgas"
