"""The checks of batches, by arrays and compiled, agree with the check of single answers, and notice every fault that is planted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from batch_cases import batch_solver, halves, needs_compiler, network_of, shaken

from feature_net import feature_net
from gridveil.sectors.power.arrays import structured_arrays
from gridveil.solvers.batch.check import check_batch
from gridveil.solvers.batch.compiled_check import check_scenarios
from gridveil.solvers.batch.contract import BatchStatus, Scenarios
from gridveil.solvers.batch.engine_native import NativeEngine
from gridveil.solvers.batch.layout import NET_REALS
from gridveil.solvers.batch.lowering import gen_on, read_points
from gridveil.solvers.batch.network import lower_network, opf_arrays
from gridveil.solvers.structured.kkt_check import Candidate, check
from gridveil.solvers.structured.problem import Dispatch, Multipliers

pytestmark = needs_compiler


def solved(load_text, curve: str):
    case = load_text(feature_net(5, curve=curve).text())
    network = lower_network(structured_arrays(case.network))
    p, q = halves(case)
    factor = np.array([[0.9], [1.0], [1.05]])
    scenarios = Scenarios(demand_p=factor * p, demand_q=factor * q)
    answer = batch_solver(network).dispatch(scenarios)
    assert answer.converged.all()
    return network, scenarios, answer


def residuals(network, scenarios, cost, points):
    return check_batch(network.grid, gen_on(network, scenarios), scenarios, cost, points)


def raw_points(network, scenarios):
    """Answers as the kernels write them."""
    solver = batch_solver(network)
    return solver._engine.run(network, solver._given(scenarios), solver.options).point


def both_checks(network, scenarios, cost, raw):
    """By arrays and compiled, on several threads."""
    compiled = check_scenarios(NativeEngine(threads=2), network, scenarios, cost, raw)
    return residuals(network, scenarios, cost, read_points(network, raw)), compiled


def single_check(network, scenarios, cost, points, s):
    names = ("price_p", "price_q", "flow_from", "flow_to", "angle_above", "angle_below")
    found = check(
        opf_arrays(vars(network.grid)),
        Dispatch(demand_p=scenarios.demand_p[s], demand_q=scenarios.demand_q[s]),
        Candidate(
            **{name: getattr(points, name)[s] for name in ("va", "vm", "pg", "qg")},
            dc=np.zeros(0),
            susceptance=np.zeros(0),
            demand_p=scenarios.demand_p[s],
            demand_q=scenarios.demand_q[s],
            cost=cost[s],
            multipliers=Multipliers(**{name: getattr(points, name)[s] for name in names}, rows={}),
        ),
    )
    return found.primal, found.dual, found.complementarity


@pytest.mark.parametrize("curve", ["quadratic", "pieces"])
def test_residuals_are_those_of_the_single_check_right_or_wrong(curve, load_text):
    """At the optimum and at points disturbed in every variable, where all terms count."""
    network, scenarios, answer = solved(load_text, curve)
    raw, generator = raw_points(network, scenarios), np.random.default_rng(8)
    for size in (0.0, 1e-3, 0.1):
        moved = raw + size * generator.normal(size=raw.shape)
        cost = answer.cost * (1 + size * generator.normal(size=3))
        points = read_points(network, moved)
        by_arrays, compiled = both_checks(network, scenarios, cost, moved)
        for s in range(3):
            expected = single_check(network, scenarios, cost, points, s)
            assert by_arrays[s] == pytest.approx(expected, rel=1e-9, abs=1e-12)
            assert compiled[s] == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_a_price_without_bound_does_not_make_residuals_small():
    _, network, _, _ = network_of("case14_ieee")
    scenarios = shaken("case14_ieee", 1)
    raw, cost = raw_points(network, scenarios), batch_solver(network).dispatch(scenarios).cost
    raw[0, 2] = 1e300  # of active power at the first bus
    for found in both_checks(network, scenarios, cost, raw):
        assert not found[0].max() < 1e-3


def test_both_checks_see_the_same_outages_limits_and_costs():
    """Of optima and of random answers, under everything that a scenario can change; every change makes a difference."""
    arrays, network, _, _ = network_of("case30_ieee")
    n_gen, count = len(arrays.gen_bus), 12
    generator = np.random.default_rng(4)
    own = {name: getattr(network.grid, name) for name in ("cost_1", "cost_2", "p_min", "p_max", "q_min", "q_max")}
    changed = {
        "branch_out": generator.integers(-1, len(arrays.branch_from), (count, 2)),
        "gen_out": generator.integers(-1, n_gen, (count, 1)),
        **{name: values + 0.2 * generator.normal(size=(count, n_gen)) for name, values in own.items()},
    }
    optima = raw_points(network, shaken("case30_ieee", count))
    cost = batch_solver(network).dispatch(shaken("case30_ieee", count)).cost
    for raw in (optima, generator.normal(size=optima.shape)):
        seen = []
        for names in ([], *([name] for name in changed), list(changed)):
            scenarios = shaken("case30_ieee", count, **{name: changed[name] for name in names})
            by_arrays, compiled = both_checks(network, scenarios, cost, raw)
            assert compiled == pytest.approx(by_arrays, rel=1e-9, abs=1e-12)
            seen.append(compiled)
        if raw is optima:
            assert seen[0].max() < 1e-6 and min(found.max() for found in seen[1:]) > 1e-5


@pytest.mark.parametrize("part", ["va", "vm", "pg", "qg", "price_p", "price_q", "flow_from", "angle_above", "cost"])
def test_a_wrong_number_anywhere_is_noticed(part, load_text):
    network, scenarios, answer = solved(load_text, "quadratic")
    raw, cost = raw_points(network, scenarios), answer.cost.copy()
    n_bus, n = network.grid.n_bus, network.n_local
    limits = 4 * n_bus + 3 * n + network.branch_place
    local = 4 * n_bus + network.place_of_local
    places = {
        **{name: np.arange(k, 4 * n_bus, 4) for k, name in enumerate(("va", "vm", "price_p", "price_q"))},
        "pg": local[: len(network.segment_gen)],
        "qg": local[len(network.segment_gen) :],
        "flow_from": limits[:, 0],
        "angle_above": limits[:, 2],
    }
    if part == "cost":
        cost[1] *= 1.001
    else:
        is_multiplier = part.startswith(("price", "flow", "angle"))
        size = np.abs(raw[1, places["price_p"] if is_multiplier else places[part]]).max()
        raw[1, places[part]] += 0.01 * max(network.objective_scale if is_multiplier else 1.0, size)
    for found in both_checks(network, scenarios, cost, raw):
        assert found[1].max() > 1e-5
        assert found[[0, 2]].max() < 1e-5


@pytest.mark.parametrize("table, entry", [("branch", 0), ("branch", 12), ("bus", 2), ("local", 1), ("local", 3)])
def test_kernels_that_solve_another_network_are_not_believed(table, entry):
    """A conductance, a rating, a voltage limit, a generator's limit or cost that the kernels see otherwise than the network."""
    _, network, _, _ = network_of("case118_ieee")
    width = {"branch": 17, "bus": 5, "local": 4}[table]
    wrong = network.tables[table].copy().reshape(-1, width)
    wrong[:, entry] *= 1.1 if (table, entry) != ("branch", 0) else 1.001
    assert table in NET_REALS
    misled = replace(network, tables=network.tables | {table: wrong.reshape(network.tables[table].shape)})
    answer = batch_solver(misled).dispatch(shaken("case118_ieee", 2))
    assert np.all(answer.status == BatchStatus.CHECK_FAILED)


def test_an_outage_that_the_kernels_forget_is_noticed():
    _, network, _, _ = network_of("case14_ieee")
    plain = shaken("case14_ieee", 2)
    answer, raw = batch_solver(network).dispatch(plain), raw_points(network, plain)
    for more in ({"branch_out": np.array([[0], [2]])}, {"gen_out": np.array([[0], [1]])}):
        for found in both_checks(network, replace(plain, **more), answer.cost, raw):
            assert found.max(axis=1).min() > 1e-5


@pytest.mark.parametrize("place", [0, 1, 2, 3, -1])
def test_no_number_is_never_sound(place, load_text):
    network, scenarios, answer = solved(load_text, "quadratic")
    raw = raw_points(network, scenarios)
    if place >= 0:
        raw[1, place] = np.nan
    else:
        raw[1] = np.nan
    for found in both_checks(network, scenarios, answer.cost, raw):
        assert np.isnan(found[1]).any() and not found[1].max() <= 1e-5 and np.isfinite(found[[0, 2]]).all()
    for k in range(
        4 * network.grid.n_bus, raw.shape[1] - 2 * network.grid.n_bus, 3
    ):  # generation and limits of branches
        broken = raw_points(network, scenarios)
        broken[1, k] = np.nan
        by_arrays, compiled = both_checks(network, scenarios, answer.cost, broken)
        assert np.isnan(by_arrays[1]).any() == np.isnan(compiled[1]).any()
