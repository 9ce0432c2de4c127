"""The batched check agrees with the check of single answers, and notices every fault that is planted."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from batch_cases import batch_solver, halves, needs_compiler, network_of, shaken

from feature_net import feature_net
from gridveil.sectors.power.arrays import structured_arrays
from gridveil.solvers.batch.check import check_batch
from gridveil.solvers.batch.contract import BatchStatus, Scenarios
from gridveil.solvers.batch.layout import NET_REALS
from gridveil.solvers.batch.lowering import gen_on
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


@pytest.mark.parametrize("curve", ["quadratic", "pieces"])
def test_residuals_are_those_of_the_single_check_right_or_wrong(curve, load_text):
    """At the optimum and at points disturbed in every variable, where all terms count."""
    network, scenarios, answer = solved(load_text, curve)
    generator = np.random.default_rng(8)
    for size in (0.0, 1e-3, 0.1):
        moved = {
            f.name: getattr(answer.points, f.name) + size * generator.normal(size=getattr(answer.points, f.name).shape)
            for f in fields(answer.points)
        }
        points, cost = replace(answer.points, **moved), answer.cost * (1 + size * generator.normal(size=3))
        batch = residuals(network, scenarios, cost, points)
        for s in range(3):
            names = ("price_p", "price_q", "flow_from", "flow_to", "angle_above", "angle_below")
            single = check(
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
            expected = (single.primal, single.dual, single.complementarity)
            assert batch[s] == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("part", ["va", "vm", "pg", "qg", "price_p", "price_q", "flow_from", "angle_above", "cost"])
def test_a_wrong_number_anywhere_is_noticed(part, load_text):
    network, scenarios, answer = solved(load_text, "quadratic")
    cost, points = answer.cost.copy(), answer.points
    if part == "cost":
        cost[1] *= 1.001
    else:
        wrong = getattr(points, part).copy()
        is_multiplier = part.startswith(("price", "flow", "angle"))
        wrong[1] += 0.01 * max(1.0, np.abs(points.price_p[1] if is_multiplier else wrong[1]).max())
        points = replace(points, **{part: wrong})
    found = residuals(network, scenarios, cost, points)
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
    answer = batch_solver(network).dispatch(plain)
    for more in ({"branch_out": np.array([[0], [2]])}, {"gen_out": np.array([[0], [1]])}):
        told = replace(plain, **more)
        assert residuals(network, told, answer.cost, answer.points).max(axis=1).min() > 1e-5


def test_no_number_is_never_sound(load_text):
    network, scenarios, answer = solved(load_text, "quadratic")
    broken = replace(answer.points, va=np.where(np.arange(3)[:, None] == 1, np.nan, answer.points.va))
    found = residuals(network, scenarios, answer.cost, broken)
    assert np.isnan(found[1]).any() and not found[1].max() <= 1e-5
