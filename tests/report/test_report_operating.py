"""Operating points in readable units: balances that must close, and flows that can be worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from conftest import optimum, two_bus_net
from gridveil.sectors.gas.operating import gas_state
from gridveil.sectors.power.operating import power_state
from gridveil.sectors.registry import load_case


def test_two_buses_by_hand(load_text):
    case = load_text(two_bus_net().text())
    state = power_state(case.network, optimum(case).x)
    made = state.generation[0]
    assert state.flow[0] == pytest.approx(abs(made), rel=1e-6)  # all that is generated enters the only line
    assert state.loading[0] == pytest.approx(abs(made) / 90, rel=1e-6)
    voltage = state.voltage[0]
    lost = 0.01 * (abs(made) / 100 / voltage) ** 2 * 100  # r·|I|², MW
    assert made.real == pytest.approx(41.75 + lost, rel=1e-6)


@pytest.mark.parametrize("name", ["veil9", "case118_ieee"])
def test_losses_are_small_and_positive_and_no_limit_is_broken(name):
    case = load_case(name)
    state = power_state(case.network, optimum(case).x)
    demand = 100 * case.values.reveal().real.sum()
    assert 0 < state.generation.real.sum() - demand < 0.06 * demand
    assert np.nanmax(state.loading) <= 1 + 1e-6
    assert np.all(state.voltage <= case.network.grid.bus.v_max + 1e-6)


def test_gas_supplies_cover_the_demands():
    case = load_case("veilgas")
    demand = case.values.reveal()
    state = gas_state(case.network, optimum(case).x, demand)
    supplied = state.supply.sum() + case.network.receipt.injection.sum()
    assert supplied == pytest.approx(case.network.flow_base * demand.sum(), rel=1e-6)
    limits = case.network.junction
    assert np.all((limits.p_min / 1e5 - 1e-4 <= state.pressure) & (state.pressure <= limits.p_max / 1e5 + 1e-4))
