"""Choosing settings: on public or simulated demands, with nothing of the secret ones, and with failures counted."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

import gridveil.sectors.registry
from conftest import Matpower, optimum
from gridveil.bilevel.methods import METHODS
from gridveil.bilevel.repair import repair
from gridveil.bilevel.result import Ending
from gridveil.core.band import Tolerance
from gridveil.core.choices import CostTargetMode
from gridveil.core.errors import InputError
from gridveil.core.methods import Solver
from gridveil.core.secret import SecretValues
from gridveil.privacy.mechanisms.simulation import simulate_laplace
from gridveil.sectors.registry import build_model, load_case
from gridveil.solvers.ipopt import IpoptBackend
from gridveil.solvers.registry import backend_for
from gridveil.solvers.solves import Solves
from gridveil.study.explore import ExploreGrid, explore_public, explore_simulated, simulated_demand

GRID = ExploreGrid(alphas=("0.05pu", "0.2pu"), epsilons=("1", "2"), betas=("0.5%", "20%"), seeds=2)
OPTIONS = ("--alpha", "0.05pu,0.2pu", "--beta", "1%", "--seeds", "2")


def three_bus(loads: tuple[float, float]) -> str:
    net = Matpower()
    net.add_bus(1, kind=3)
    net.add_bus(2, pd=loads[0], qd=loads[0] / 3)
    net.add_bus(3, pd=loads[1], qd=loads[1] / 4)
    net.add_gen(1, p=(0.0, 200.0), cost=(0.01, 10.0, 0.0))
    net.add_gen(3, p=(0.0, 100.0), cost=(0.02, 30.0, 0.0))
    for i, j in ((1, 2), (2, 3), (1, 3)):
        net.add_branch(i, j, r=0.01, rate=120.0)
    return net.text()


def test_rows_are_what_a_release_by_hand_gives():
    case = load_case("veil9")
    found = explore_public(case, GRID)
    assert [(row.alpha, row.epsilon, row.beta) for row in found.rows] == [
        (alpha, epsilon, beta) for alpha in (0.05, 0.2) for epsilon in (1.0, 2.0) for beta in ("0.5%", "20%")
    ]
    model = build_model(case.network)
    backend, truth = backend_for(model, Solver.STRUCTURED), case.values.reveal()
    assert found.cost == pytest.approx(optimum(case).cost, rel=1e-6)
    row = found.rows[2]  # α = 0.05, ε = 2, β = 0.5 %
    noisy = [simulate_laplace(case.values, epsilon=2.0, alpha=0.05, seed=seed) for seed in (1, 2)]
    target = Tolerance.parse("0.5%").around(found.cost, CostTargetMode.PUBLIC)
    released = [repair(backend, model.layout, one, target) for one in noisy]

    def mean_distance(sites: list[np.ndarray]) -> float:
        return float(np.mean([np.linalg.norm(one - truth) for one in sites]) / np.linalg.norm(truth))

    assert row.distance_noisy.mean == pytest.approx(mean_distance([one.values for one in noisy]), rel=1e-12)
    assert row.distance_released.mean == pytest.approx(mean_distance([one.values for one in released]), rel=1e-6)
    errors = [abs(one.result.cost / found.cost - 1) for one in released]
    assert row.cost_error.mean == pytest.approx(np.mean(errors), rel=1e-4)
    assert row.posterior == pytest.approx(math.e**2 / (1 + math.e**2), rel=1e-12)
    assert (row.runs, row.verified, row.failures) == (2, 2, {})


def test_betas_share_their_draws_and_hold():
    rows = explore_public(load_case("veil2"), GRID).rows
    for tight, wide in zip(rows[::2], rows[1::2], strict=True):
        assert tight.distance_noisy == wide.distance_noisy
        assert tight.cost_error.high <= 0.005 and wide.cost_error.high <= 0.2


def test_failed_runs_are_counted_by_reason(monkeypatch):
    real, calls = METHODS["auto"], []

    def flaky(*arguments):
        calls.append(arguments)
        result = real(*arguments)
        return replace(result, d=None, cost=math.nan, ending=Ending.NO_BRACKET) if len(calls) % 3 else result

    monkeypatch.setitem(METHODS, "auto", flaky)
    grid = ExploreGrid(alphas=("0.1pu",), epsilons=("1",), betas=("1%",), seeds=6)
    (row,) = explore_public(load_case("veil2"), grid).rows
    assert (row.runs, row.verified, row.failures) == (6, 2, {Ending.NO_BRACKET.value: 4})
    monkeypatch.setitem(METHODS, "auto", lambda *a: replace(real(*a), d=None, ending=Ending.NO_HIGHPOINT))
    (row,) = explore_public(load_case("veil2"), grid).rows
    assert (row.verified, row.distance_released, row.cost_error) == (0, None, None)
    assert row.distance_noisy.mean > 0


@pytest.mark.parametrize("name", ["veil9", "veilgas"])
def test_simulated_demands_are_made_of_public_data_and_can_be_served(name):
    case = load_case(name)
    model = build_model(case.network)
    backend = IpoptBackend(model.program)
    first, again = (simulated_demand(case.network, case.field, model.layout, backend)[0].reveal() for _ in range(2))
    assert np.array_equal(first, again)
    solution = Solves(backend).afresh(model.layout.to_program(first))
    assert solution.converged and solution.cost > 0
    if name == "veil9":
        assert first.real.sum() == pytest.approx(0.5 * (1.9 + 0.9 + 1.4 + 0.35), rel=1e-9)
        assert np.all(first.real > 0) and np.all(first.imag >= 0)


def test_demands_that_cannot_be_served_are_made_feasible():
    case = load_case("case57_ieee")
    model = build_model(case.network)
    backend = backend_for(model, Solver.STRUCTURED)
    demand, words = simulated_demand(case.network, case.field, model.layout, backend, loading=1.0)
    assert "100%" in words
    assert Solves(backend).afresh(model.layout.to_program(demand.reveal())).converged
    with pytest.raises(InputError, match="loading"):
        simulated_demand(case.network, case.field, model.layout, backend, loading=1.5)


def test_a_file_s_demands_are_never_looked_at(cli, tmp_path, monkeypatch):
    path = tmp_path / "own.m"
    path.write_text(three_bus((41.75, 77.5)))
    loaded, reveal = [], SecretValues.reveal

    def load(*arguments, **options):
        loaded.append(load_case(*arguments, **options))
        return loaded[-1]

    def guarded(self):
        assert all(self is not case.values for case in loaded), "the file's demands were revealed"
        return reveal(self)

    monkeypatch.setattr(gridveil.sectors.registry, "load_case", load)
    monkeypatch.setattr(SecretValues, "reveal", guarded)
    result = cli("explore", path, *OPTIONS, "--json")
    assert result.code == 0 and len(loaded) == 1
    report = json.loads(result.out)
    assert report["source"] == "simulated" and report["demands"].startswith("simulated from public data")
    with pytest.raises(AssertionError, match="revealed"):
        loaded[0].values.reveal()


def test_two_files_that_differ_in_demands_alone_give_the_same_rows(cli, tmp_path):
    reports = []
    for folder, loads in (("a", (41.75, 77.5)), ("b", (99.0, 3.0))):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "own.m").write_text(three_bus(loads))
        report = json.loads(cli("explore", tmp_path / folder / "own.m", *OPTIONS, "--json").out)
        for part in (report, *report["rows"]):
            del part["seconds"]
        reports.append(report)
    assert reports[0] == reports[1]


def test_true_demands_are_refused_with_what_they_would_cost(cli, monkeypatch):
    """30 draws: at α = 0.01 they cost 10·(1 + 0.1 + 0.01), at α = 1 a hundred times that."""
    monkeypatch.setattr(gridveil.sectors.registry, "load_case", None)
    result = cli("explore", "veil9", "--demands", "true", "--alpha", "0.01pu,0.1pu,1pu")
    assert (result.code, result.out) == (2, "")
    assert "30 draws" in result.err and "ε = 11.1 at α = 0.01pu (ε = 1110 at α = 1pu)" in result.err
    assert "--demands simulated" in result.err and result.err.count("\n") == 1


def test_a_file_is_not_taken_for_public(cli, tmp_path):
    path = tmp_path / "own.m"
    path.write_text(three_bus((41.75, 77.5)))
    result = cli("explore", path, "--demands", "public")
    assert result.code == 2 and "taken for secret" in result.err


@pytest.mark.parametrize("wrong", [("--alpha", "0pu"), ("--epsilon", ","), ("--beta", "x"), ("--seeds", "0")])
def test_a_grid_that_cannot_be_tried_is_refused(cli, wrong):
    result = cli("explore", "veil2", *wrong)
    assert result.code == 2 and result.err.startswith("gridveil: ")


def test_simulated_on_request(cli):
    report = json.loads(cli("explore", "veil2", "--demands", "simulated", *OPTIONS, "--loading", "0.3", "--json").out)
    assert "30% of the total generator capacity" in report["demands"]


def test_exploring_gas():
    case = load_case("veilgas")
    grid = ExploreGrid(alphas=("0.5pu",), epsilons=("1",), betas=("5%",), seeds=2)
    (row,) = explore_simulated(case.network, case.field, "gas", grid).rows
    assert row.verified == 2 and row.cost_error.high <= 0.05
