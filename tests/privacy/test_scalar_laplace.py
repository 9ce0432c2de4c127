"""Scalar Laplace: calibration and draws against OpenDP, closed forms, lazy import."""

from __future__ import annotations

import math
import subprocess
import sys
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2_contingency

from gridveil.core.errors import InputError
from gridveil.privacy.mechanisms.scalar_laplace import ScalarLaplace

parameters = st.fractions(min_value="1/100", max_value=20, max_denominator=1000)


@settings(deadline=None, max_examples=50)
@given(epsilon=parameters, alpha=parameters, steps=st.integers(1, 10**5))
def test_opendp_grants_what_we_claim_for_the_same_law(epsilon: Fraction, alpha: Fraction, steps: int) -> None:
    """OpenDP's privacy map knows nothing of ours. When alpha is a whole number of steps, the bound is tight."""
    mechanism = ScalarLaplace(epsilon=epsilon, alpha=alpha, step=alpha / steps)
    assert mechanism.rate * (steps + 1) == epsilon
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    granted = Fraction(dp.m.make_laplace(*space, scale=float(1 / mechanism.rate)).map(steps + 1))
    assert abs(granted / epsilon - 1) < Fraction(1, 2**48)  # its scale is a float, its loss rounded upwards


def test_draws_follow_the_law_that_opendp_draws() -> None:
    """Two samplers that share no line: their draws agree in distribution (chi-square, both with the system's entropy)."""
    mechanism = ScalarLaplace(epsilon=1, alpha=1, step="1/8")
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    other = dp.m.make_laplace(*space, scale=float(1 / mechanism.rate))
    count, reach = 100_000, 30
    ours = mechanism.add_noise(np.zeros(count)).index
    theirs = np.array(other([0] * count))
    histograms = np.array([np.bincount(np.clip(draws, -reach, reach) + reach) for draws in (ours, theirs)])
    assert chi2_contingency(histograms).pvalue > 1e-6


@settings(deadline=None)
@given(alpha=parameters, steps=st.integers(1, 3000), value=st.floats(-100, 100), share=st.floats(-1, 1))
def test_adjacent_values_are_indistinguishable(alpha: Fraction, steps: int, value: float, share: float) -> None:
    mechanism = ScalarLaplace(epsilon=1, alpha=alpha, step=3 * alpha / steps)
    other = value + float(alpha) * share
    if abs(Fraction(other) - Fraction(value)) > alpha:
        return  # float rounding took the pair out of the adjacency
    index = mechanism.lattice_index(np.array([value, other]))
    assert mechanism.rate * abs(int(index[1] - index[0])) <= 1


@pytest.mark.parametrize("step", ["1/1000", "1/3", "7"])
def test_expected_square_against_the_sum(step: str) -> None:
    mechanism = ScalarLaplace(epsilon=1, alpha="0.5", step=step)
    offsets = np.arange(-100_000, 100_001.0)
    weights = np.exp(-float(mechanism.rate) * np.abs(offsets))
    expected = float(mechanism.step) ** 2 * float((offsets**2 * weights).sum() / weights.sum())
    assert mechanism.expected_square == pytest.approx(expected, rel=1e-11)


def test_draws_are_centred_on_the_rounded_value_with_the_stated_spread() -> None:
    mechanism = ScalarLaplace(epsilon=1, alpha=1, step="1/512")
    truth = np.tile([123.4567, -0.001], 20_000)
    noisy = mechanism.add_noise(truth)
    assert noisy.index.shape == truth.shape
    assert noisy.index.dtype == np.int64
    assert np.array_equal(noisy.values, noisy.index / 512)
    noise = noisy.values - np.rint(truth * 512) / 512
    spread = math.sqrt(mechanism.expected_square)
    assert abs(noise.mean()) < 6 * spread / math.sqrt(len(noise))
    # The kurtosis of the Laplace law is 6.
    assert (noise**2).mean() / spread**2 == pytest.approx(1, abs=6 * math.sqrt(5 / len(noise)))


def test_complex_loads_are_refused() -> None:
    with pytest.raises(InputError, match="real values"):
        ScalarLaplace(epsilon=1, alpha=1, step="1/512").add_noise(np.zeros(3, dtype=complex))


def test_importing_the_mechanisms_loads_no_slow_library() -> None:
    code = (
        "import sys; from gridveil.privacy.mechanisms import planar_laplace, sampler_audit, scalar_laplace;"
        "sys.exit(any(name in sys.modules for name in ('opendp', 'scipy')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
