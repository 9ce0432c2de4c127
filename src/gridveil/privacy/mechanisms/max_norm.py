"""K-norm noise for profiles: probability ∝ exp(-rate·⌈largest block⌉), drawn exactly (docs/proofs/profile.md, section 3).

One integer radius is drawn for each participant; the noise of every block is then uniform over the lattice points of the
disc (or interval) of that radius.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gridveil.core.errors import InputError
from gridveil.privacy.mechanisms.decimal_bounds import Bounds, contexts, exp_bounds, log_bounds, quotient_bounds
from gridveil.privacy.mechanisms.exact_sampling import WORD_BITS, EntropySource, read_word
from gridveil.privacy.mechanisms.planar_laplace import SQRT2_ABOVE
from gridveil.privacy.mechanisms.profile import ProfileMechanism

PI_ABOVE = Fraction(355, 113)  # 3.14159292…
FIRST_DIGITS, MORE_DIGITS = 40, 30
# A lattice finer than this makes counting slow and the noise no smaller.
LARGEST_MODE = 2**22
FEWEST_STEPS = 64  # per α
LARGEST_RADIUS = 2**30
COLUMNS_AT_ONCE = 2**20


def points_within(radius: int, dimension: int) -> int:
    """Count the points of Z^dimension within a radius, in integers."""
    if dimension == 1:
        return 2 * radius + 1
    quarter = 0
    for start in range(1, radius + 1, COLUMNS_AT_ONCE):
        column = np.arange(start, min(start + COLUMNS_AT_ONCE, radius + 1), dtype=np.int64)
        square = radius * radius - column * column
        height = np.sqrt(square.astype(np.float64)).astype(np.int64)
        # A float root may be off by one: the integers decide.
        height -= height * height > square
        height += (height + 1) * (height + 1) <= square
        quarter += int(height.sum()) + len(column)
    return 4 * quarter + 1


@dataclass(frozen=True, kw_only=True)
class RadiusSampler:
    """Exact sampler of r = 0, 1, … with probability ∝ exp(-rate·r)·points_within(r)^blocks."""

    rate: Fraction
    blocks: int
    dimension: int

    @cached_property
    def mode(self) -> int:
        """About the likeliest radius: proposals are centred here."""
        return max(0, math.floor(self.blocks * self.dimension / self.rate - self._margin))

    @property
    def _margin(self) -> Fraction:
        """points_within(r) ≤ unit·(r + margin)^dimension, as unit cells around the points lie within that radius."""
        return SQRT2_ABOVE / 2 if self.dimension == 2 else Fraction(1, 2)

    @property
    def _unit(self) -> Fraction:
        return PI_ABOVE if self.dimension == 2 else Fraction(2)

    @cached_property
    def top(self) -> Decimal:
        """A number not below the log weight of any radius: the largest value of its concave bound."""
        best = max(self.blocks * self.dimension / self.rate - self._margin, Fraction(0))
        return self._log_weight(lambda digits: self._log_above(best, digits), best, FIRST_DIGITS)[1]

    @cached_property
    def cell_bits(self) -> int:
        """Smallest b for which the bound halves within 2^b steps from the mode on both sides; convexity does the rest."""
        wide = math.sqrt(self.blocks * self.dimension) / float(self.rate)
        bits = max(0, math.floor(math.log2(max(wide, 1.0))))
        while not all(self._halves(self.mode + side * 2**bits) for side in (-1, 1)):
            bits += 1
        return bits

    def draw(self, entropy: EntropySource) -> int:
        """Draw one radius."""
        while True:
            radius, run = self._propose(entropy)
            if radius >= 0 and self._accepts(radius, run, entropy):
                return radius

    def _propose(self, entropy: EntropySource) -> tuple[int, int]:
        """A radius whose probability halves every 2^cell_bits steps from the mode, and how often it has halved."""
        run = 0
        while (word := read_word(entropy)) == 0:
            run += WORD_BITS
        run += (word & -word).bit_length() - 1
        place = 0
        for _ in range(self.cell_bits // WORD_BITS + 1):
            place = place << WORD_BITS | read_word(entropy)
        # One bit more than the cell needs: the sign, so that every integer has exactly one code.
        above, distance = place >> self.cell_bits & 1, (run << self.cell_bits) + (place & (1 << self.cell_bits) - 1)
        return (self.mode + distance if above else self.mode - 1 - distance), run

    def _accepts(self, radius: int, run: int, entropy: EntropySource) -> bool:
        """Decide W < 2^run·weight(radius)/e^top exactly, for a uniform W of as many bits as it takes."""
        coin, length, digits = read_word(entropy), WORD_BITS, FIRST_DIGITS
        above: Callable[[int], Bounds] = lambda digits: self._log_above(Fraction(radius), digits)  # noqa: E731
        if Fraction(coin, 2**length) >= Fraction(self._chance(above, radius, run, digits)[1]):
            return False  # by the bound alone, without counting
        count = Fraction(points_within(radius, self.dimension))
        while True:
            low, high = self._chance(lambda digits: log_bounds(count, digits), radius, run, digits)
            if Fraction(coin + 1, 2**length) <= Fraction(low):
                return True
            if Fraction(coin, 2**length) >= Fraction(high):
                return False
            coin, length, digits = coin << WORD_BITS | read_word(entropy), length + WORD_BITS, digits + MORE_DIGITS

    def _chance(self, log_count: Callable[[int], Bounds], radius: int, run: int, digits: int) -> Bounds:
        """Enclose 2^run·exp(log weight - top)."""
        down, up = contexts(digits)
        weight, half = self._log_weight(log_count, Fraction(radius), digits), log_bounds(Fraction(2), digits)
        low = down.add(down.subtract(weight[0], self.top), down.multiply(Decimal(run), half[0]))
        high = up.add(up.subtract(weight[1], self.top), up.multiply(Decimal(run), half[1]))
        return exp_bounds((low, high), digits)

    def _log_weight(self, log_count: Callable[[int], Bounds], radius: Fraction, digits: int) -> Bounds:
        """Enclose blocks·log_count - rate·radius."""
        down, up = contexts(digits)
        count, decay, blocks = log_count(digits), quotient_bounds(self.rate * radius, digits), Decimal(self.blocks)
        return (
            down.subtract(down.multiply(blocks, count[0]), decay[1]),
            up.subtract(up.multiply(blocks, count[1]), decay[0]),
        )

    def _log_above(self, radius: Fraction, digits: int) -> Bounds:
        """Enclose the log of the bound unit·(radius + margin)^dimension on the number of points."""
        return log_bounds(self._unit * (radius + self._margin) ** self.dimension, digits)

    def _halves(self, radius: int) -> bool:
        """Whether the bound on the weight is at the mode at least twice what it is here (radii below zero have none)."""
        if radius < 0:
            return True
        at_mode, here = (
            self._log_weight(lambda digits, at=at: self._log_above(at, digits), at, FIRST_DIGITS)  # type: ignore[misc]
            for at in (Fraction(self.mode), Fraction(radius))
        )
        return at_mode[0] - here[1] >= log_bounds(Fraction(2), FIRST_DIGITS)[1]


def uniform_points(radius: int, count: int, dimension: int, entropy: EntropySource) -> NDArray[np.int64]:
    """Draw independent uniform points of Z^dimension within a radius below 2^30, by rejection: shape (count, dimension)."""
    bits = (2 * radius).bit_length()
    mask, found, missing = np.uint64((1 << bits) - 1), [np.empty((0, dimension), dtype=np.int64)], count
    while missing > 0:
        words = np.frombuffer(entropy.read(8 * (4 * missing + 16)), dtype="<u8")
        halves = [words >> np.uint64(32 * part) & mask for part in range(dimension)]
        point = np.stack(halves, axis=1).astype(np.int64) - radius
        inside = (point <= radius).all(axis=1)
        inside &= (point.astype(np.int64) ** 2).sum(axis=1) <= radius * radius
        found.append(point[inside][:missing])
        missing -= len(found[-1])
    return np.concatenate(found)


def refuse_wide(sampler: RadiusSampler) -> None:
    """Refuse noise whose radius could come near 2^30."""
    if sampler.mode > LARGEST_RADIUS // 4:
        raise InputError("epsilon is too small for so many blocks: choose a larger epsilon, or a basis of fewer blocks")


def k_norm_noise(sampler: RadiusSampler, count: int, entropy: EntropySource) -> NDArray[np.int64]:
    """Noise with probability ∝ exp(-rate·⌈largest block⌉) for ``count`` participants: shape (blocks, count, dimension)."""
    found = np.empty((sampler.blocks, count, sampler.dimension), dtype=np.int64)
    for participant in range(count):
        radius = sampler.draw(entropy)
        if radius >= LARGEST_RADIUS:
            raise RuntimeError("a radius beyond 2^30 was drawn, which happens less than once in e^1000 draws")
        found[:, participant] = uniform_points(radius, sampler.blocks, sampler.dimension, entropy)
    return found


def k_norm_square(sampler: RadiusSampler, step: Fraction) -> float:
    """E|z|² of one block: a uniform point at a gamma radius, the continuous law, within a step of the lattice one."""
    order, scale = sampler.blocks * sampler.dimension + 1, float(step / sampler.rate)
    return sampler.dimension / (sampler.dimension + 2) * order * (order + 1) * scale**2


class MaxNorm(ProfileMechanism):
    """Noise with probability ∝ exp(-rate·⌈max_b |z_b|₂⌉) over all blocks b of one participant together."""

    name: ClassVar[str] = "K-norm, largest block"

    def __init__(self, **parameters: Any) -> None:
        super().__init__(**parameters)
        while self.alpha / self.step > 2 * FEWEST_STEPS and self._radius_sampler.mode > LARGEST_MODE:
            self.step *= 2
        self._sampler = self._radius_sampler
        refuse_wide(self._sampler)

    @property
    def _radius_sampler(self) -> RadiusSampler:
        # One step more than the profiles can move: the radius is rounded up.
        return RadiusSampler(rate=self.epsilon / (self.reach + 1), blocks=self.basis.blocks, dimension=self.dimension)

    @property
    def rounding(self) -> Fraction:
        """What rounding the profiles and the radius adds to every distance."""
        return (self.cell_diameter + 1) * self.step

    @property
    def expected_square(self) -> float:
        """E|z|² of the noise on the mean of one block."""
        return k_norm_square(self._sampler, self.step)

    def noise(self, count: int) -> NDArray[np.int64]:
        """One radius for each participant, and a uniform point within it for every block."""
        return k_norm_noise(self._sampler, count, self.entropy)
