"""The weighted sum is exact, its sensitivity bound holds, and its noise follows the law that is charged for."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gridveil.core.errors import InputError
from gridveil.privacy.mechanisms.exact_sampling import SeededEntropy
from gridveil.privacy.weighted_sum import WeightedSum, exact_dot, root_above

finite = st.floats(allow_nan=False, allow_infinity=False, width=64)


@given(st.lists(st.tuples(finite, finite), max_size=12))
def test_the_dot_product_is_exact(pairs):
    first, second = (
        (np.array(column, dtype=float) for column in zip(*pairs, strict=True)) if pairs else (np.zeros(0),) * 2
    )
    assert exact_dot(first, second) == sum((Fraction(a) * Fraction(b) for a, b in pairs), Fraction(0))


@given(st.fractions(min_value=Fraction(1, 10**9), max_value=10**9), st.integers(-1000, 1000))
def test_a_root_is_rounded_up_and_no_further(square, exponent):
    square *= Fraction(2) ** exponent
    root = root_above(square)
    assert square < root**2 <= square * (1 + Fraction(1, 2**60))


@example(weights=[(5e-324, 5e-324)], angle=0.0, position=0)  # where a float hypot is too small
@given(
    st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)), min_size=1, max_size=8),
    st.floats(-math.pi, math.pi),
    st.integers(0, 7),
)
def test_moving_one_participant_by_alpha_moves_the_sum_by_no_more_than_its_sensitivity(weights, angle, position):
    """The adversarial direction of the move is that of the weight itself; any other moves the sum less."""
    y = np.array([complex(*pair) for pair in weights])
    if not np.any(y != 0):
        return
    query, alpha = WeightedSum(weights=y), 0.25
    values = np.exp(1j * np.arange(len(y)))
    moved = values.copy()
    site = position % len(y)
    for direction in (angle, float(np.angle(y[site]))):
        step = alpha * np.exp(1j * direction) * (1 - 1e-15)
        moved[site] = values[site] + step
        if (
            abs(Fraction(moved[site].real) - Fraction(values[site].real)) ** 2
            + abs(Fraction(moved[site].imag) - Fraction(values[site].imag)) ** 2
            > Fraction(alpha) ** 2
        ):
            continue  # rounding made the move longer than alpha
        change = query.exact_value(moved) - query.exact_value(values)
        assert abs(change) <= Fraction(alpha) * query.steepness


def test_a_bound_that_is_a_little_too_small_would_be_noticed():
    """A saboteur: with half the steepness the worst move breaks the bound."""
    query = WeightedSum(weights=np.array([3 + 4j, 1.0]))
    change = query.exact_value(np.array([3 + 4j, 0.0])) - query.exact_value(np.zeros(2, dtype=complex))  # a move of 5
    assert change == 25 and not change <= 5 * query.steepness / 2
    assert change <= 5 * query.steepness <= 25 * (1 + Fraction(1, 2**49))


def test_the_noise_has_the_scale_that_is_charged_for():
    query = WeightedSum(weights=np.array([20.0 + 5j, -30.0]))
    mechanism = query.mechanism(epsilon=Fraction(1, 2), alpha=Fraction(1, 10), entropy=SeededEntropy(5))
    draws = np.array([mechanism.draw_exact(Fraction(1000)) for _ in range(4000)]) - 1000
    assert mechanism.scale == pytest.approx(30 * 0.1 / 0.5, rel=2e-3)
    assert np.mean(np.abs(draws)) == pytest.approx(mechanism.scale, rel=5 / math.sqrt(4000))


def test_weights_that_ask_nothing_are_refused():
    for weights in (np.zeros(3), np.array([1.0, np.nan])):
        with pytest.raises(InputError, match="weights"):
            WeightedSum(weights=weights)
