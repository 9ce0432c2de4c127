"""The audit passes the real mechanisms and catches broken ones: three saboteurs of the law, and subtler ones."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from gridveil.core.errors import InputError
from gridveil.privacy.mechanisms.exact_sampling import RadialLaplaceSampler, suggested_step
from gridveil.privacy.mechanisms.lattice import LatticeMechanism
from gridveil.privacy.mechanisms.planar_laplace import PlanarLaplace
from gridveil.privacy.mechanisms.sampler_audit import (
    _class_probabilities,
    _exceeds,
    audit_ratios,
    extreme_displacements,
    goodness_of_fit,
)
from gridveil.privacy.mechanisms.scalar_laplace import ScalarLaplace

FINE = suggested_step(epsilon=1, alpha="0.1")
CAUGHT = 1e-12


class SeededEntropy:
    def __init__(self, seed: int) -> None:
        self.generator = np.random.default_rng(seed)

    def read(self, count: int) -> bytes:
        return self.generator.bytes(count)


def planar(step: Fraction = FINE) -> PlanarLaplace:
    return PlanarLaplace(epsilon=1, alpha="0.1", step=step, entropy=SeededEntropy(11))


def outputs(mechanism: LatticeMechanism) -> Callable[[NDArray[Any]], NDArray[Any]]:
    return lambda values: mechanism.add_noise(values).values


@pytest.mark.parametrize("step", [FINE, Fraction(1, 100), Fraction(1, 3)])
@pytest.mark.parametrize("kind", [PlanarLaplace, ScalarLaplace])
def test_real_laws_pass_and_are_nearly_tight(kind: type[PlanarLaplace] | type[ScalarLaplace], step: Fraction) -> None:
    audit = audit_ratios(kind(epsilon=1, alpha="0.1", step=step))
    assert audit.passed
    assert 0.7 < audit.largest_log_ratio <= 1
    assert audit.largest_log_ratio == pytest.approx(audit.bound_outside, rel=1e-12)


def test_a_million_real_planar_draws_fit() -> None:
    mechanism = planar()
    fit = goodness_of_fit(outputs(mechanism), mechanism, 1_000_000)
    assert [test.binning for test in fit.tests] == ["shape", "residues"]
    assert all(test.dof > 200 for test in fit.tests)
    assert fit.p_value > 0.001


@pytest.mark.parametrize("step", [Fraction(1, 300), Fraction(1, 20), Fraction(1, 2)])
def test_real_draws_fit_on_coarse_lattices(step: Fraction) -> None:
    mechanism = planar(step)
    assert goodness_of_fit(outputs(mechanism), mechanism, 200_000).p_value > 0.001


def test_real_scalar_draws_fit() -> None:
    mechanism = ScalarLaplace(epsilon=1, alpha="0.1", step=FINE)
    assert goodness_of_fit(outputs(mechanism), mechanism, 50_000).p_value > 1e-6


# Saboteur 1: float Laplace noise, whose support betrays the input.
def float_laplace(mechanism: PlanarLaplace) -> Callable[[NDArray[Any]], NDArray[Any]]:
    generator = np.random.default_rng(5)

    def draw(values: NDArray[Any]) -> NDArray[Any]:
        radius = generator.gamma(2.0, mechanism.scale, len(values))
        return values + radius * np.exp(2j * np.pi * generator.random(len(values)))

    return draw


def test_float_laplace_is_caught() -> None:
    mechanism = planar()
    fit = goodness_of_fit(float_laplace(mechanism), mechanism, 10_000)
    assert fit.off_lattice == 10_000
    assert fit.p_value == 0.0


def test_float_noise_on_the_lattice_of_the_true_value_is_caught() -> None:
    """Exact noise added to the unrounded float is on a lattice, but on one that only the true value could give."""
    mechanism = planar()
    zero_noise = outputs(mechanism)
    fit = goodness_of_fit(lambda values: values + zero_noise(0 * values), mechanism, 10_000)
    assert fit.off_lattice == 10_000


# Saboteur 2: noise scaled by half, in the stated law or only in the draws.
class HalfNoise(PlanarLaplace):
    @property
    def rate(self) -> Fraction:
        return 2 * super().rate

    def squared_exponent(self, offset: tuple[int, ...]) -> Fraction | None:
        return self.rate**2 * sum(component**2 for component in offset)


class HalfScalarNoise(ScalarLaplace):
    def squared_exponent(self, offset: tuple[int, ...]) -> Fraction | None:
        return (2 * self.rate * offset[0]) ** 2


def test_half_noise_is_caught_in_the_law() -> None:
    for kind in (HalfNoise, HalfScalarNoise):
        audit = audit_ratios(kind(epsilon=1, alpha="0.1", step="1/2000"))
        assert not audit.passed
        assert audit.exceeding > 0
        assert audit.largest_log_ratio == pytest.approx(2, rel=0.01)


def test_half_noise_is_caught_in_the_draws() -> None:
    mechanism = planar()
    sabotaged = HalfNoise(epsilon=1, alpha="0.1", step=FINE, entropy=SeededEntropy(1))
    assert goodness_of_fit(outputs(sabotaged), mechanism, 20_000).p_value < CAUGHT


# Saboteur 3: noise on P only, in the stated law or only in the draws.
class NoiseOnPOnly(PlanarLaplace):
    def squared_exponent(self, offset: tuple[int, ...]) -> Fraction | None:
        return (self.rate * offset[0]) ** 2 if offset[1] == 0 else None

    def _noisy_index(self, index: NDArray[np.int64]) -> NDArray[np.int64]:
        return index + super()._noisy_index(0 * index) * [1, 0]


def test_noise_on_p_only_is_caught() -> None:
    sabotaged = NoiseOnPOnly(epsilon=1, alpha="0.1", step="1/2000", entropy=SeededEntropy(1))
    audit = audit_ratios(sabotaged)
    assert not audit.passed
    assert audit.exceeding > 0
    assert audit.largest_log_ratio == math.inf
    assert goodness_of_fit(outputs(sabotaged), sabotaged, 20_000).p_value < CAUGHT


# Subtler defects of the draws: what the tests must be able to see.
@pytest.mark.parametrize(
    "defect",
    [
        pytest.param(lambda k: k & ~1, id="lowest bit lost"),
        pytest.param(lambda k: k + (k % 16 == 3), id="a residue avoided"),
        pytest.param(lambda k: np.column_stack([k[:, 0], np.abs(k[:, 1])]), id="sign of Q lost"),
        pytest.param(lambda k: k[:, [0, 0]], id="Q repeats P"),
    ],
)
def test_subtle_defects_are_caught(defect: Callable[[NDArray[np.int64]], NDArray[np.int64]]) -> None:
    mechanism = planar()

    def draw(values: NDArray[Any]) -> NDArray[Any]:
        start = mechanism.lattice_index(values)
        return mechanism.lattice_values(start + defect(mechanism.add_noise(values).index - start))

    assert goodness_of_fit(draw, mechanism, 400_000).p_value < CAUGHT


def test_a_scale_two_per_cent_too_large_is_caught_by_the_shape() -> None:
    mechanism = planar()
    wider = PlanarLaplace(epsilon=Fraction(100, 102), alpha="0.1", step=FINE, entropy=SeededEntropy(4))
    shape, residues = goodness_of_fit(outputs(wider), mechanism, 400_000).tests
    assert shape.p_value < CAUGHT
    assert residues.p_value > 0.001


def test_independent_laplace_on_p_and_q_is_caught() -> None:
    """The same E|z|² with the wrong shape: scalar noise of variance 3·scale² on each part."""
    mechanism = planar()
    scalar = RadialLaplaceSampler(rate=mechanism.rate * Fraction(816497, 10**6), dimension=1)

    def draw(values: NDArray[Any]) -> NDArray[Any]:
        noise = scalar.draw(2 * len(values), SeededEntropy(2)).reshape(-1, 2)
        return mechanism.lattice_values(mechanism.lattice_index(values) + noise)

    assert goodness_of_fit(draw, mechanism, 50_000).p_value < CAUGHT


@settings(deadline=None)
@given(reach=st.fractions(min_value="1/10", max_value=12, max_denominator=50))
def test_extreme_displacements_against_enumeration(reach: Fraction) -> None:
    longest = math.floor(reach) + 1
    box = itertools.product(range(-longest - 2, longest + 3), repeat=2)
    possible = [d for d in box if sum(max(abs(part) - 1, 0) ** 2 for part in d) <= reach**2]
    extreme = extreme_displacements(reach, 2)
    assert set(extreme) <= set(possible)
    for point in itertools.product(range(-3, 4), repeat=2):
        farthest = [max(math.dist(point, d) for d in displacements) for displacements in (possible, extreme)]
        assert farthest[0] == farthest[1]


positive = st.fractions(min_value="1/100", max_value=100, max_denominator=1000)


@settings(deadline=None)
@given(root_near=positive, epsilon=positive, nudge=st.integers(-1, 1))
def test_exact_comparison_of_roots(root_near: Fraction, epsilon: Fraction, nudge: int) -> None:
    """Equality and differences of 1e-30 are told apart, which floats cannot do."""
    root_far = root_near + epsilon + Fraction(nudge, 10**30)
    assert _exceeds(root_far**2, root_near**2, epsilon) is (nudge > 0)


def test_class_probabilities_in_one_dimension_have_a_closed_form() -> None:
    labels = np.arange(-200, 201) % 2
    even, odd = _class_probabilities(0.3, labels, 2, 1)
    q = math.exp(-0.3)
    assert odd / even == pytest.approx((2 * q / (1 - q**2)) / (1 + 2 * q**2 / (1 - q**2)), rel=1e-12)


def test_blocks_give_the_probabilities_of_single_points() -> None:
    """The block sum that fine lattices use, against the sum over every point, on a lattice where both are possible."""
    rate, side = 1 / 320, 5
    reach = 25 * 320
    points = np.arange(-reach, reach + 1)
    edges = np.array([-9, 0, 1, 10, 60])
    exact = _class_probabilities(rate, np.searchsorted(edges, (points + 2) // side, side="right"), 6, 2)
    blocks = np.arange(-reach // side, reach // side + 1)
    blocked = _class_probabilities(rate * side, np.searchsorted(edges, blocks, side="right"), 6, 2)
    assert 1e6 * float(((exact - blocked) ** 2 / exact).sum()) < 0.03


def test_too_few_draws_are_refused() -> None:
    mechanism = planar()
    with pytest.raises(InputError, match="too few draws"):
        goodness_of_fit(outputs(mechanism), mechanism, 10)


def test_a_step_too_fine_to_audit_is_refused() -> None:
    with pytest.raises(InputError, match="larger step"):
        audit_ratios(PlanarLaplace(epsilon=1, alpha=1, step="1e-9"))
