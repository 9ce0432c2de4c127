"""Audit of a noise mechanism: exact probability ratios of its law, and a goodness-of-fit test of its draws.

The two belong together. ``audit_ratios`` proves that the *stated* law is private; ``goodness_of_fit`` tests that what is
*drawn* follows the stated law. Both see the mechanism from outside, so broken ones can be audited as well.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridveil.core.errors import InputError
from gridveil.privacy.mechanisms.lattice import LatticeMechanism

WINDOW_RADIUS = 4
LONGEST_REACH = 10**6
# Lattice points are summed in odd blocks of at most 1/64 of the scale: the law of blocks is then radial up to an error
# that adds less than 0.03 to the chi-square of a million draws (docs/proofs/planar-laplace.md, section 8).
BLOCK_RATE = Fraction(1, 64)
BIN_EDGES_IN_SCALES = np.array([0.2, 0.5, 0.9, 1.4, 2.0, 2.8, 4.0, 6.0])
# Beyond 25 scales lies less than 1e-9 of the probability.
SUMMED_SCALES = 25
FEWEST_EXPECTED = 10.0
ROWS_AT_ONCE = 256

Draws = Callable[[NDArray[Any]], NDArray[Any]]


@dataclass(frozen=True, kw_only=True)
class RatioAudit:
    """Largest log probability ratio of a stated law over all adjacent inputs, against epsilon.

    ``exceeding`` counts the pairs (output in the window, displacement) above epsilon, decided in exact arithmetic;
    ``largest_log_ratio`` is their maximum as a float. ``largest_displacement`` is in lattice steps. ``radial``: every
    probability seen equals exp(-rate·|k|) up to the common factor; then ``bound_outside`` = rate·largest displacement
    holds for every output by the triangle inequality, and ``bound_holds`` says (exactly) that it is at most epsilon.
    """

    epsilon: float
    displacements: int
    pairs: int
    exceeding: int
    largest_log_ratio: float
    largest_displacement: float
    bound_outside: float
    bound_holds: bool
    radial: bool

    @property
    def passed(self) -> bool:
        """Whether the stated law is proved to be private."""
        return self.exceeding == 0 and self.radial and self.bound_holds


@dataclass(frozen=True, kw_only=True)
class ChiSquare:
    """Pearson's chi-square of one binning."""

    binning: str
    statistic: float
    dof: int
    p_value: float


@dataclass(frozen=True, kw_only=True)
class GoodnessOfFit:
    """Draws against the stated law. A draw off the lattice has probability zero, so there the tests are not even run."""

    draws: int
    off_lattice: int
    tests: tuple[ChiSquare, ...]

    @property
    def p_value(self) -> float:
        """Probability of so bad a fit if the sampler is right: zero off the lattice, else Bonferroni over the tests."""
        if self.off_lattice:
            return 0.0
        return min(1.0, len(self.tests) * min(test.p_value for test in self.tests))


def audit_ratios(mechanism: LatticeMechanism) -> RatioAudit:
    """Check exactly that outputs are at most e^epsilon times likelier under any input within alpha than under another.

    Rounding takes inputs within alpha to lattice points whose cells are within alpha of each other. The ratio grows
    with the convex distance from the displaced input, so the extreme points of that set of displacements suffice.
    """
    displacements = extreme_displacements(mechanism.alpha / mechanism.step, mechanism.dimension)
    window = itertools.product(range(-WINDOW_RADIUS, WINDOW_RADIUS + 1), repeat=mechanism.dimension)
    pairs = exceeding = 0
    largest = -math.inf
    radial = True
    for point, displacement in itertools.product(window, displacements):
        displaced = tuple(here - there for here, there in zip(point, displacement, strict=True))
        near, far = mechanism.squared_exponent(point), mechanism.squared_exponent(displaced)
        radial = radial and near == _radial_square(mechanism, point) and far == _radial_square(mechanism, displaced)
        pairs += 1
        if near is None:
            continue  # an output that this input cannot give has no ratio
        largest = max(largest, math.inf if far is None else math.sqrt(far) - math.sqrt(near))
        exceeding += far is None or _exceeds(far, near, mechanism.epsilon)
    longest_square = max(sum(component**2 for component in displacement) for displacement in displacements)
    return RatioAudit(
        epsilon=float(mechanism.epsilon),
        displacements=len(displacements),
        pairs=pairs,
        exceeding=exceeding,
        largest_log_ratio=largest,
        largest_displacement=math.sqrt(longest_square),
        bound_outside=float(mechanism.rate) * math.sqrt(longest_square),
        bound_holds=mechanism.rate**2 * longest_square <= mechanism.epsilon**2,
        radial=radial,
    )


def extreme_displacements(reach: Fraction, dimension: int) -> list[tuple[int, ...]]:
    """Extreme points of the set of index displacements of inputs at most ``reach`` lattice steps apart.

    A displacement is possible when the unit cells around its two ends come within ``reach`` of each other.
    """
    if reach > LONGEST_REACH:
        raise InputError("alpha is more than a million lattice steps, too many to audit: choose a larger step")
    longest = math.floor(reach) + 1
    if dimension == 1:
        return [(longest,), (-longest,)]
    hull: list[tuple[int, int]] = []
    for first in range(longest + 1):
        second = 1 + math.isqrt(math.floor(reach**2 - max(first - 1, 0) ** 2))
        while len(hull) > 1 and not _turns_right(hull[-2], hull[-1], (first, second)):
            hull.pop()
        hull.append((first, second))
    return sorted({(one * x, other * y) for x, y in hull for one in (1, -1) for other in (1, -1)})


def _turns_right(start: tuple[int, int], middle: tuple[int, int], end: tuple[int, int]) -> bool:
    return (middle[0] - start[0]) * (end[1] - start[1]) < (middle[1] - start[1]) * (end[0] - start[0])


def _radial_square(mechanism: LatticeMechanism, offset: tuple[int, ...]) -> Fraction:
    return mechanism.rate**2 * sum(component**2 for component in offset)


def _exceeds(far: Fraction, near: Fraction, epsilon: Fraction) -> bool:
    """Decide √far > √near + epsilon in rational arithmetic, by squaring twice."""
    excess = far - near - epsilon**2
    return excess > 0 and excess**2 > 4 * epsilon**2 * near


def goodness_of_fit(draws: Draws, mechanism: LatticeMechanism, n: int) -> GoodnessOfFit:
    """Test n noisy values given by ``draws`` (true values in, noisy values out) against the law of ``mechanism``.

    The true value is made up and lies off the lattice. Two chi-square tests look at the shape of the noise (rectangles
    of up to two scales) and at its low digits (residues of the index), which the rectangles cannot see.
    """
    truth = np.full(n, float(mechanism.alpha) * (1 / 3 + (2j / 7 if mechanism.dimension == 2 else 0)))
    noisy = draws(truth)
    finite = np.isfinite(noisy)
    index = mechanism.lattice_index(noisy[finite])
    off_lattice = n - int((mechanism.lattice_values(index) == noisy[finite]).sum())
    if off_lattice:
        return GoodnessOfFit(draws=n, off_lattice=off_lattice, tests=())
    noise = (index - mechanism.lattice_index(truth)).reshape(n, mechanism.dimension)

    side = _odd_block(mechanism.rate)
    block_rate = float(mechanism.rate * side)
    reach = math.ceil(SUMMED_SCALES / block_rate)
    blocks = np.arange(-reach, reach + 1)
    inner_edges = np.unique(np.maximum(1, np.rint(BIN_EDGES_IN_SCALES / block_rate))).astype(np.int64)
    edges = np.concatenate([1 - inner_edges[::-1], inner_edges])
    bins = len(edges) + 1
    shape = _class_probabilities(block_rate, np.searchsorted(edges, blocks, side="right"), bins, mechanism.dimension)
    drawn_bins = np.searchsorted(edges, (noise + side // 2) // side, side="right")

    modulus = 4 if side == 1 else 2 ** min(4, side.bit_length() - 1)
    residues = np.full(modulus**mechanism.dimension, 1.0 / modulus**mechanism.dimension)
    if side == 1:
        residues = _class_probabilities(block_rate, blocks % modulus, modulus, mechanism.dimension)
    return GoodnessOfFit(
        draws=n,
        off_lattice=0,
        tests=(
            _chi_square("shape", drawn_bins, bins, shape),
            _chi_square("residues", noise % modulus, modulus, residues),
        ),
    )


def _odd_block(rate: Fraction) -> int:
    """Largest odd number of lattice steps per block side with rate·side ≤ BLOCK_RATE, at least one."""
    side = max(1, math.floor(BLOCK_RATE / rate))
    return side if side % 2 else side - 1


def _class_probabilities(rate: float, labels: NDArray[np.int64], classes: int, dimension: int) -> NDArray[np.float64]:
    """Sum exp(-rate·|k|₂) over k with equal labels, normalised to one: flat, classes^dimension entries.

    ``labels`` gives the class of each coordinate -m..m, shape (2m + 1,).
    """
    reach = len(labels) // 2
    squares = np.arange(-reach, reach + 1, dtype=np.float64) ** 2
    membership = (labels[:, None] == np.arange(classes)).astype(np.float64)
    if dimension == 1:
        sums = np.exp(-rate * np.sqrt(squares)) @ membership
    else:
        sums = np.zeros((classes, classes))
        for start in range(0, len(squares), ROWS_AT_ONCE):
            rows = slice(start, start + ROWS_AT_ONCE)
            weights = np.exp(-rate * np.sqrt(squares[rows, None] + squares))
            sums += membership[rows].T @ (weights @ membership)
    probabilities: NDArray[np.float64] = sums.ravel() / sums.sum()
    return probabilities


def _chi_square(binning: str, labels: NDArray[np.int64], classes: int, probabilities: NDArray[np.float64]) -> ChiSquare:
    """Test labels, shape (n, dimension), against class probabilities; rare classes are pooled."""
    from scipy.special import chdtrc  # a slow import that only the audit needs

    flat = np.ravel_multi_index(tuple(labels.T), (classes,) * labels.shape[1])
    observed = np.bincount(flat, minlength=len(probabilities)).astype(np.float64)
    expected = len(labels) * probabilities
    order = np.argsort(expected)[::-1]
    observed, expected = observed[order], expected[order]
    # The pool starts where what is left, rarest classes last, is still enough for the chi-square law.
    remaining = np.cumsum(expected[::-1])[::-1]
    common = int(np.sum((expected >= FEWEST_EXPECTED) & (remaining - expected >= FEWEST_EXPECTED)))
    observed = np.append(observed[:common], observed[common:].sum())
    expected = np.append(expected[:common], expected[common:].sum())
    if common == 0:
        raise InputError("too few draws, or too little noise, for a goodness-of-fit test: ask for more draws")
    statistic = float(((observed - expected) ** 2 / expected).sum())
    return ChiSquare(binning=binning, statistic=statistic, dof=common, p_value=float(chdtrc(common, statistic)))
