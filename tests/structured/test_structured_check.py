"""The independent check sees every kind of wrong answer, and the front door heeds it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from structured_cases import dispatch_of, family, program_of

from gridveil.sectors.power.arrays import structured_arrays
from gridveil.solvers.structured import Cut, Nearest, Push, SolveStatus, StructuredSolver, strategy
from gridveil.solvers.structured.kkt_check import Candidate, check
from gridveil.solvers.structured.settings import CHECK_TOLERANCE


@pytest.fixture
def network(load_text):
    """A flow limit and an angle limit that bind, a DC line and a compensator with room on both sides."""
    net = family("flow limit")
    net.branch[0][-1] = 1.0
    net.add_dcline(1, 2, p=(0.0, 300.0), loss=(0.1, 0.01), cost=(0.05, 0.0, 0.0))
    net.compensators = [[3, -60.0, 60.0, 1]]
    net.currents = [0.0, 50.0, 0.0]
    return load_text(net.text())


def tasks(network):
    d = program_of(network)[1]
    half = len(d) // 2
    cost = StructuredSolver(structured_arrays(network.network)).solve(dispatch_of(d)).cost
    where = {"target_p": 1.1 * d[:half], "target_q": d[half:], "cost_low": 0.99 * cost, "cost_high": 1.01 * cost}
    cut = Cut(weight_p=np.ones(half), weight_q=np.zeros(half), least=float(d[:half].sum()) + 0.005)
    return {
        "dispatch": dispatch_of(d),
        "nearest": Nearest(**where),
        "cut": Nearest(**where, cut=cut),
        "push": Push(**where, delta=0.02),
    }


def candidate(solution) -> Candidate:
    names = [field.name for field in dataclasses.fields(Candidate)]
    return Candidate(**{name: getattr(solution, name) for name in names})


SABOTAGE_PRIMAL = ["va", "vm", "pg", "qg", "dc", "susceptance", "demand_p", "demand_q"]
SABOTAGE_DUAL = ["price_p", "price_q", "flow_from", "angle_above"]


@pytest.mark.parametrize("kind", ["dispatch", "nearest", "cut", "push"])
def test_a_right_answer_passes_and_every_change_is_seen(network, kind):
    arrays, task = structured_arrays(network.network), tasks(network)[kind]
    solution = StructuredSolver(arrays).solve(task)
    assert solution.converged
    right = candidate(solution)
    assert check(arrays, task, right).largest <= CHECK_TOLERANCE
    for name in SABOTAGE_PRIMAL:
        wrong = dataclasses.replace(right, **{name: getattr(right, name) + 1e-3})
        if name == "va":
            wrong = dataclasses.replace(right, va=right.va * 1.01)
        assert check(arrays, task, wrong).largest > CHECK_TOLERANCE, name
    size = 1e-3 * np.abs(right.multipliers.price_p).max()
    for name in SABOTAGE_DUAL:
        values = getattr(right.multipliers, name)
        spoiled = dataclasses.replace(right.multipliers, **{name: values + size})
        assert check(arrays, task, dataclasses.replace(right, multipliers=spoiled)).largest > CHECK_TOLERANCE, name
    for name, value in right.multipliers.rows.items():
        spoiled = dataclasses.replace(
            right.multipliers, rows={**right.multipliers.rows, name: value + max(0.1 * abs(value), 1e-3)}
        )
        assert check(arrays, task, dataclasses.replace(right, multipliers=spoiled)).largest > CHECK_TOLERANCE, name


def test_a_feasible_point_that_is_not_optimal_fails(network):
    """A dispatch of the same network under other costs is feasible, but not stationary."""
    arrays, task = structured_arrays(network.network), tasks(network)["dispatch"]
    active = slice(len(arrays.gen_bus))
    slopes = arrays.cost_1.copy()
    slopes[active] = slopes[active][::-1]
    other = dataclasses.replace(arrays, cost_1=slopes)
    elsewhere = candidate(StructuredSolver(other).solve(task))
    pg = elsewhere.pg
    cost = float(np.sum(arrays.cost_0[active] + arrays.cost_1[active] * pg + arrays.cost_2[active] * pg**2))
    cost += float(np.sum(arrays.cost_2[-1] * elsewhere.dc**2))
    found = check(arrays, task, dataclasses.replace(elsewhere, cost=cost))
    assert found.primal <= CHECK_TOLERANCE < found.dual


def test_the_front_door_does_not_believe_the_engine(network, monkeypatch):
    honest = strategy.attempt

    def lying(*arguments):
        run = honest(*arguments)
        run.point.u[0] += 1e-3
        return dataclasses.replace(run, status=SolveStatus.CONVERGED)

    monkeypatch.setattr(strategy, "attempt", lying)
    solution = StructuredSolver(structured_arrays(network.network)).solve(tasks(network)["dispatch"])
    assert solution.status is SolveStatus.CHECK_FAILED


@pytest.mark.parametrize(("off", "expected"), [(0.0, SolveStatus.CONVERGED), (1e-3, SolveStatus.ITERATION_LIMIT)])
def test_a_run_that_gave_up_counts_only_where_the_check_finds_an_optimum(network, monkeypatch, off, expected):
    honest = strategy.attempt

    def modest(*arguments):
        run = honest(*arguments)
        run.point.u[0] += off
        return dataclasses.replace(run, status=SolveStatus.ITERATION_LIMIT)

    monkeypatch.setattr(strategy, "attempt", modest)
    solution = StructuredSolver(structured_arrays(network.network)).solve(tasks(network)["dispatch"])
    assert solution.status is expected
