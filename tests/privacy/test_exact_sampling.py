"""The exact arithmetic against the decimal module, fractions and hand-made entropy."""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridveil.core.errors import InputError
from gridveil.privacy.mechanisms import exact_sampling
from gridveil.privacy.mechanisms.exact_sampling import (
    COARSEST_RATE,
    FINEST_RATE,
    LOG_2,
    RadialLaplaceSampler,
    approximate_acceptance,
    coin_accepts,
    exp_minus_root_bounds,
    nearest_index,
    positive_fraction,
    suggested_step,
)

DIGITS = Context(prec=120)


class ScriptedEntropy:
    """Gives the prepared 64-bit words, then the filler word for ever."""

    def __init__(self, words: list[int], filler: int = 0) -> None:
        self.words, self.filler, self.used = list(words), filler, 0

    def read(self, count: int) -> bytes:
        assert count % 8 == 0
        taken = [self.words.pop(0) if self.words else self.filler for _ in range(count // 8)]
        self.used += len(taken)
        return b"".join(word.to_bytes(8, "little") for word in taken)


class SeededEntropy:
    """Reproducible bytes, for simulations."""

    def __init__(self, seed: int) -> None:
        self.generator = np.random.default_rng(seed)

    def read(self, count: int) -> bytes:
        return self.generator.bytes(count)


def exact_exp_minus_root(square: Fraction) -> Fraction:
    """exp(-√square) to 100 digits, by an implementation that is not ours."""
    quotient = DIGITS.divide(Decimal(square.numerator), Decimal(square.denominator))
    return Fraction(DIGITS.exp(DIGITS.minus(DIGITS.sqrt(quotient))))


rates = st.builds(Fraction, st.integers(1, 10**6), st.integers(1, 10**9)).filter(lambda r: FINEST_RATE <= r <= 1000)


@settings(deadline=None)
@given(square=st.fractions(min_value=0, max_value=10**4, max_denominator=10**9), bits=st.integers(4, 200))
def test_exp_bounds_enclose_the_truth_and_are_tight(square: Fraction, bits: int) -> None:
    low, high = exp_minus_root_bounds(square, bits)
    truth = exact_exp_minus_root(square) * 2**bits
    slack = Fraction(1, 10**40)  # the decimal value has its own last digit
    assert low <= truth + slack
    assert truth - slack <= high
    assert high - low <= 4


def test_float_logarithm_of_two_is_certified() -> None:
    half = 1 << 199
    assert exp_minus_root_bounds((Fraction(LOG_2) + Fraction(1, 2**53)) ** 2, 200)[1] < half
    assert exp_minus_root_bounds((Fraction(LOG_2) - Fraction(1, 2**53)) ** 2, 200)[0] > half


@settings(max_examples=60, deadline=None)
@given(rate=rates, dimension=st.sampled_from([1, 2]), seed=st.integers(0, 2**32))
def test_float_filter_keeps_its_proven_error(rate: Fraction, dimension: int, seed: int) -> None:
    sampler = RadialLaplaceSampler(rate=rate, dimension=dimension)
    generator = np.random.default_rng(seed)
    words = generator.integers(0, 2**64, size=(dimension, 20), dtype=np.uint64, endpoint=False)
    # Clearing the run bits of some words gives the long runs that chance would hide.
    cleared = generator.integers(sampler.cell_bits, 63, size=20).astype(np.uint64)
    words[0] &= ~((np.uint64(1) << cleared) - np.uint64(1 << sampler.cell_bits))
    offsets, runs = sampler._decode(words)
    likely = approximate_acceptance(float(rate), offsets.astype(float), runs.sum(axis=0, dtype=float))
    for item, value in enumerate(likely):
        square = rate**2 * sum(int(component) ** 2 for component in offsets[:, item])
        doublings = int(runs[:, item].sum())
        low, high = (Fraction(bound, 2 ** (300 - doublings)) for bound in exp_minus_root_bounds(square, 300))
        assert high <= 1, "the proposal must lie above the law"
        assert low - Fraction(1, 2**41) <= Fraction(float(value)) <= high + Fraction(1, 2**41)


@settings(deadline=None)
@given(square=st.fractions(min_value="1/1000", max_value=100, max_denominator=10**6), doublings=st.integers(0, 3))
def test_coin_is_decided_by_the_first_bit_that_differs(square: Fraction, doublings: int) -> None:
    probability = exact_exp_minus_root(square) * 2**doublings
    if probability >= 1:
        return
    digits = math.floor(probability * 2**192)  # W agrees with the probability in 192 bits, up to one unit
    for last_unit, expected in ((-1, True), (1, False)):
        bits = digits + last_unit
        words = [bits >> 64 & 2**64 - 1, bits & 2**64 - 1]
        entropy = ScriptedEntropy(words, filler=2**63)
        assert coin_accepts(square=square, doublings=doublings, coin=bits >> 128, entropy=entropy) is expected
        assert entropy.used >= 1, "64 bits cannot decide this"


@pytest.mark.parametrize("rate", [Fraction(1), Fraction(1, 3)])
def test_every_integer_has_one_code_of_the_right_probability(rate: Fraction) -> None:
    sampler = RadialLaplaceSampler(rate=rate, dimension=1)
    bits, run_bits = sampler.cell_bits, 6
    codes = np.arange(2 ** (bits + run_bits), dtype=np.uint64)
    ended = codes | np.uint64(1) << np.uint64(bits + run_bits)
    offsets, _ = sampler._decode(np.concatenate([ended, ended | np.uint64(2**63)])[None, :])
    found, counts = np.unique(offsets, return_counts=True)
    magnitudes = np.where(found < 0, -1 - found, found)
    assert np.array_equal(found, np.arange(found[0], -found[0]))
    inside = magnitudes >> bits < run_bits
    assert np.array_equal(counts[inside], 2 ** (run_bits - 1 - (magnitudes[inside] >> bits)))


@pytest.mark.parametrize("offset", [(0, 0), (1, 0), (-1, 3), (5, -7), (-20, 11), (0, -33)])
@pytest.mark.parametrize("distance", [2, 2**20, 2**40])
def test_acceptance_threshold_of_a_proposal(offset: tuple[int, int], distance: int) -> None:
    """A proposal is accepted exactly when its coin lies below the ratio of the law to the proposal."""
    rate = Fraction(2, 9)
    sampler = RadialLaplaceSampler(rate=rate, dimension=2)
    assert sampler.cell_bits == 3
    words, probability = [], exact_exp_minus_root(rate**2 * (offset[0] ** 2 + offset[1] ** 2))
    for component in offset:
        magnitude = component if component >= 0 else -1 - component
        words.append((component < 0) << 63 | 1 << (3 + magnitude // 8) | magnitude % 8)
        probability *= 2 ** (magnitude // 8)
    threshold = math.floor(probability * 2**64)
    coins = [threshold - distance] + ([threshold + distance] if threshold + distance < 2**64 else [])
    proposals = len(coins)
    entropy = ScriptedEntropy([word for word in words for _ in range(proposals)] + coins)
    assert sampler._draw_block(proposals, entropy).tolist() == [list(offset)]


def test_a_run_that_fills_its_word_goes_on_in_the_next() -> None:
    sampler = RadialLaplaceSampler(rate=Fraction(1, 16), dimension=1)
    full_run = 63 - sampler.cell_bits
    entropy = ScriptedEntropy([2**63 | 5, 0, 0, 1 << 9])  # the proposal and its coin, then 64 and 9 more zeros
    block = sampler._draw_block(1, entropy)
    assert block.tolist() == [[-1 - (16 * (full_run + 64 + 9) + 5)]]


@pytest.mark.parametrize("rate", [FINEST_RATE, Fraction(1, 1000), Fraction(1, 7), Fraction(3, 2), COARSEST_RATE])
@pytest.mark.parametrize("dimension", [1, 2])
def test_fast_path_and_exact_path_draw_the_same(
    rate: Fraction, dimension: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sampler = RadialLaplaceSampler(rate=rate, dimension=dimension)
    fast = sampler.draw(300, SeededEntropy(7))
    monkeypatch.setattr(exact_sampling, "FILTER_MARGIN", 2.0)  # now the float filter decides nothing
    assert np.array_equal(fast, sampler.draw(300, SeededEntropy(7)))


def test_rounding_is_exact_even_beside_a_half() -> None:
    """Values within two floats of a half: there a rounded quotient falls on the wrong side about once in ten."""
    generator = np.random.default_rng(1)
    wrong = 0
    for _ in range(100):
        step = Fraction(int(generator.integers(1, 10**6)), int(generator.integers(1, 10**9)))
        halves = [Fraction(2 * int(k) + 1, 2) for k in generator.integers(-(10**9), 10**9, size=20)]
        values = np.array([float(half * step) for half in halves])
        values = values + generator.integers(-2, 3, size=20) * np.spacing(values)
        truth = [round(Fraction(value) / step) for value in values.tolist()]
        assert nearest_index(values, step).tolist() == truth
        wrong += int((np.rint(values / float(step)) != truth).sum())
    assert wrong > 20, "the values were not near enough to a half to test anything"


@settings(deadline=None)
@given(value=st.floats(-1e6, 1e6), step=st.fractions(min_value="1/100000", max_value=10, max_denominator=10**6))
def test_rounding_is_exact_anywhere(value: float, step: Fraction) -> None:
    assert nearest_index(np.array([value, 0.0]), step).tolist() == [round(Fraction(value) / step), 0]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_rounding_refuses_what_is_no_number(bad: float) -> None:
    with pytest.raises(InputError, match="not a finite number"):
        nearest_index(np.array([1.2345, bad]), Fraction(1, 1000))


@settings(deadline=None)
@given(
    value=st.floats(allow_nan=False, allow_infinity=False),
    other=st.floats(allow_nan=False, allow_infinity=False),
    step=st.fractions(min_value="1/100000", max_value=10, max_denominator=10**6),
)
def test_rounding_clamps_values_out_of_range_and_never_moves_two_apart(
    value: float, other: float, step: Fraction
) -> None:
    """A refusal would depend on the truth; clamping is the nearest index in range, so no distance grows."""
    largest = exact_sampling.LARGEST_INPUT_INDEX
    index = nearest_index(np.array([value, other]), step).tolist()
    exact = [round(Fraction(x) / step) for x in (value, other)]
    assert index == [max(-largest, min(k, largest)) for k in exact]
    assert abs(index[0] - index[1]) <= abs(exact[0] - exact[1])


@pytest.mark.parametrize(
    "bad", [0, -1, "-0.1", "0", "1/0", "one", "", "1e999999999", math.nan, math.inf, None, 1j, "１"]
)
def test_parameters_must_be_positive_numbers(bad: object) -> None:
    with pytest.raises(InputError, match="alpha must be"):
        positive_fraction(bad, "alpha")  # type: ignore[arg-type]


def test_parameters_are_exact() -> None:
    assert positive_fraction("0.1", "alpha") == Fraction(1, 10)
    assert positive_fraction(0.1, "alpha") == Fraction(0.1) != Fraction(1, 10)
    assert positive_fraction("1/3", "alpha") == Fraction(1, 3)
    assert positive_fraction(np.int64(2**40), "alpha") ** 3 == 2**120  # type: ignore[arg-type]


@settings(deadline=None)
@given(
    epsilon=st.fractions(min_value="1/1000", max_value=100, max_denominator=10**6),
    alpha=st.fractions(min_value="1/10000", max_value=1000, max_denominator=10**6),
)
def test_suggested_step_is_the_largest_fine_power_of_two(epsilon: Fraction, alpha: Fraction) -> None:
    step = suggested_step(epsilon=epsilon, alpha=alpha)
    limit = min(alpha, alpha / epsilon) / 1000
    assert step <= limit < 2 * step
    assert step.numerator & (step.numerator - 1) == 0 == step.denominator & (step.denominator - 1)
