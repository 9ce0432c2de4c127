"""The structured backend finds what Ipopt's finds, and hands over to it where it must."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from conftest import nesta, solve_true, two_bus_net
from gridveil.bilevel.methods.auto import solve_auto
from gridveil.core.band import Tolerance
from gridveil.core.choices import CostTargetMode, DemandBounds, Formulation
from gridveil.core.methods import Solver
from gridveil.privacy.mechanisms.simulation import simulate_laplace
from gridveil.sectors.registry import build_model, load_case
from gridveil.solvers.ipopt import IPOPT, IpoptBackend
from gridveil.solvers.registry import backend_for
from gridveil.solvers.solves import Solves
from gridveil.solvers.structured import SolveStatus, StructuredSolver
from gridveil.solvers.structured.backend import STRUCTURED


def backends(name: str, bounds: DemandBounds = DemandBounds.NONE):
    case = load_case(name)
    model = build_model(case.network, bounds=bounds)
    return case, model, backend_for(model, STRUCTURED), IpoptBackend(model.program)


@pytest.mark.parametrize("name", ["veil9", "case14_ieee", "case118_ieee"])
def test_same_optimum_and_prices(name):
    case, model, ours, ipopt = backends(name)
    mine, theirs = (solve_true(case, model, backend) for backend in (ours, ipopt))
    assert mine.solver == STRUCTURED and theirs.solver == IPOPT
    assert mine.cost == pytest.approx(theirs.cost, rel=1e-6)
    assert np.abs(mine.prices - theirs.prices).max() <= 1e-3 * np.abs(theirs.prices).max()
    assert np.abs(mine.x - theirs.x)[: 2 * case.network.grid.n_bus].max() < 0.02


@pytest.mark.parametrize("bounds", DemandBounds)
@pytest.mark.parametrize("seed", range(3))
def test_same_release(bounds, seed):
    case, model, ours, ipopt = backends("veil9", bounds)
    cost = solve_true(case, model, ipopt).cost
    target = Tolerance.parse("1%").around(cost, CostTargetMode.PUBLIC)
    noisy = model.layout.to_program(simulate_laplace(case.values, epsilon=1.0, alpha=0.3, seed=seed).values)
    mine, theirs = solve_auto(ours, noisy, target), solve_auto(ipopt, noisy, target)
    assert mine.verified and theirs.verified
    assert mine.delta == pytest.approx(theirs.delta, rel=5e-3, abs=1e-6)
    assert target.contains(Solves(ipopt).afresh(mine.d).cost)
    assert np.all(mine.d >= model.program.d_lower - 1e-6)


def test_what_it_cannot_solve_goes_to_ipopt(monkeypatch):
    """Every structured solve fails: the answers are Ipopt's."""
    solve = StructuredSolver.solve
    failing = lambda self, task, **options: replace(solve(self, task, **options), status=SolveStatus.NO_STEP)  # noqa: E731
    monkeypatch.setattr(StructuredSolver, "solve", failing)
    case, model, ours, ipopt = backends("veil9")
    mine = solve_true(case, model, ours)
    assert mine.converged and mine.solver == IPOPT
    target = Tolerance.parse("1%").around(mine.cost, CostTargetMode.PUBLIC)
    noisy = model.layout.to_program(simulate_laplace(case.values, epsilon=1.0, alpha=0.3, seed=1).values)
    assert solve_auto(ours, noisy, target).delta == pytest.approx(
        solve_auto(ipopt, noisy, target).delta, rel=5e-3, abs=1e-6
    )


def test_which_backend(load_text):
    case, gas = load_case("veil9"), load_case("veilgas")
    net = two_bus_net()
    net.gencost[0] = [2, 0, 0, 4, 1e-4, 0.0, 10.0, 0.0]
    cubic = load_text(net.text())
    power = build_model(case.network)
    assert backend_for(power, Solver.STRUCTURED).name == backend_for(power, "structured").name == STRUCTURED
    assert backend_for(power, Solver.IPOPT).name == IPOPT
    direct = build_model(case.network, Formulation.DC)
    for other in (direct, build_model(gas.network), build_model(cubic.network)):
        assert backend_for(other, Solver.STRUCTURED).name == IPOPT


def test_nearest_feasible_demands_are_those_of_ipopt():
    """Four times the demand of veil9 cannot be served: both backends come back to the same nearest demands."""
    case, model, ours, ipopt = backends("veil9")
    too_much = solve_true_demand(case, model, 4.0)
    mine, theirs = Solves(ours).nearest_feasible(too_much), Solves(ipopt).nearest_feasible(too_much)
    assert mine.solver == STRUCTURED
    assert mine.delta > 0.01 and mine.delta == pytest.approx(theirs.delta, rel=1e-3)
    assert Solves(ipopt).released(mine.d).answer.converged


def solve_true_demand(case, model, factor):
    return factor * model.layout.to_program(case.values.reveal())


def test_a_release_at_the_edge_of_feasibility_is_solved_by_structure():
    """With much noise the high point can barely be served: the follower and its check must not need Ipopt for that."""
    case, model, ours, _ = backends("case118_ieee")
    cost = solve_true(case, model, ours).cost
    target = Tolerance.parse("1%").around(cost, CostTargetMode.PUBLIC)
    by_structure = 0
    for seed in range(6):
        noisy = model.layout.to_program(simulate_laplace(case.values, epsilon=1.0, alpha=1.0, seed=seed).values)
        joint = Solves(ours).highpoint(noisy, target.shrunk(1e-4))
        followers = [
            Solves(ours).follow(joint, None),
            Solves(ours).verify(joint, Solves(ours).follow(joint, None), target),
        ]
        assert all(follower.converged for follower in followers)
        assert followers[1].cost <= joint.cost * (1 + 1e-6)
        by_structure += all(follower.solver == STRUCTURED for follower in followers)
    assert by_structure >= 5


def test_high_points_of_far_targets_are_found_by_the_structured_solver():
    """At these seeds it finds none if the gradient of the distance is not bounded; Ipopt finds no nearer ones."""
    case = load_case(str(nesta("case300_ieee")))
    model = build_model(case.network)
    ours, ipopt = backend_for(model, STRUCTURED), IpoptBackend(model.program)
    band = Tolerance.parse("1%").around(solve_true(case, model, ours).cost, CostTargetMode.PUBLIC)
    for seed in (0, 1, 3):
        noisy = model.layout.to_program(simulate_laplace(case.values, epsilon=1.0, alpha=10.0, seed=seed).values)
        mine, theirs = Solves(ours).highpoint(noisy, band), Solves(ipopt).highpoint(noisy, band)
        assert mine.solver == STRUCTURED and theirs.converged
        assert mine.delta <= theirs.delta * (1 + 1e-3)


@pytest.mark.parametrize(("moved", "from_last"), [(0.01, True), (0.05, False)])
def test_a_follower_starts_from_the_last_one_only_where_demands_hardly_moved(monkeypatch, moved, from_last):
    case, model, ours, _ = backends("case14_ieee")
    cost = solve_true(case, model, ours).cost
    band = Tolerance.parse("1%").around(cost, CostTargetMode.PUBLIC)
    noisy = model.layout.to_program(simulate_laplace(case.values, epsilon=1.0, alpha=0.1, seed=1).values)
    joint = Solves(ours).highpoint(noisy, band)
    last = Solves(ours).follow(joint, None)
    starts = []
    solve_warm = StructuredSolver.solve_warm

    def watched(self, task, warm):
        starts.append(warm)
        return solve_warm(self, task, warm)

    monkeypatch.setattr(StructuredSolver, "solve_warm", watched)
    further = joint.d.copy()
    further[0] += moved
    follower = Solves(ours).follow(replace(joint, d=further), last)
    assert follower.converged
    assert np.array_equal(starts[0].x, (last if from_last else joint).start.own.x)
