"""The estimate of the true cost: shrinkage by formula, exact on linear programs, bounded weights, and no hidden state."""

from __future__ import annotations

import math
from dataclasses import replace

import casadi as ca
import numpy as np
import pytest

import gridveil.bilevel.cost_estimate as module
from gridveil.bilevel import cost_estimate
from gridveil.bilevel.cost_estimate import USUAL, cost_near, estimate_cost, linear_cost, shrunk
from gridveil.core.choices import Formulation
from gridveil.privacy.mechanisms.simulation import simulate_laplace
from gridveil.privacy.noisy import MechanismFacts, NoisyData, NoisySum
from gridveil.programs import ParametricProgram
from gridveil.sectors.model import DataLayout, Model, PricedCost
from gridveil.sectors.registry import build_model, load_case
from gridveil.solvers.ipopt import IpoptBackend
from gridveil.solvers.registry import backend_for
from gridveil.solvers.solves import Solves

PRICES = np.array([10.0, 11.0, 11.75, 10.5, 11.5, 9.5])  # none beyond 1.1 times their median
FIXED = 40.0
TRUTH = np.array([2.0, 5.0, 3.0, 7.0, 4.0, 6.0])


def facts(square: float) -> MechanismFacts:
    """Noise of a given E|z|²."""
    return MechanismFacts(
        name="made up", epsilon=1.0, alpha=0.1, rounding=0.0, step=0.0, scale=math.sqrt(square / 2), expected_square=square,
        proof_note="none",
    )  # fmt: skip


def noisy_of(values: np.ndarray, square: float) -> NoisyData:
    return NoisyData(values=values, mechanism=facts(square), simulation=True)


def priced(prices: np.ndarray) -> tuple[Model, Solves]:
    """Each participant is served at a price of its own: O(d) = FIXED + Σ price_i·d_i for every d, and there is no limit."""
    n = len(prices)
    x, d = ca.MX.sym("x", n), ca.MX.sym("d", n)
    program = ParametricProgram(
        name="priced", x=x, d=d, cost=FIXED + ca.dot(ca.DM(prices), x), g=x - d, g_lower=np.zeros(n), g_upper=np.full(n, np.inf),
        x_lower=np.full(n, -np.inf), x_upper=np.full(n, np.inf), x_start=np.ones(n), proxy=ca.dot(ca.DM(prices), d),
    )  # fmt: skip
    layout = DataLayout(np.ones(n, dtype=bool), with_reactive=False)
    model = Model(kind="priced", formulation=Formulation.AC, program=program, layout=layout)
    return model, Solves(IpoptBackend(program))


def exact_sum(weights: np.ndarray, truth: np.ndarray, offset: float) -> NoisySum:
    """A sum whose noise is too small to be seen."""
    value = float(np.sum((np.conj(weights) * truth).real))
    return NoisySum(value=value, weights=weights, offset=offset, mechanism=facts(1e-20), simulation=True)


def test_values_without_noise_are_not_shrunk():
    values = np.array([1.0, 4.0, -2.0, 9.0])
    np.testing.assert_array_equal(shrunk(noisy_of(values, 0.0)), values)


@pytest.mark.parametrize("square", [14.0, 100.0])
def test_values_that_vary_no_more_than_noise_become_their_mean(square):
    """(0, 2, 4, 10) have the variance 14."""
    np.testing.assert_allclose(shrunk(noisy_of(np.array([0.0, 2.0, 4.0, 10.0]), square)), np.full(4, 4.0), rtol=1e-15)


def test_in_between_they_are_shrunk_by_the_share_of_the_signal():
    """Of the variance 14 noise makes 3.5, so three quarters of every distance from the mean 4 are kept."""
    np.testing.assert_allclose(shrunk(noisy_of(np.array([0.0, 2.0, 4.0, 10.0]), 3.5)), [1.0, 2.5, 4.0, 8.5], rtol=1e-14)


def test_real_and_imaginary_parts_are_shrunk_apart():
    """Each part has half of E|z|²: real parts of variance 14 keep three quarters, imaginary ones of variance 1 nothing."""
    values = np.array([0.0, 2.0, 4.0, 10.0]) + 1j * np.array([1.0, 3.0, 1.0, 3.0])
    np.testing.assert_allclose(shrunk(noisy_of(values, 7.0)), np.array([1.0, 2.5, 4.0, 8.5]) + 2j, rtol=1e-14)


@pytest.mark.parametrize("seed", range(3))
def test_on_a_linear_program_weights_are_prices_and_the_tangent_is_the_cost(seed):
    model, solves = priced(PRICES)
    noisy = noisy_of(TRUTH + np.random.default_rng(seed).laplace(0.0, 0.5, len(TRUTH)), 0.5)
    linear = linear_cost(model, solves, noisy)
    assert linear is not None
    np.testing.assert_allclose(linear.weights, PRICES, rtol=1e-6)
    assert linear.at(TRUTH) == pytest.approx(FIXED + PRICES @ TRUTH, rel=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_with_a_sum_without_noise_the_estimate_is_the_true_cost(seed):
    model, solves = priced(PRICES)
    noisy = noisy_of(TRUTH + np.random.default_rng(seed).laplace(0.0, 0.5, len(TRUTH)), 0.5)
    linear = linear_cost(model, solves, noisy)
    assert linear is not None
    found = estimate_cost(model, solves, noisy, exact_sum(linear.weights, TRUTH, linear.constant))
    truth = FIXED + PRICES @ TRUTH
    assert found.value == pytest.approx(truth, rel=1e-3)
    assert found.deviation <= 1e-3 * truth
    assert abs(found.from_values - truth) > 10 * abs(
        found.value - truth
    )  # the noisy values alone could not have told it


def test_with_one_replica_the_values_alone_are_not_asked_for(monkeypatch):
    """They would get no weight: one replica shows no spread. The estimate is that of the sum, corrected by the replica."""
    model, solves = priced(PRICES)
    noisy = noisy_of(TRUTH + np.random.default_rng(1).laplace(0.0, 0.5, len(TRUTH)), 0.5)
    total = exact_sum(PRICES, TRUTH, FIXED)
    one = replace(USUAL, most_replicas=1)
    monkeypatch.setattr(cost_estimate, "cost_near", lambda *_: pytest.fail("values alone were asked for"))
    found = estimate_cost(model, solves, noisy, total, one)
    assert found.value == pytest.approx(FIXED + PRICES @ TRUTH, rel=1e-3) and np.isnan(found.from_values)
    with pytest.raises(pytest.fail.Exception):
        estimate_cost(model, solves, noisy, replace(total, value=-total.offset - 1.0), one)


def test_a_sum_that_is_all_noise_leaves_it_to_the_noisy_values():
    model, solves = priced(PRICES)
    noisy = noisy_of(TRUTH + 1e-6, 1e-12)
    total = NoisySum(value=3 * PRICES @ TRUTH, weights=PRICES, offset=FIXED, mechanism=facts(1e12), simulation=True)
    found = estimate_cost(model, solves, noisy, total)
    assert found.value == pytest.approx(FIXED + PRICES @ TRUTH, rel=1e-3)


def test_no_weight_exceeds_the_price_cap():
    """One price is twenty times the others: its participant gets 1.1 times the median, and the others their prices."""
    prices = np.array([10.0, 11.0, 200.0, 10.5, 11.5, 9.5])
    model, solves = priced(prices)
    linear = linear_cost(model, solves, noisy_of(TRUTH, 0.01))
    assert linear is not None
    cap = USUAL.price_cap * float(np.median(prices))
    np.testing.assert_allclose(linear.weights, np.minimum(prices, cap), rtol=1e-6)


class Moves:
    """The relaxed cost of ``priced`` by formula: whom it is dearer to serve than to move to nothing is moved, at the price."""

    name, dearest_price = "by formula", 1000.0

    def __init__(self, prices: np.ndarray) -> None:
        self._prices = prices

    def priced_cost(
        self, d: np.ndarray, price: float, *, rough: bool = False, near: PricedCost | None = None
    ) -> PricedCost:
        slope = np.minimum(self._prices, price)
        return PricedCost(value=FIXED + float(slope @ d), slope=slope)


def test_a_relaxation_is_asked_at_the_price_cap_where_its_slope_is_steeper():
    prices = np.array([10.0, 11.0, 200.0, 10.5, 11.5, 9.5])
    model, solves = priced(prices)
    linear = linear_cost(replace(model, relaxation=Moves(prices)), solves, noisy_of(TRUTH, 0.01))  # type: ignore[arg-type]
    assert linear is not None
    np.testing.assert_allclose(linear.weights, np.minimum(prices, USUAL.price_cap * 10.75), rtol=1e-12)
    assert linear.constant == pytest.approx(FIXED, rel=1e-9)


@pytest.mark.parametrize("name", ["veil9", "case14_ieee"])
@pytest.mark.parametrize("alpha", [0.1, 1.0])
def test_weights_on_a_network_stay_below_the_price_that_moves_were_charged(name, alpha):
    """The relaxed cost charges every move 1.1 median prices at most, and no slope is steeper than that."""
    case = load_case(name)
    model = build_model(case.network)
    relaxation = model.relaxation
    assert relaxation is not None
    for seed in range(3):
        noisy = simulate_laplace(case.values, epsilon=1.0, alpha=alpha, seed=seed)
        linear = linear_cost(model, Solves(backend_for(model, "structured")), noisy)
        uncapped = relaxation.priced_cost(model.layout.to_program(shrunk(noisy)), relaxation.dearest_price, rough=True)
        assert linear is not None and uncapped is not None
        n = len(uncapped.slope) // 2
        cap = USUAL.price_cap * float(np.median(np.hypot(uncapped.slope[:n], uncapped.slope[n:])))
        assert np.max(np.abs(linear.weights)) <= cap * (1 + 1e-6)


def test_it_is_a_function_of_what_was_drawn():
    """Two calls, on backends of their own, give the same bits: replicas come from a public seed."""
    case = load_case("veil9")
    model = build_model(case.network)
    noisy = simulate_laplace(case.values, epsilon=1.0, alpha=0.1, seed=3)
    found = []
    for _ in range(2):
        solves = Solves(backend_for(model, "structured"))
        linear = linear_cost(model, solves, noisy)
        assert linear is not None
        found.append(estimate_cost(model, solves, noisy, exact_sum(linear.weights, noisy.values, linear.constant)))
    assert found[0] == found[1] and math.isfinite(found[0].value)


def test_saboteur_a_slope_of_the_wrong_sign(monkeypatch):
    """Weights that point downhill make a sum that says nothing about the cost: the tangent misses O(d°) by twice the move."""
    honest = module._priced_tangent

    def flipped(*arguments):
        value, slope, at = honest(*arguments)
        return value, -slope, at

    model, solves = priced(PRICES)
    noisy = noisy_of(TRUTH + np.array([1.0, 0.5, 1.5, 1.0, -0.5, 0.5]), 0.5)
    truth = FIXED + PRICES @ TRUTH
    linear = linear_cost(model, solves, noisy)
    assert linear is not None and abs(linear.at(TRUTH) - truth) <= 1e-6 * truth
    monkeypatch.setattr(module, "_priced_tangent", flipped)
    wrong = linear_cost(model, solves, noisy)
    assert wrong is not None
    missed = 2 * (cost_near(model, solves, shrunk(noisy)) - truth)
    assert wrong.at(TRUTH) - truth == pytest.approx(missed, rel=1e-4) and abs(missed) > 0.1 * truth
