"""The relaxation on the bus graph: the conic solver's optimum and slopes, bounds that hold whatever it finds, clear endings."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from conftest import Matpower, optimum
from feature_net import feature_net
from gridveil.programs.conic import BoundStatus, ConeLayout, ConicProgram
from gridveil.sectors.power.costs import upper_envelope
from gridveil.sectors.power.soc import cost_model, soc_lower_bound
from gridveil.sectors.power.soc_graph import bound as graph_bound
from gridveil.sectors.power.soc_graph import solve as graph_solve
from gridveil.sectors.power.soc_graph.lowering import lower_grid
from gridveil.sectors.power.soc_graph.multipliers import program_multipliers
from gridveil.sectors.power.soc_graph.pair_cones import FLOW_FROM
from gridveil.sectors.power.soc_graph.solve import GraphEnding, solve_on_graph
from gridveil.sectors.registry import build_model, load_case
from references import pglib_baseline

PUBLISHED = ["case14_ieee", "case30_ieee", "case57_ieee", "case118_ieee", "case300_ieee"]
NAMES = ["veil2", "veil9", *PUBLISHED]
CURVES = ["quadratic", "pieces", "cubic", "concave"]
EXAMPLES = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def prepared(case):
    model = build_model(case.network)
    return case.network.grid, model.relaxation, model.layout.to_program(case.values.reveal())


@cache
def builtin(name: str):
    return prepared(load_case(name))


def complex_demand(d):
    return d[: len(d) // 2] + 1j * d[len(d) // 2 :]


def assert_same_priced_cost(relaxation, d, price):
    graph, cones = relaxation._priced_on_graph(d, price), relaxation._priced_by_cones(d, price)
    assert graph is not None and cones is not None
    assert graph.value == pytest.approx(cones.value, rel=1e-6)
    assert np.abs(graph.slope - cones.slope).max() <= 1e-3 * price
    n = len(d) // 2
    assert np.hypot(graph.slope[:n], graph.slope[n:]).max() <= price * (1 + 1e-12)


@pytest.mark.parametrize("share", [0.3, 0.6, 3.0])
@pytest.mark.parametrize("name", NAMES)
def test_priced_costs_and_slopes_are_those_of_the_conic_solver(name, share):
    _, relaxation, d = builtin(name)
    assert_same_priced_cost(relaxation, d, share * relaxation.dearest_price)


@pytest.mark.parametrize("name", ["veil9", "case118_ieee", "case300_ieee"])
@pytest.mark.parametrize("spread", [0.01, 0.1, 1.0])
def test_noisy_demands_are_no_harder(name, spread):
    _, relaxation, d = builtin(name)
    noisy = d + np.random.default_rng(3).laplace(0, spread, len(d))
    assert_same_priced_cost(relaxation, noisy, 0.6 * relaxation.dearest_price)


@pytest.mark.parametrize("name", ["case300_ieee", "case1354_pegase"])
def test_a_solve_may_start_midway_to_a_similar_optimum(name):
    """A lower price of moves, as for a private cost target: the same optimum, in fewer iterations than from nothing."""
    _, relaxation, d = builtin(name)
    lowered, price = relaxation._priced_graph, relaxation.dearest_price
    noisy = complex_demand(d + np.random.default_rng(4).laplace(0, 0.05, len(d)))
    first = solve_on_graph(lowered, noisy, price, gap_tolerance=1e-5)
    cold, warm = (solve_on_graph(lowered, noisy, 0.4 * price, near=near) for near in (None, first.midway))
    assert warm.accurate and cold.accurate
    assert warm.value == pytest.approx(cold.value, rel=1e-8)
    assert warm.prices == pytest.approx(cold.prices, abs=1e-4 * price)
    assert warm.iterations < cold.iterations


def test_moves_that_cost_nothing_may_start_midway_too():
    """As in a file that states no costs, whose dearest price is zero."""
    _, relaxation, d = builtin("case57_ieee")
    free = relaxation.priced_cost(d, 0.0, rough=True)
    for price in (0.0, relaxation.dearest_price):
        found, expected = relaxation.priced_cost(d, price, near=free), relaxation.priced_cost(d, price)
        assert found.value == pytest.approx(expected.value, rel=1e-6, abs=1e-3)


def test_a_start_that_leads_nowhere_is_made_up_for():
    _, relaxation, d = builtin("case57_ieee")
    price = 0.6 * relaxation.dearest_price
    cold = relaxation.priced_cost(d, price)
    point = cold.start.point
    spoiled = replace(cold.start, point=point._replace(s=np.full_like(point.s, np.nan)))
    found = relaxation.priced_cost(d, price, near=replace(cold, start=spoiled))
    assert found.value == cold.value and np.array_equal(found.slope, cold.slope)


@EXAMPLES
@given(seed=st.integers(0, 10_000), curve=st.sampled_from(CURVES), share=st.sampled_from([0.4, 1.0]))
def test_every_feature_of_a_network(load_text, seed, curve, share):
    """Shifters, parallel lines both ways, an island, shunts, a negative load, and costs in pieces or of other degrees."""
    grid, relaxation, d = prepared(load_text(feature_net(seed, curve=curve).text()))
    assert_same_priced_cost(relaxation, d, share * relaxation.dearest_price)
    graph, cones = relaxation.cost_bound(d), soc_lower_bound(grid, complex_demand(d))
    assert (graph.status is BoundStatus.INFEASIBLE) == (cones.status is BoundStatus.INFEASIBLE)
    assert graph.value >= cones.value * (1 - 1e-6)


@EXAMPLES
@given(seed=st.integers(0, 10_000), curve=st.sampled_from(CURVES))
def test_bounds_lie_below_the_optimum(load_text, seed, curve):
    case = load_text(feature_net(seed, curve=curve).text())
    _, relaxation, d = prepared(case)
    found = relaxation.cost_bound(d)
    assume(found.status is not BoundStatus.INFEASIBLE)
    assert found.status is BoundStatus.SOLVED
    assert found.value <= optimum(case).cost * (1 + 1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_bounds_are_as_tight_as_the_conic_solvers(name, monkeypatch):
    grid, relaxation, d = builtin(name)
    cones = soc_lower_bound(grid, complex_demand(d))
    monkeypatch.setattr(ConicProgram, "lower_bound", unwanted)
    found = relaxation.cost_bound(d)
    assert found.status is BoundStatus.SOLVED
    assert found.value >= cones.value * (1 - 1e-6)
    if name in PUBLISHED:
        assert found.value <= pglib_baseline()[name][2] * (1 + 1e-4)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("curve", CURVES)
def test_no_cost_curve_needs_the_conic_solver(load_text, monkeypatch, seed, curve):
    grid, relaxation, d = prepared(load_text(feature_net(seed, curve=curve).text()))
    cones = soc_lower_bound(grid, complex_demand(d))
    assert cones.status is BoundStatus.SOLVED
    monkeypatch.setattr(ConicProgram, "lower_bound", unwanted)
    assert relaxation.cost_bound(d).value >= cones.value * (1 - 1e-6)


def unwanted(*arguments, **options):
    pytest.fail("the conic solver was asked")


def test_limits_on_losses_tighten_the_bound():
    """On case300 by some 1.6e-4; they are no rows of the conic program, so its own solver cannot know them."""
    grid, relaxation, d = builtin("case300_ieee")
    assert relaxation.cost_bound(d).value > soc_lower_bound(grid, complex_demand(d)).value * (1 + 1e-4)


def spoiled_solution(lowered, demand, seed):
    """The optimum with every price and multiplier wrong by some share of itself and some number, small or large."""
    rng = np.random.default_rng(seed)
    found = solve_on_graph(lowered, demand)
    share, number = rng.choice([0.0, 1e-3, 0.1, 1.0, 10.0], 2) * (1.0, 1000.0)
    spoil = lambda v: v * (1 + share * rng.normal(size=v.shape)) + number * rng.normal(size=v.shape)  # noqa: E731
    return replace(found, prices=spoil(found.prices), multipliers=spoil(found.multipliers))


def value_of(lowered, solution, demand, *, sign=1.0, project=True):
    model = cost_model(lowered.grid, demand)
    rows, layout = model.program.stacked()
    if not project:
        layout = Unprojected(layout.n_zero, layout.n_nonnegative, layout.families)
    z = sign * program_multipliers(lowered, solution, model, rows, layout)
    return model.program.safe_value(rows, z)


class Unprojected(ConeLayout):
    def into_dual_cone(self, z):
        return np.array(z)


@EXAMPLES
@given(seed=st.integers(0, 10_000), curve=st.sampled_from(CURVES))
def test_whatever_the_multipliers_the_bound_is_valid(load_text, seed, curve):
    case = load_text(feature_net(seed % 100, curve=curve).text())
    grid, relaxation, d = prepared(case)
    assume(relaxation.cost_bound(d).status is BoundStatus.SOLVED)
    lowered = lower_grid(grid, moves=False, limit_losses=True)
    demand = complex_demand(d)
    assert value_of(lowered, spoiled_solution(lowered, demand, seed), demand) <= optimum(case).cost * (1 + 1e-6)


@pytest.mark.parametrize("name", ["veil9", "case30_ieee"])
def test_a_saboteur_would_be_seen(name):
    """Were multipliers of the wrong sign, or outside their cone, the same sums would pass the optimum."""
    grid, _, d = builtin(name)
    lowered, demand = lower_grid(grid, moves=False, limit_losses=True), complex_demand(d)
    cost = optimum(load_case(name)).cost
    found = solve_on_graph(lowered, demand)
    multipliers = found.multipliers.copy()
    multipliers[lowered.first_rows[FLOW_FROM]] = -1e6
    outside = replace(found, multipliers=multipliers)
    assert value_of(lowered, outside, demand) <= cost < value_of(lowered, outside, demand, project=False)
    weak = [spoiled_solution(lowered, demand, seed) for seed in range(20)]
    assert max(value_of(lowered, solution, demand) for solution in weak) <= cost
    assert max(value_of(lowered, solution, demand, sign=-1.0) for solution in weak) > cost


def test_wrong_prices_are_noticed_and_the_conic_solver_is_asked(monkeypatch):
    grid, relaxation, d = builtin("case30_ieee")
    wanted = soc_lower_bound(grid, complex_demand(d)).value

    def wrong_sign(lowered, demand, price=None):
        found = solve_on_graph(lowered, demand, price)
        return replace(found, prices=-found.prices)

    monkeypatch.setattr(graph_bound, "solve_on_graph", wrong_sign)
    assert relaxation.cost_bound(d).value == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("spoiled", [{"gap": math.inf}, {"residual": 1.0}, {"value": math.nan}, {"value": math.inf}])
def test_a_solve_that_fails_is_done_by_the_conic_solver(monkeypatch, spoiled):
    grid, relaxation, d = builtin("case14_ieee")
    price = 0.6 * relaxation.dearest_price

    def failing(lowered, demand, price=None, **_):
        return replace(solve_on_graph(lowered, demand, price), ending=GraphEnding.TOO_MANY, **spoiled)

    expected = relaxation._priced_by_cones(d, price)
    monkeypatch.setattr(graph_solve, "solve_on_graph", failing)
    monkeypatch.setattr(graph_bound, "solve_on_graph", failing)
    found = relaxation.priced_cost(d, price)
    assert found.value == expected.value and np.array_equal(found.slope, expected.slope)
    bounded, cones = relaxation.cost_bound(d), soc_lower_bound(grid, complex_demand(d))
    assert bounded.value >= cones.value and bounded.iterations > cones.iterations


@pytest.mark.parametrize("spoiled", ["prices", "multipliers"])
def test_multipliers_that_are_not_finite_are_no_bound(load_text, monkeypatch, spoiled):
    grid, relaxation, d = prepared(load_text(feature_net(1, curve="pieces").text()))

    def broken(lowered, demand, price=None):
        found = solve_on_graph(lowered, demand, price)
        return replace(found, **{spoiled: np.full_like(getattr(found, spoiled), np.nan)})

    monkeypatch.setattr(graph_bound, "solve_on_graph", broken)
    assert relaxation.cost_bound(d).value == soc_lower_bound(grid, complex_demand(d)).value


def two_buses(**generator) -> Matpower:
    net = Matpower()
    net.add_bus(1, kind=3)
    net.add_bus(2, pd=50.0)
    net.add_gen(1, **generator)
    net.add_branch(1, 2, r=0.01, x=0.1)
    return net


def test_too_large_a_load_is_proved_infeasible_without_the_conic_solver(load_text, monkeypatch):
    _, relaxation, d = prepared(load_text(two_buses(p=(0.0, 40.0)).text()))
    monkeypatch.setattr(ConicProgram, "lower_bound", unwanted)
    found = relaxation.cost_bound(d)
    assert (found.status, found.value) == (BoundStatus.INFEASIBLE, math.inf)


@pytest.mark.parametrize("factor", [-5.0, 3.0, 30.0, 1e3])
@pytest.mark.parametrize("name", ["veil9", "case118_ieee"])
def test_demands_that_nothing_serves_end_with_a_proof(name, factor):
    _, relaxation, d = builtin(name)
    found = relaxation.cost_bound(factor * d)
    assert (found.status, found.value) == (BoundStatus.INFEASIBLE, math.inf)


@pytest.mark.parametrize("share", [0.1, 2.0, 1000.0])
@pytest.mark.parametrize("factor", [0.1, -1.0, -5.0, 30.0, 1e3])
def test_priced_moves_serve_whatever_is_asked(factor, share):
    _, relaxation, d = builtin("case118_ieee")
    assert_same_priced_cost(relaxation, factor * d, share * relaxation.dearest_price)


def test_a_cost_next_to_nothing():
    """Without loads only losses cost: 17 $/h beside prices of 1e4 per unit."""
    _, relaxation, d = builtin("case118_ieee")
    assert_same_priced_cost(relaxation, 0 * d, 0.6 * relaxation.dearest_price)


def test_generators_that_must_feed_what_no_load_can_take(load_text):
    """At a bus of its own, without a load: no move helps, and the solve says so."""
    net = two_buses()
    net.add_bus(3, kind=3)
    net.add_gen(3, p=(10.0, 20.0))
    _, relaxation, d = prepared(load_text(net.text()))
    assert relaxation.priced_cost(d, relaxation.dearest_price) is None
    assert relaxation.cost_bound(d).status is BoundStatus.INFEASIBLE


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e300])
def test_numbers_that_are_none_end_at_once(value):
    grid, _, d = builtin("veil9")
    lowered = lower_grid(grid, moves=True, limit_losses=False)
    demand = complex_demand(d)
    demand[0] = value
    found = solve_on_graph(lowered, demand, 1000.0)
    assert found.ending is not GraphEnding.CONVERGED and not found.accurate


def test_a_generator_at_one_point_of_its_curve(load_text, monkeypatch):
    """30 MW cost 250 $/h whatever happens; the other 20 MW and the losses come from the first generator at 20 $/MWh."""
    net = two_buses(cost=(0.0, 20.0, 0.0))
    net.add_gen(2, p=(30.0, 30.0), cost=[(0.0, 0.0), (10.0, 50.0), (40.0, 350.0)])
    grid, relaxation, d = prepared(load_text(net.text()))
    assert_same_priced_cost(relaxation, d, 5000.0)
    cones = soc_lower_bound(grid, complex_demand(d)).value
    monkeypatch.setattr(ConicProgram, "lower_bound", unwanted)
    assert relaxation.cost_bound(d).value == pytest.approx(cones, rel=1e-6)
    assert 250.0 + 20 * 20.0 < cones < 250.0 + 20 * 21.0


@pytest.mark.parametrize(
    ("limits", "slopes", "starts", "intercept"),
    [((0.0, 9.0), [1.0, 3.0], [0.0, 4.0], 0.0), ((5.0, 5.0), [3.0], [5.0], -8.0), ((2.0, 2.0), [1.0], [2.0], 0.0)],
)
def test_the_upper_envelope_by_hand(limits, slopes, starts, intercept):
    """Lines p, 3p − 8 and 2p − 5, of which the last is never on top; limits that meet leave one line."""
    found = upper_envelope(np.array([3.0, 2.0, 1.0]), np.array([-8.0, -5.0, 0.0]), *limits)
    assert (found[0].tolist(), found[1].tolist(), found[2]) == (slopes, starts, intercept)


def test_a_cost_without_a_convex_form_is_left_to_the_conic_solver(load_text):
    grid, relaxation, d = prepared(load_text(two_buses(p=(0.0, math.inf), cost=(1e-4, -0.01, 20.0, 1.0)).text()))
    assert lower_grid(grid, moves=False, limit_losses=True) is None
    assert relaxation.cost_bound(d).value == soc_lower_bound(grid, complex_demand(d)).value


def test_a_generator_without_an_upper_limit(load_text):
    grid, relaxation, d = prepared(load_text(two_buses(p=(0.0, math.inf), cost=(0.1, 20.0, 1.0)).text()))
    assert lower_grid(grid, moves=False, limit_losses=True) is not None
    assert relaxation.cost_bound(d).value == pytest.approx(soc_lower_bound(grid, complex_demand(d)).value, rel=1e-6)
    assert_same_priced_cost(relaxation, d, 2000.0)


def test_the_relaxation_does_not_load_the_compiler():
    code = "import sys, gridveil.sectors.power.relaxation; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
