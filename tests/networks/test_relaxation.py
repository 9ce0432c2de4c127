"""The relaxed cost with priced moves: one convex function whose slope is its gradient and never above the price."""

from __future__ import annotations

import numpy as np
import pytest

from conftest import Matpower
from gridveil.core.choices import Formulation
from gridveil.sectors.power.soc import soc_lower_bound
from gridveil.sectors.registry import build_model, load_case

SHARES = [0.2, 0.45, 1.0, 3.0]  # of the dearest price: below the market's price, near it, and above


@pytest.fixture(scope="module")
def veil9():
    case = load_case("veil9")
    model = build_model(case.network)
    return case.network.grid, model.relaxation, model.layout.to_program(case.values.reveal())


def sizes(slope):
    n = len(slope) // 2
    return np.hypot(slope[:n], slope[n:])


@pytest.mark.parametrize("share", SHARES)
def test_the_slope_is_the_gradient(veil9, share):
    _, relaxation, d = veil9
    price, step = share * relaxation.dearest_price, 1e-4
    slope = relaxation.priced_cost(d, price).slope
    assert slope.shape == d.shape
    for k in range(len(d)):
        move = step * np.eye(len(d))[k]
        ahead, behind = (relaxation.priced_cost(d + sign * move, price).value for sign in (1, -1))
        assert slope[k] == pytest.approx((ahead - behind) / (2 * step), rel=1e-4, abs=1e-2)


@pytest.mark.parametrize("share", [*SHARES, 1000.0])
@pytest.mark.parametrize("factor", [1.0, -1.0, 30.0])
def test_no_slope_exceeds_the_price_even_where_the_demands_cannot_be_served(veil9, share, factor):
    _, relaxation, d = veil9
    price = share * relaxation.dearest_price
    found = relaxation.priced_cost(factor * d, price)
    assert np.isfinite(found.value) and np.all(sizes(found.slope) <= price * (1 + 1e-6))


def test_what_cannot_be_served_is_charged_for(veil9):
    """Thirty times the load is beyond all generators, so moves must be paid for, at the full price."""
    grid, relaxation, d = veil9
    price = 1000 * relaxation.dearest_price
    found = relaxation.priced_cost(30 * d, price)
    missing = 30 * d[: len(d) // 2].sum() - grid.generator.p_max.sum()
    assert found.value > price * missing > 0
    assert sizes(found.slope).max() == pytest.approx(price, rel=1e-6)


@pytest.mark.parametrize("share", SHARES)
def test_it_is_never_above_the_relaxed_cost_and_grows_with_the_price(veil9, share):
    grid, relaxation, d = veil9
    n = len(d) // 2
    relaxed = soc_lower_bound(grid, d[:n] + 1j * d[n:]).value
    value = relaxation.priced_cost(d, share * relaxation.dearest_price).value
    assert value <= relaxed * (1 + 1e-8)
    assert relaxation.priced_cost(d, share / 2 * relaxation.dearest_price).value <= value * (1 + 1e-8)


def test_at_a_huge_price_it_is_the_relaxed_cost(veil9):
    _, relaxation, d = veil9
    relaxed = relaxation.cost_bound(d).value
    assert relaxation.priced_cost(d, 1000 * relaxation.dearest_price).value == pytest.approx(relaxed, rel=1e-7)
    assert relaxation.priced_cost(d, 0.2 * relaxation.dearest_price).value < 0.9 * relaxed


def test_the_tangent_lies_below_everywhere(veil9):
    _, relaxation, d = veil9
    price, generator = 0.6 * relaxation.dearest_price, np.random.default_rng(1)
    at = relaxation.priced_cost(d, price)
    for scale in (0.05, 0.5, 5.0):
        other = d + scale * generator.standard_normal(len(d))
        tangent = at.value + at.slope @ (other - d)
        assert tangent <= relaxation.priced_cost(other, price).value + 1e-6 * abs(at.value)


def test_the_dearest_price_by_hand(load_text):
    """Quadratic 0.02·P² + 10·P up to 200 MW: 18 $/MWh; the curve's last segment: 25; both in $/h per 100 MVA."""
    net = Matpower()
    net.add_bus(1, kind=3)
    net.add_bus(2, pd=50.0)
    net.add_branch(1, 2)
    net.add_gen(1, p=(0.0, 200.0), cost=(0.02, 10.0, 5.0))
    assert build_model(load_text(net.text()).network).relaxation.dearest_price == pytest.approx(1800.0)
    net.add_gen(2, p=(0.0, 100.0), cost=[(0.0, 0.0), (50.0, 500.0), (100.0, 1750.0)])
    assert build_model(load_text(net.text()).network).relaxation.dearest_price == pytest.approx(2500.0)
    cubic = Matpower(bus=net.bus, branch=net.branch)
    cubic.add_gen(1, p=(0.0, 200.0), cost=(-1e-3, 0.3, 10.0, 0.0))  # slope 10 + 0.6·P − 0.003·P², largest at 100 MW: 40
    assert build_model(load_text(cubic.text()).network).relaxation.dearest_price == pytest.approx(4000.0)


def test_only_the_ac_model_of_quadratic_costs_has_arrays_and_only_the_ac_model_a_relaxation(load_text):
    quadratic, gas = load_case("veil9").network, load_case("veilgas").network
    net = Matpower()
    net.add_bus(1, kind=3)
    net.add_bus(2, pd=50.0)
    net.add_branch(1, 2)
    net.add_gen(1, cost=(1e-4, 0.01, 10.0, 0.0))
    models = {
        "ac": build_model(quadratic),
        "dc": build_model(quadratic, Formulation.DC),
        "cubic": build_model(load_text(net.text()).network),
        "gas": build_model(gas),
    }
    assert {name for name, model in models.items() if model.arrays is not None} == {"ac"}
    assert {name for name, model in models.items() if model.relaxation is not None} == {"ac", "cubic"}
    assert models["ac"].arrays(0.01).rate[0] == pytest.approx(0.99 * models["ac"].arrays(0.0).rate[0])
