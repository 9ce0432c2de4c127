"""The structured engine gives what Ipopt's gives, and hands over to it where it must."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from conftest import nesta, two_bus_net
from gridveil.bilevel.methods.auto import solve_auto
from gridveil.core.band import TargetSource, Tolerance
from gridveil.core.choices import DemandBounds, Formulation
from gridveil.core.methods import Solver
from gridveil.privacy.curator import solve_true
from gridveil.privacy.mechanisms.simulation import simulate_laplace
from gridveil.sectors.load import load_case
from gridveil.sectors.model import build_model
from gridveil.solvers.choose import engine_for
from gridveil.solvers.ipopt import Engine
from gridveil.solvers.structured import SolveStatus, StructuredSolver
from gridveil.solvers.structured_backend import BY_STRUCTURE, StructuredEngine


def engines(name: str, bounds: DemandBounds = DemandBounds.NONE):
    case = load_case(name)
    model = build_model(case.network, demand_bounds=bounds)
    return case, model, StructuredEngine(model.program, case.network), Engine(model.program)


@pytest.mark.parametrize("name", ["veil9", "case14_ieee", "case118_ieee"])
def test_same_optimum_and_prices(name):
    case, model, ours, ipopt = engines(name)
    mine, theirs = (solve_true(case, model, engine.solve_afresh) for engine in (ours, ipopt))
    assert mine.detail == BY_STRUCTURE and theirs.detail != BY_STRUCTURE
    assert mine.cost == pytest.approx(theirs.cost, rel=1e-6)
    assert np.abs(mine.prices - theirs.prices).max() <= 1e-3 * np.abs(theirs.prices).max()
    assert np.abs(mine.x - theirs.x)[: 2 * case.network.grid.n_bus].max() < 0.02


@pytest.mark.parametrize("bounds", DemandBounds)
@pytest.mark.parametrize("seed", range(3))
def test_same_release(bounds, seed):
    case, model, ours, ipopt = engines("veil9", bounds)
    cost = solve_true(case, model, ipopt.solve_afresh).cost
    target = Tolerance.parse("1%").around(cost, TargetSource.PUBLIC)
    noisy = model.layout.to_program(simulate_laplace(case.demand, epsilon=1.0, alpha=0.3, seed=seed).values)
    mine, theirs = solve_auto(ours, noisy, target), solve_auto(ipopt, noisy, target)
    assert mine.verified and theirs.verified
    assert mine.delta == pytest.approx(theirs.delta, rel=5e-3, abs=1e-6)
    assert target.contains(ipopt.solve_afresh(mine.d).cost)
    assert np.all(mine.d >= model.program.d_lower - 1e-6)


def test_what_it_cannot_solve_goes_to_ipopt(monkeypatch):
    """Every structured solve fails: the answers are Ipopt's."""
    solve = StructuredSolver.solve
    failing = lambda self, task, **options: replace(solve(self, task, **options), status=SolveStatus.NO_STEP)  # noqa: E731
    monkeypatch.setattr(StructuredSolver, "solve", failing)
    case, model, ours, ipopt = engines("veil9")
    mine = solve_true(case, model, ours.solve_afresh)
    assert mine.converged and mine.detail != BY_STRUCTURE
    target = Tolerance.parse("1%").around(mine.cost, TargetSource.PUBLIC)
    noisy = model.layout.to_program(simulate_laplace(case.demand, epsilon=1.0, alpha=0.3, seed=1).values)
    assert solve_auto(ours, noisy, target).delta == pytest.approx(
        solve_auto(ipopt, noisy, target).delta, rel=5e-3, abs=1e-6
    )


def test_which_engine(load_text):
    case = load_case("veil9")
    assert isinstance(engine_for(case.network, build_model(case.network), Solver.STRUCTURED), StructuredEngine)
    assert not isinstance(engine_for(case.network, build_model(case.network), Solver.IPOPT), StructuredEngine)
    direct = build_model(case.network, Formulation.DC)
    assert not isinstance(engine_for(case.network, direct, Solver.STRUCTURED), StructuredEngine)
    gas = load_case("veilgas")
    assert not isinstance(engine_for(gas.network, build_model(gas.network), Solver.STRUCTURED), StructuredEngine)
    net = two_bus_net()
    net.gencost[0] = [2, 0, 0, 4, 1e-4, 0.0, 10.0, 0.0]
    cubic = load_text(net.text())
    assert not isinstance(engine_for(cubic.network, build_model(cubic.network), Solver.STRUCTURED), StructuredEngine)


def test_nearest_feasible_demands_are_those_of_ipopt():
    """Four times the demand of veil9 cannot be served: both engines come back to the same nearest demands."""
    case, model, ours, ipopt = engines("veil9")
    too_much = solve_true_demand(case, model, 4.0)
    mine, theirs = ours.nearest_feasible(too_much), ipopt.nearest_feasible(too_much)
    assert mine.detail == BY_STRUCTURE
    assert mine.delta > 0.01 and mine.delta == pytest.approx(theirs.delta, rel=1e-3)
    assert ipopt.solve_released(mine.d).converged


def solve_true_demand(case, model, factor):
    return factor * model.layout.to_program(case.demand.reveal())


def test_a_release_at_the_edge_of_feasibility_is_solved_by_structure():
    """With much noise the high point can barely be served: the follower and its check must not need Ipopt for that."""
    case, model, ours, _ = engines("case118_ieee")
    cost = solve_true(case, model, ours.solve_afresh).cost
    target = Tolerance.parse("1%").around(cost, TargetSource.PUBLIC)
    by_structure = 0
    for seed in range(6):
        noisy = model.layout.to_program(simulate_laplace(case.demand, epsilon=1.0, alpha=1.0, seed=seed).values)
        joint = ours.highpoint(noisy, target.shrunk(1e-4))
        followers = [ours.follow(joint, None), ours.verify(joint, ours.follow(joint, None), target)]
        assert all(follower.converged for follower in followers)
        assert followers[1].cost <= joint.cost * (1 + 1e-6)
        by_structure += all(follower.detail == BY_STRUCTURE for follower in followers)
    assert by_structure >= 5


def test_high_points_of_far_targets_are_found_by_the_structured_solver():
    """At these seeds it finds none if the gradient of the distance is not bounded; Ipopt finds no nearer ones."""
    case = load_case(str(nesta("case300_ieee")))
    model = build_model(case.network)
    ours, ipopt = StructuredEngine(model.program, case.network), Engine(model.program)
    band = Tolerance.parse("1%").around(solve_true(case, model, ours.solve_afresh).cost, TargetSource.PUBLIC)
    for seed in (0, 1, 3):
        noisy = model.layout.to_program(simulate_laplace(case.demand, epsilon=1.0, alpha=10.0, seed=seed).values)
        mine, theirs = ours.highpoint(noisy, band), ipopt.highpoint(noisy, band)
        assert mine.detail == BY_STRUCTURE and theirs.converged
        assert mine.delta <= theirs.delta * (1 + 1e-3)


@pytest.mark.parametrize(("moved", "from_last"), [(0.01, True), (0.05, False)])
def test_a_follower_starts_from_the_last_one_only_where_demands_hardly_moved(monkeypatch, moved, from_last):
    case, model, ours, _ = engines("case14_ieee")
    cost = solve_true(case, model, ours.solve_afresh).cost
    band = Tolerance.parse("1%").around(cost, TargetSource.PUBLIC)
    noisy = model.layout.to_program(simulate_laplace(case.demand, epsilon=1.0, alpha=0.1, seed=1).values)
    joint = ours.highpoint(noisy, band)
    last = ours.follow(joint, None)
    starts = []
    solve = StructuredSolver.solve

    def watched(self, task, *, warm=None, thorough=True):
        starts.append(warm)
        return solve(self, task, warm=warm, thorough=thorough)

    monkeypatch.setattr(StructuredSolver, "solve", watched)
    further = joint.d.copy()
    further[0] += moved
    follower = ours.follow(replace(joint, d=further), last)
    assert follower.converged
    assert np.array_equal(starts[0].x, (last if from_last else joint).point.warm.x)
