"""Operating points in readable units: balances that must close, and flows that can be worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from conftest import optimum, two_bus_net
from gridveil.sectors.gas.operating import gas_state
from gridveil.sectors.power.operating import power_state
from gridveil.sectors.registry import load_case, sector_of
from gridveil.sectors.view import Sites


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


def test_dc_lines_are_drawn_with_their_loading(load_text):
    """Dear power at bus 2: the DC line carries its 20 MW, then half of its limit of 40; one out of service is not drawn."""
    states = []
    for most in (20.0, 40.0):
        net = two_bus_net()
        net.add_gen(2, cost=(0.0, 90.0, 0.0))
        net.branch[0][5] = 1.0
        net.add_dcline(1, 2, p=(0.0, most))
        net.add_dcline(2, 1, status=0)
        states.append((load_text(net.text()), most))
    (case, _), (wider, _) = states
    values = 100 * case.values.reveal()
    sites = Sites(names=["2"], true=values, noisy=values, released=values)
    before, after = optimum(case).x, optimum(case).x.copy()
    grid = case.network.grid
    place = 2 * grid.n_bus + 2 * len(grid.generator.bus)
    assert 100 * before[place] == pytest.approx(20.0, abs=1e-4)
    after[place] = 0.1
    sector = sector_of(wider.network)
    view = sector.compare(wider.network, sites, before, after, lambda bus: f"bus {bus}").view
    assert view.start.tolist() == [0, 0] and view.end.tolist() == [1, 1] and view.marked.tolist() == [False, True]
    assert view.edge_titles[1].startswith("bus 1 – bus 2, DC line: 50") and view.marked_words == "DC lines"
    assert view.changes[2].values[1] == pytest.approx(-25.0, abs=1e-3)
    drawn = sector.graph(wider.network)
    assert drawn.start.tolist() == [0, 0] and drawn.end.tolist() == [1, 1]
    assert sector.compare(load_case("veil9").network, *_veil9()).view.marked_words == ""


def _veil9():
    case = load_case("veil9")
    values, x = 100 * case.values.reveal(), optimum(case).x
    return Sites(names=list(case.field.places), true=values, noisy=values, released=values), x, x, str
