"""Exact arithmetic under the noise mechanisms: entropy, certified comparisons, lattice noise and lattice rounding.

``LatticeRejection`` draws lattice vectors exactly: floats decide what they provably can, integer arithmetic decides the
rest. ``RadialLaplaceSampler`` is the law ∝ exp(-rate·|k|₂) on Z^d (d = 1 or 2). The argument is in
docs/proofs/planar-laplace.md, whose section numbers the comments below quote.
"""

from __future__ import annotations

import math
import os
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from numbers import Integral
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gridveil.core.errors import InputError

ExactNumber = str | Fraction | int | float

# A limit on digits and exponents keeps a text such as 1e999999999 from filling the memory.
NUMBER_TEXT = re.compile(r"\d{1,99}(\.\d{0,99})?([eE][+-]?\d{1,3})?|\d{1,99}/\d{1,99}", re.ASCII)
WORD_BITS = 64
# Bounds of the rate (noise decay per lattice step): 2^-44 keeps every index of the fast path below 2^53 (section 4).
FINEST_RATE = Fraction(1, 2**44)
COARSEST_RATE = Fraction(2**10)
# Float acceptance probabilities are within 2^-41 of the truth (section 4); the margin leaves a factor 16.
FILTER_MARGIN = 2.0**-37
# Noise is cut at 2^62 and a noisy index at 2^61: with true indices up to 2^52, the cut of the sum hides the cut of the
# noise, so nothing overflows and the cut is mere post-processing (section 6).
LARGEST_INPUT_INDEX = 2**52
LARGEST_OUTPUT_INDEX = 2**61
LARGEST_NOISE = 2**62
# Guard bits of the integer comparison: more bits decide sooner, they are not needed for correctness.
GUARD_BITS = 16
PROPOSALS_PER_BLOCK = 2**15
LOG_2 = 0.6931471805599453  # within 2^-53 of ln 2, which a test certifies
TAYLOR_TERMS = 15
EXP_SQUARINGS = 7


class EntropySource(Protocol):
    """A source of independent uniform bytes."""

    def read(self, count: int) -> bytes:
        """Return ``count`` fresh bytes."""
        ...


class SystemEntropy:
    """The operating system's cryptographic random bytes: the only source whose draws are private."""

    def read(self, count: int) -> bytes:
        """Return ``count`` fresh bytes from the operating system."""
        return os.urandom(count)


SYSTEM_ENTROPY = SystemEntropy()


class SeededEntropy:
    """Bytes that a seed determines: for simulations, which protect nobody."""

    def __init__(self, *seed: int) -> None:
        self._generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed)))

    def read(self, count: int) -> bytes:
        """Read the next ``count`` bytes of the stream."""
        return self._generator.bytes(count)


def exp_minus_root_bounds(square: Fraction, bits: int) -> tuple[int, int]:
    """Compute integers (low, high) with low ≤ 2^bits·exp(-√square) ≤ high."""
    root = math.isqrt((square.numerator << 2 * bits) // square.denominator)
    return _exp_minus_bounds(root + 1, bits)[0], _exp_minus_bounds(root, bits)[1]


def _exp_minus_bounds(argument: int, bits: int) -> tuple[int, int]:
    """Compute integers (low, high) with low ≤ 2^bits·exp(-argument/2^bits) ≤ high, by directed rounding throughout."""
    if argument >= bits << bits:
        return 0, 1  # exp(-bits) < 2^-bits
    halvings = (argument >> bits).bit_length() + 1
    working = bits + halvings + 8
    reduced = argument << 8  # exactly argument/2^(bits + halvings) ≤ 1/2, in units of 2^-working
    low = high = term_low = term_high = 1 << working
    order = 0
    while term_high > 1:
        order += 1
        term_low = (term_low * reduced >> working) // order
        term_high = -((-term_high * reduced >> working) // order)
        if order % 2:
            low, high = low - term_high, high - term_low
        else:
            low, high = low + term_low, high + term_high
    # The rest of an alternating series with falling terms is at most its first term, here at most one unit.
    low, high = low - 1, high + 1
    for _ in range(halvings):
        low, high = low * low >> working, -(-high * high >> working)
    return low >> (working - bits), min(-(-high >> (working - bits)), 1 << bits)


def coin_accepts(*, square: Fraction, doublings: int, coin: int, entropy: EntropySource) -> bool:
    """Decide W < 2^doublings·exp(-√square) exactly, for a uniform W in (0, 1) whose first 64 bits are ``coin``.

    Further bits of W are drawn only while the interval of W and the interval of the probability overlap.
    """
    length = WORD_BITS
    while True:
        low, high = exp_minus_root_bounds(square, length + doublings + GUARD_BITS)
        if coin + 1 << GUARD_BITS <= low:
            return True
        if coin << GUARD_BITS >= high:
            return False
        coin = coin << WORD_BITS | read_word(entropy)
        length += WORD_BITS


def approximate_acceptance(
    rate: float, offsets: NDArray[np.float64], doublings: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Compute 2^doublings·exp(-rate·|offset|₂) within 2^-41, from correctly rounded float operations only (section 4).

    ``offsets`` has shape (d, n), ``doublings`` shape (n,); |offset| < 2^53 and doublings ≤ 126.
    """
    decay = np.minimum(rate * np.sqrt((offsets * offsets).sum(axis=0)), 256.0)
    # The library's exp has no proven error, so exp is a Taylor polynomial at x/2^7 followed by seven squarings.
    reduced = np.clip(decay - doublings * LOG_2, 0.0, 64.0) * 2.0**-EXP_SQUARINGS
    value: NDArray[np.float64] = np.ones_like(reduced)
    for order in range(TAYLOR_TERMS, 0, -1):
        value *= reduced / order
        np.subtract(1.0, value, out=value)
    for _ in range(EXP_SQUARINGS):
        value *= value
    return value


@dataclass(frozen=True, kw_only=True)
class LatticeRejection(ABC):
    """Exact rejection sampler on Z^dimension: proposals from runs of fair bits, one coin each (section 3).

    A law enters by ``cell_bits``, by the float acceptance within 2^-41 and by its exact exponent.
    """

    dimension: int

    @property
    @abstractmethod
    def cell_bits(self) -> int:
        """b: proposals halve every 2^b lattice steps, and the law falls at least as fast."""

    @abstractmethod
    def _likely(self, offsets: NDArray[np.float64], doublings: NDArray[np.float64]) -> NDArray[np.float64]:
        """Acceptance of proposals, shape (n,), within 2^-41, for offsets of shape (dimension, n)."""

    @abstractmethod
    def _squared_exponent(self, offset: list[int]) -> Fraction:
        """Find s such that the offset has probability ∝ exp(-√s), exactly."""

    def draw(self, count: int, entropy: EntropySource) -> NDArray[np.int64]:
        """Draw ``count`` independent lattice vectors, components cut at ±2^62: int64, shape (count, dimension)."""
        accepted = [np.empty((0, self.dimension), dtype=np.int64)]
        missing = count
        while missing > 0:
            accepted.append(self._draw_block(min(PROPOSALS_PER_BLOCK, 4 * missing + 64), entropy)[:missing])
            missing -= len(accepted[-1])
        return np.concatenate(accepted)

    def _draw_block(self, proposals: int, entropy: EntropySource) -> NDArray[np.int64]:
        """Draw proposals from fresh entropy and return the accepted ones, shape (≤ proposals, dimension)."""
        raw = entropy.read(8 * (self.dimension + 1) * proposals)
        words = np.frombuffer(raw, dtype="<u8").reshape(self.dimension + 1, proposals)
        offsets, runs = self._decode(words[:-1])
        coins = words[-1]
        doublings = runs.sum(axis=0, dtype=np.float64)
        likely = self._likely(offsets.astype(np.float64), doublings)
        gap = likely - (coins >> np.uint64(11)) * 2.0**-53
        accepted = gap > 0.0
        undecided = (np.abs(gap) <= FILTER_MARGIN) | (runs == self._longest_short_run).any(axis=0)
        for item in np.flatnonzero(undecided):
            offset, accepted[item] = self._resolve(
                [int(word) for word in words[:-1, item]], [int(run) for run in runs[:, item]], int(coins[item]), entropy
            )
            offsets[:, item] = [max(-LARGEST_NOISE, min(component, LARGEST_NOISE)) for component in offset]
        return offsets[:, accepted].T

    @property
    def _longest_short_run(self) -> int:
        return WORD_BITS - 1 - self.cell_bits

    def _decode(self, words: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """Return the proposed offsets and the lengths of their runs of zeros, each of the shape of ``words``.

        From low to high bits a word holds the place in the cell, the run of zeros that counts the cells, and the sign.
        """
        bits, one = np.uint64(self.cell_bits), np.uint64(1)
        sentinel = one << np.uint64(self._longest_short_run)
        zeros = (words & ~(one << np.uint64(WORD_BITS - 1))) >> bits | sentinel
        runs = np.bitwise_count(~zeros & (zeros - one))
        magnitudes = (runs.astype(np.uint64) << bits | words & (one << bits) - one).astype(np.int64)
        signs = (words >> np.uint64(WORD_BITS - 1)).astype(np.int64)
        return magnitudes ^ -signs, runs  # a sign of one turns m into -1 - m, so every integer has one code

    def _resolve(self, words: list[int], runs: list[int], coin: int, entropy: EntropySource) -> tuple[list[int], bool]:
        """Finish one proposal in integers: lengthen runs that filled their word, then flip the coin exactly."""
        full_runs = [self._lengthen(run, entropy) if run == self._longest_short_run else run for run in runs]
        offset = []
        for word, run in zip(words, full_runs, strict=True):
            magnitude = run << self.cell_bits | word & (1 << self.cell_bits) - 1
            offset.append(-1 - magnitude if word >> WORD_BITS - 1 else magnitude)
        square = self._squared_exponent(offset)
        return offset, coin_accepts(square=square, doublings=sum(full_runs), coin=coin, entropy=entropy)

    def _lengthen(self, run: int, entropy: EntropySource) -> int:
        while (word := read_word(entropy)) == 0:
            run += WORD_BITS
        return run + (word & -word).bit_length() - 1


@dataclass(frozen=True, kw_only=True)
class RadialLaplaceSampler(LatticeRejection):
    """Exact sampler of k in Z^dimension with probability proportional to exp(-rate·|k|₂)."""

    rate: Fraction

    @property
    def cell_bits(self) -> int:
        """Smallest b with rate·2^b ≥ 1 (section 3)."""
        return (math.ceil(1 / self.rate) - 1).bit_length()

    def _likely(self, offsets: NDArray[np.float64], doublings: NDArray[np.float64]) -> NDArray[np.float64]:
        return approximate_acceptance(float(self.rate), offsets, doublings)

    def _squared_exponent(self, offset: list[int]) -> Fraction:
        return self.rate**2 * sum(component**2 for component in offset)


def read_word(entropy: EntropySource) -> int:
    """Read 64 fresh bits."""
    return int.from_bytes(entropy.read(WORD_BITS // 8), "little")


def positive_fraction(value: ExactNumber, name: str) -> Fraction:
    """Convert a public parameter to the exact rational it denotes; refuse what is not a positive number."""
    try:
        if isinstance(value, str) and not NUMBER_TEXT.fullmatch(value):
            raise ValueError
        # numpy integers would otherwise stay inside the Fraction and overflow.
        number = Fraction(int(value)) if isinstance(value, Integral) else Fraction(value)
    except (ValueError, TypeError, OverflowError, ZeroDivisionError):
        raise InputError(f"{name} must be a positive number such as 0.1 or 1/3, not {value!r}") from None
    if number <= 0:
        raise InputError(f"{name} must be positive, not {value!r}")
    return number


def nearest_index(values: NDArray[np.float64], step: Fraction) -> NDArray[np.int64]:
    """Round each value/step to the nearest integer (ties to even), exactly: int64, the shape of ``values``.

    Values beyond 2^52 steps are clamped there: clamping never increases the distance between two values, and a failure
    that depends on the truth would tell something about it.
    """
    if not np.all(np.isfinite(values)):
        raise InputError("a value is not a finite number: mend the input")
    with np.errstate(over="ignore"):
        quotients = np.clip(values / float(step), -float(LARGEST_INPUT_INDEX), float(LARGEST_INPUT_INDEX))
    nearest = np.rint(quotients)
    # The quotient is within |quotient|·2^-51 of the truth, so only values this near a half need exact rounding.
    doubtful = np.abs(np.abs(quotients - nearest) - 0.5) <= np.abs(quotients) * 2.0**-50
    index = nearest.astype(np.int64)
    index[doubtful & (np.abs(quotients) < LARGEST_INPUT_INDEX)] = [
        round(Fraction(value) / step) for value in values[doubtful & (np.abs(quotients) < LARGEST_INPUT_INDEX)].tolist()
    ]
    return index


def suggested_step(*, epsilon: ExactNumber, alpha: ExactNumber) -> Fraction:
    """Choose a lattice step from public parameters: the largest power of two ≤ min(alpha, alpha/epsilon)/1000.

    Rounding then adds less than 0.15 % to the noise scale, and lattice points are floats without rounding error.
    """
    limit = positive_fraction(alpha, "alpha") / max(Fraction(1), positive_fraction(epsilon, "epsilon")) / 1000
    exponent = limit.numerator.bit_length() - limit.denominator.bit_length()
    power = Fraction(2) ** exponent
    return power if power <= limit else power / 2
