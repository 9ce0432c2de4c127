"""Spearman's coefficient against scipy's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from gridveil.bilevel.monotonicity import measure_monotonicity, rank_correlation

numbers = st.lists(st.integers(0, 5), min_size=3, max_size=12)


@given(numbers, numbers)
def test_ranks_with_ties_agree_with_scipy(first, second):
    n = min(len(first), len(second))
    one, two = np.array(first[:n], dtype=float), np.array(second[:n], dtype=float)
    if np.ptp(one) > 0 and np.ptp(two) > 0:
        assert rank_correlation(one, two) == pytest.approx(spearmanr(one, two).statistic)


def test_a_fall_of_the_cost_is_measured():
    found = measure_monotonicity(np.array([1.0, 2.0, 3.0]), np.array([10.0, 12.0, 11.0]), 100.0)
    assert found.worst_violation == pytest.approx(0.01) and not found.holds
