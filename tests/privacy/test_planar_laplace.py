"""Planar Laplace: calibration, moments, and the privacy inequality for random adjacent loads."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridveil.core.errors import InputError
from gridveil.privacy.mechanisms import exact_sampling
from gridveil.privacy.mechanisms.exact_sampling import suggested_step
from gridveil.privacy.mechanisms.planar_laplace import (
    LATTICE_SUMS,
    SERIES_RATE,
    SQRT2_ABOVE,
    PlanarLaplace,
    planar_second_moment,
)

parameters = st.fractions(min_value="1/100", max_value=20, max_denominator=1000)


class SeededEntropy:
    def __init__(self, seed: int) -> None:
        self.generator = np.random.default_rng(seed)

    def read(self, count: int) -> bytes:
        return self.generator.bytes(count)


class ZeroNoise:
    """Entropy whose every proposal is the origin, which is always accepted."""

    def __init__(self, cell_bits: int) -> None:
        self.cell_bits = cell_bits

    def read(self, count: int) -> bytes:
        words = np.zeros((3, count // 24), dtype="<u8")
        words[:2] = 1 << self.cell_bits  # ends the run of zeros at once
        return words.tobytes()


class LongRuns:
    """Entropy whose first proposal has two runs of more than 2^18 zeros, the second with a negative sign."""

    def __init__(self) -> None:
        self.zeros = 0

    def read(self, count: int) -> bytes:
        words = np.zeros(count // 8, dtype="<u8")
        if count > 8:
            words[:] = 1 << 44  # a short run for the other proposals of the block
            words[0], words[len(words) // 3] = 0, 1 << 63
            words[2 * len(words) // 3 :] = 2**64 - 1  # and a coin that rejects them
            self.zeros = 0
        else:
            self.zeros += 1
            words[0] = self.zeros % 5000 == 0
        return words.tobytes()


def test_calibration_is_exact_and_on_the_safe_side() -> None:
    mechanism = PlanarLaplace(epsilon="0.5", alpha="0.1", step="1/1000")
    assert SQRT2_ABOVE**2 > 2
    assert mechanism.exact_scale == (Fraction(1, 10) + SQRT2_ABOVE / 1000) / Fraction(1, 2)
    assert mechanism.rate == mechanism.step / mechanism.exact_scale
    assert (mechanism.epsilon, mechanism.alpha, mechanism.step) == (Fraction(1, 2), Fraction(1, 10), Fraction(1, 1000))
    assert mechanism.scale == pytest.approx(2 * (0.1 + math.sqrt(2) / 1000), rel=1e-11)


@settings(deadline=None)
@given(
    epsilon=parameters,
    alpha=parameters,
    steps=st.integers(1, 3000),
    load=st.complex_numbers(max_magnitude=100),
    radius=st.floats(0, 1),
    angle=st.floats(0, 2 * math.pi),
)
def test_adjacent_loads_are_indistinguishable(
    epsilon: Fraction, alpha: Fraction, steps: int, load: complex, radius: float, angle: float
) -> None:
    """The privacy loss of a displacement d is at most rate·|d|, whatever the output: it must not pass epsilon."""
    mechanism = PlanarLaplace(epsilon=epsilon, alpha=alpha, step=3 * alpha / steps)
    other = load + float(alpha) * radius * complex(math.cos(angle), math.sin(angle))
    gap = [Fraction(other.real) - Fraction(load.real), Fraction(other.imag) - Fraction(load.imag)]
    if sum(part**2 for part in gap) > alpha**2:
        return  # float rounding took the pair out of the adjacency
    index = mechanism.lattice_index(np.array([load, other]))
    displacement = [int(part) for part in index[1] - index[0]]
    assert mechanism.rate**2 * sum(part**2 for part in displacement) <= epsilon**2


@pytest.mark.parametrize("power", LATTICE_SUMS)
def test_lattice_sums_against_zeta_functions(power: int) -> None:
    from scipy.special import zeta

    half = power / 2
    beta = 4**-half * (zeta(half, 0.25) - zeta(half, 0.75))
    assert LATTICE_SUMS[power] == pytest.approx(4 * zeta(half) * beta, rel=1e-14)


def brute_force_second_moment(rate: float) -> float:
    """Row by row over one quadrant without an axis, four times, plus the centre: no symmetry of the code under test."""
    numerator, denominator = 0.0, 1.0
    reach = int(60 / rate)
    for row in range(1, reach):
        squares = row**2 + np.arange(0, reach) ** 2.0
        weights = np.exp(-rate * np.sqrt(squares))
        numerator += 4 * float((squares * weights).sum())
        denominator += 4 * float(weights.sum())
    return numerator / denominator


@pytest.mark.parametrize("rate", [0.02, 0.99 * SERIES_RATE, SERIES_RATE, 0.7, 5.0])
def test_second_moment_against_brute_force(rate: float) -> None:
    assert planar_second_moment(rate) == pytest.approx(brute_force_second_moment(rate), rel=1e-12)


def test_fine_lattice_has_the_moment_of_the_continuous_law() -> None:
    mechanism = PlanarLaplace(epsilon=1, alpha="0.1", step=suggested_step(epsilon=1, alpha="0.1"))
    assert mechanism.expected_square == pytest.approx(6 * mechanism.scale**2, rel=1e-10)
    assert mechanism.scale == pytest.approx(0.1, rel=1.5e-3)


def test_noise_is_added_to_the_index_of_each_load_and_nothing_else() -> None:
    mechanism = PlanarLaplace(epsilon=1, alpha="0.1", step="1/8192", entropy=ZeroNoise(cell_bits=10))
    assert not mechanism.is_private
    loads = np.array([0.3 - 0.2j, -7.125 + 0j, 0j])
    noisy = mechanism.add_noise(loads)
    assert noisy.index.tolist() == [[round(Fraction(x) * 8192) for x in (s.real, s.imag)] for s in loads.tolist()]
    assert noisy.index.dtype == np.int64
    assert np.array_equal(noisy.values, (noisy.index[:, 0] + 1j * noisy.index[:, 1]) / 8192)


def test_noise_beyond_the_integers_tells_nothing_of_the_load(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of 2^18 zeros, which chance will not give: the cut must come out the same for every load."""
    monkeypatch.setattr(exact_sampling, "coin_accepts", lambda **_: True)
    mechanism = PlanarLaplace(epsilon=1, alpha=2**43, step=1, entropy=LongRuns())
    for load in (0j, 1e15 - 1e15j, -4e15 + 4e15j):
        assert mechanism.add_noise(np.array([load])).index.tolist() == [[2**61, -(2**61)]]


def test_draws_have_the_stated_moments_and_independent_sites() -> None:
    mechanism = PlanarLaplace(epsilon=2, alpha="0.1", step="1/4000", entropy=SeededEntropy(3))
    loads = np.tile([1 + 2j, -3j], 100_000)
    noise = mechanism.add_noise(loads).values - loads
    spread = math.sqrt(mechanism.expected_square)
    # E|z|⁴ = 120·scale⁴, so |z|² has a standard deviation of √(120 - 36)/6 of its mean.
    assert (np.abs(noise) ** 2).mean() / spread**2 == pytest.approx(1, abs=5 * math.sqrt(84) / 6 / math.sqrt(200_000))
    for moment in (noise.mean(), (noise**2).mean() / spread, (noise[::2] * noise[1::2]).mean() / spread):
        assert abs(moment) < 5 * 2 * spread / math.sqrt(100_000)


def test_system_entropy_is_the_default_and_never_repeats() -> None:
    mechanism = PlanarLaplace(epsilon=1, alpha="0.1", step="1/16384")
    assert mechanism.is_private
    first, second = (mechanism.add_noise(np.zeros(1000, dtype=complex)).index for _ in range(2))
    assert (first == second).all(axis=1).mean() < 0.01


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"epsilon": 0}, "epsilon"),
        ({"alpha": "-1"}, "alpha"),
        ({"step": math.nan}, "step"),
        ({"step": "1e-20"}, "too fine"),
        ({"epsilon": 10**6, "step": 1}, "no noise"),
        ({"step": "1e200", "alpha": "1e200"}, "2\\^512"),
    ],
)
def test_unusable_parameters_are_refused(change: dict[str, object], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        PlanarLaplace(**({"epsilon": 1, "alpha": "0.1", "step": "1/1000"} | change))  # type: ignore[arg-type]


def test_loads_must_be_one_per_site() -> None:
    with pytest.raises(InputError, match="one per site"):
        PlanarLaplace(epsilon=1, alpha=1, step="1/1000").add_noise(np.zeros((2, 2), dtype=complex))


def test_no_loads_is_fine() -> None:
    noisy = PlanarLaplace(epsilon=1, alpha=1, step="1/1000").add_noise(np.zeros(0, dtype=complex))
    assert noisy.index.shape == (0, 2)
    assert noisy.values.shape == (0,)
