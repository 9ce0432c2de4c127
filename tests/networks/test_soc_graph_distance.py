"""The distance bound on the bus graph: exact where it is known by hand, as tight as the conic solver's, safe for every weight."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from closed_forms import band
from conftest import Matpower
from gridveil.bilevel.certificate import certify
from gridveil.bilevel.methods.auto import solve_auto
from gridveil.privacy.mechanisms.simulation import simulate_laplace
from gridveil.programs.conic import BoundStatus, ConicProgram
from gridveil.sectors.power.soc import soc_distance_bound, weighed_distance_model
from gridveil.sectors.power.soc_graph import distance
from gridveil.sectors.power.soc_graph.distance import distance_bound_on_graph
from gridveil.sectors.power.soc_graph.lowering import lower_grid
from gridveil.sectors.power.soc_graph.multipliers import program_multipliers
from gridveil.sectors.registry import build_model, load_case
from gridveil.solvers.registry import backend_for
from gridveil.solvers.solves import Solves

BENDS = [(0.0, 0.0), (50.0, 500.0), (100.0, 1500.0)]


def one_line(load_text, cost):
    """A source of at most 100 MW and a load behind a lossless line."""
    net = Matpower()
    net.add_bus(1, kind=3)
    net.add_bus(2, pd=50.0)
    net.add_gen(1, cost=cost, p=(0.0, 100.0))
    net.add_branch(1, 2, r=0.0, x=0.01)
    return load_text(net.text()).network.grid


def lowered(grid):
    return lower_grid(grid, moves=False, limit_losses=True, shifted=True)


@pytest.mark.parametrize(
    ("cost", "target", "noisy", "nearest"),
    [
        ((0.0, 10.0, 0.0), band(500.0, 20.0), 0.61, 0.52),  # cost at most 520
        ((0.0, 10.0, 0.0), band(500.0, 20.0), 0.41, 0.48),  # cost at least 480: the chord is the cost itself
        ((0.2, 0.0, 0.0), band(500.0, 20.0), 0.61, math.sqrt(520 / 0.2) / 100),
        ((0.2, 0.0, 0.0), band(500.0, 20.0), 0.2, 0.24),  # the chord of 0.2p² over 0…100 MW is 20p
        (BENDS, band(600.0, 60.0), 0.7, 0.58),
        (BENDS, band(600.0, 60.0), 0.1, 0.36),
        ((0.0, 10.0, 300.0), band(500.0, 20.0), 0.41, 0.22),
    ],
)
@pytest.mark.parametrize("slack", [1.0, 3.0])
def test_by_hand(load_text, cost, target, noisy, nearest, slack):
    expected = (noisy - nearest) ** 2
    found = distance_bound_on_graph(
        lowered(one_line(load_text, cost)), np.array([noisy - 0.3j]), target, slack * expected
    )
    assert found is not None and found.status is BoundStatus.SOLVED
    assert expected * (1 - slack * 1e-4) <= found.value <= expected * (1 + 1e-9)


def test_sites_of_one_bus_share_the_way(load_text):
    grid = one_line(load_text, (0.0, 10.0, 0.0))
    shared = replace(grid, load_bus=np.repeat(grid.load_bus, 2))
    noisy = np.array([0.5 + 0j, 0.11 + 0j])  # 9 MW too much
    found = distance_bound_on_graph(lowered(shared), noisy, band(500.0, 20.0), 0.01)
    assert found.value == pytest.approx(2 * 0.045**2, rel=1e-3)


def released(name, alpha, seed):
    case = load_case(name)
    model = build_model(case.network)
    backend = backend_for(model, "structured")
    truth = Solves(backend).afresh(model.layout.to_program(case.values.reveal()))
    target = band(truth.cost, 0.01 * truth.cost)
    noisy = model.layout.to_program(simulate_laplace(case.values, epsilon=1.0, alpha=alpha, seed=seed).values)
    return model, noisy, target, solve_auto(backend, noisy, target)


def complex_demand(d):
    return d[: len(d) // 2] + 1j * d[len(d) // 2 :]


@pytest.mark.parametrize(
    ("name", "alpha"), [("veil9", 0.3), ("case14_ieee", 0.1), ("case30_ieee", 1.0), ("case118_ieee", 0.1)]
)
def test_no_looser_than_the_conic_solver_and_below_every_release(name, alpha, monkeypatch):
    found = 0
    for seed in range(3):
        model, noisy, target, result = released(name, alpha, seed)
        if result.d is None or result.highpoint.delta <= 1e-6 * result.delta:
            continue
        free = np.full(len(noisy), np.inf)
        conic = soc_distance_bound(model.relaxation.grid, complex_demand(noisy), target, -free, free)
        with monkeypatch.context() as patch:
            patch.setattr(ConicProgram, "lower_bound", lambda *_, **__: pytest.fail("the conic solver was asked"))
            graph = model.relaxation.distance_bound(noisy, target, -free, free, reached=result.highpoint.delta)
        assert conic.value - 1e-4 * result.delta <= graph.value <= result.highpoint.delta * (1 + 1e-9)
        found += 1
    assert found > 0


def test_every_weight_and_all_multipliers_give_a_bound():
    """The optimum of HPR is above whatever a solve proves, however wrong its weight and its multipliers are."""
    model, noisy, target, result = released("case14_ieee", 0.1, 3)
    demand, rng = complex_demand(noisy), np.random.default_rng(0)
    low = lowered(model.relaxation.grid)
    search = distance._WeightSearch(low, demand, target, result.highpoint.delta)
    values = []
    for weight in [-1.0, -0.01, 1e-6, 0.003, 0.02, 0.1, 1.0]:
        trial = search._try(weight)
        weighed = weighed_distance_model(low.grid, demand, target, weight / low.scale)
        rows, layout = weighed.program.stacked()
        z = program_multipliers(low, trial.solution, weighed, rows, layout)
        spoiled = layout.into_dual_cone(z * (1 + 0.01 * rng.normal(size=z.shape)))
        values.append(weighed.program.safe_value(rows, z))
        assert values[-1] == pytest.approx(trial.value, rel=1e-5, abs=1e-6)
        assert weighed.program.safe_value(rows, spoiled) <= values[-1] + 1e-9
    assert max(values) <= result.highpoint.delta
    assert 0 < max(values) > values[0] and max(values) > values[-1]  # in between, as g is concave


def test_a_weight_near_one_that_was_tried_takes_fewer_iterations_and_has_the_same_bound():
    model, noisy, target, result = released("case14_ieee", 0.1, 3)
    demand, low = complex_demand(noisy), lowered(model.relaxation.grid)
    cold, warm = (distance._WeightSearch(low, demand, target, result.highpoint.delta) for _ in range(2))
    warm._below = warm._try(0.01)
    expected, found = cold._try(0.02), warm._try(0.02)
    assert found.value == pytest.approx(expected.value, rel=1e-5) and found.slope == pytest.approx(
        expected.slope, rel=1e-2
    )
    assert found.solution.iterations < expected.solution.iterations
    assert warm._midway_near(-0.01) is None and warm._midway_near(100.0) is None


def test_a_bound_of_nothing_is_not_searched_for(monkeypatch):
    """No distance is negative: where two weights show that the best bound is next to nothing, no third one is tried."""
    model, noisy, target, _ = released("case14_ieee", 0.1, 3)
    search = distance._WeightSearch(lowered(model.relaxation.grid), complex_demand(noisy), target, 1.0)
    tried = []

    def trial(weight):
        tried.append(weight)
        value, slope = -1e-3 * abs(weight) / search._little, -math.copysign(1e-3 / search._little, weight)
        sound = SimpleNamespace(within=lambda *_: True)
        return distance._WeightTrial(weight=weight, value=value, slope=slope, lacking=1.0, solution=sound, midway=None)

    monkeypatch.setattr(search, "_try", trial)
    best, is_best = search.run()
    assert is_best and best.value < 0 and len(tried) == 2


def test_limits_on_demands_are_left_to_the_conic_solver(load_text):
    grid = one_line(load_text, (0.0, 10.0, 0.0))
    relaxation = build_model(load_case("veil2").network).relaxation.__class__(grid)
    lower, free = np.array([0.51, 0.2]), np.full(2, np.inf)
    found = relaxation.distance_bound(np.array([0.5, 0.1]), band(500.0, 20.0), lower, free, reached=1.0)
    assert found.value == pytest.approx(0.01**2 + 0.1**2, abs=1e-7)


def test_a_high_point_next_to_the_noisy_values_needs_no_program(monkeypatch):
    model, noisy, target, result = released("case118_ieee", 0.1, 2)
    assert result.highpoint.delta <= 1e-6 * result.delta
    monkeypatch.setattr(type(model.relaxation), "distance_bound", lambda *_, **__: pytest.fail("a bound was asked for"))
    assert certify(model, noisy, target, result).distance_lower_bound == 0.0


def test_what_the_search_does_not_settle_the_conic_solver_bounds_too(monkeypatch):
    model, noisy, target, result = released("case14_ieee", 0.1, 3)
    free = np.full(len(noisy), np.inf)
    monkeypatch.setattr(distance, "MOST_SOLVES", 1)
    found = model.relaxation.distance_bound(noisy, target, -free, free, reached=result.highpoint.delta)
    conic = soc_distance_bound(model.relaxation.grid, complex_demand(noisy), target, -free, free)
    assert found.value == pytest.approx(conic.value, rel=1e-6)
