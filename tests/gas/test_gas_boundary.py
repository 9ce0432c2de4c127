"""Boundary conditions: what is stated, what the file says, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from gas_builders import MATGAS, SLACK, make_tables, network_of

from gridveil.core.errors import InputError
from gridveil.sectors.gas.boundary import (
    FLOW_UNITS,
    PRESETS,
    PRESSURE_UNITS,
    SPEED_UNITS,
    DemandUnit,
    GasBoundary,
    parse_quantity,
    parse_slack,
    preset_boundary,
)
from gridveil.sectors.gas.matgas import read_matgas
from gridveil.sectors.gas.tables import GasProperties


def small():
    return make_tables(
        3, pipes=[(0, 1, 0.5, 1e4, 0.01), (1, 2, 0.5, 1e4, 0.01)], deliveries=[(2, 6.0), (2, 4.0), (1, 2.0)]
    )


@pytest.mark.parametrize(
    ("text", "junction", "pascal"),
    [
        ("1=500psi", "1", 3447378.6466),
        ("0=5.0MPa", "0", 5e6),
        ("a=b=50 bar", "a=b", 5e6),
        ("7=5000000", "7", 5e6),
        ("7=5e3kPa", "7", 5e6),
    ],
)
def test_slack_is_read_with_units(text, junction, pascal):
    assert parse_slack(text) == (junction, pytest.approx(pascal, rel=1e-9))


@pytest.mark.parametrize("text", ["1", "=5MPa", "1=", "1=fiveMPa", "1=5barg", "1=5MPa 6", "1=nan", "1=5 M Pa", ""])
def test_bad_slack_is_refused(text):
    with pytest.raises(InputError) as error:
        parse_slack(text)
    assert "\n" not in str(error.value)


def test_speed_and_flow_are_read_with_units():
    assert parse_quantity("377.968m/s", SPEED_UNITS, "--sound-speed") == 377.968
    assert parse_quantity(" 56.3 kg/s ", FLOW_UNITS, "--flow-base") == 56.3
    with pytest.raises(InputError, match="known are Pa, kPa, MPa, bar, psi"):
        parse_quantity("5 atm", PRESSURE_UNITS, "x")


@pytest.mark.parametrize(
    "make",
    [
        lambda: GasBoundary(sound_speed=0.0),
        lambda: GasBoundary(flow_base=-1.0),
        lambda: GasBoundary(flow_base=np.nan),
        lambda: GasBoundary(slack={"1": -5e6}),
        lambda: preset_boundary("25-pipe"),
        lambda: network_of(small(), GasBoundary(slack={"9": 5e6})),
        lambda: network_of(small(), GasBoundary(slack={"0": 3.9e6})),
        lambda: network_of(small(), GasBoundary(slack={"0": 8.1e6})),
        lambda: network_of(small(), GasBoundary(slack={"0": 5e6, "1": 5e6, "2": 5e6})),
        lambda: network_of(replace(small(), gas=GasProperties(temperature=283.0))),
    ],
)
def test_impossible_conditions_are_refused(make):
    with pytest.raises(InputError) as error:
        make()
    assert "\n" not in str(error.value)


def test_stated_conditions_override_those_of_the_file():
    network, _ = network_of(small(), GasBoundary(slack={"2": 6e6}, sound_speed=400.0))
    np.testing.assert_array_equal(network.junction.slack_pressure, [np.nan, np.nan, 6e6])
    assert network.sound_speed == network.gas.sound_speed == 400.0
    kept, _ = network_of(small())
    np.testing.assert_array_equal(kept.junction.slack_pressure, [SLACK, np.nan, np.nan])
    np.testing.assert_allclose(network.resistance, kept.resistance * (400 / 350) ** 2)


def test_demand_unit_and_flow_base():
    network, demand = network_of(small(), GasBoundary(flow_base=4.0))
    np.testing.assert_array_equal(network.site_junction, [2, 2, 1])
    np.testing.assert_allclose(demand, [1.5, 1.0, 0.5])
    network, demand = network_of(small(), GasBoundary(flow_base=4.0, demand_unit=DemandUnit.JUNCTION))
    np.testing.assert_array_equal(network.site_junction, [1, 2])
    np.testing.assert_allclose(demand, [0.5, 2.5])


def test_flow_base_of_a_file_is_never_used(tmp_path):
    path = tmp_path / "tiny.m"
    path.write_text(MATGAS)
    network, _ = network_of(read_matgas(path))
    assert network.flow_base == 1.0


def test_supplies_at_a_slack_are_dropped_because_they_tell_the_total(tmp_path):
    path = tmp_path / "tiny.m"
    path.write_text(MATGAS)
    network, _ = network_of(read_matgas(path))
    np.testing.assert_array_equal(network.injection, [0.0, 0.0, 10.25, 0.0])
    assert "61.875" not in repr(network)


def test_speed_of_sound_follows_from_the_gas():
    gas = GasProperties(temperature=288.706, compressibility=1.0, molar_mass=0.6 * 0.0289647)
    assert gas.sound_speed == pytest.approx(371.66, rel=1e-3)  # what GasModels' own files state for this gas


def test_presets_are_the_conditions_of_the_studies():
    assert {name: (dict(b.slack), b.sound_speed, b.flow_base, b.demand_unit.value) for name, b in PRESETS.items()} == {
        "24-pipe": ({"1": 3447378.645}, 377.968, 56.3, "junction"),
        "gaslib-40": ({"0": 5.0e6}, 312.806, 301.5, "delivery"),
        "gaslib-135": ({"0": 4.0e6}, 312.806, 56.9, "delivery"),
    }
