"""Zero-concentrated differential privacy: the largest ρ that gives (ε, δ), by a bound that is rounded one way only."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

from gridveil.core.errors import InputError
from gridveil.privacy.mechanisms.decimal_bounds import contexts, log_bounds, quotient_bounds

DIGITS = 40
ORDERS_PER_OCTAVE = 16
LARGEST_ORDER = 2**40
# Orders up to 1/(3·δ) keep the constant part of the bound positive (docs/proofs/profile.md, section 5).
DELTA_ORDERS = 3


def epsilon_above(rho: Fraction, delta: Fraction, order: Fraction) -> Decimal:
    """A number not below ρ·a + ln(1/(a·δ))/(a - 1) + ln(1 - 1/a): the ε of ρ-zCDP at δ, by the order a > 1.

    Canonne, Kamath and Steinke, The Discrete Gaussian for Differential Privacy, Proposition 12.
    """
    _, up = contexts(DIGITS)
    return up.add(quotient_bounds(rho * order, DIGITS)[1], _constant(delta, order))


def rho_for(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest ρ, over a grid of orders, for which ρ-zCDP implies (ε, δ)-differential privacy."""
    if not 0 < delta <= Fraction(1, 1000):
        raise InputError("delta must lie between 0 and 0.001; give, for example, 1e-6")
    most = min(Fraction(LARGEST_ORDER), 1 / (DELTA_ORDERS * delta))
    grid = (1 + Fraction(2 ** (step / ORDERS_PER_OCTAVE)) for step in range(-5 * ORDERS_PER_OCTAVE, 1000))
    best = Fraction(0)
    for order in grid:
        if order > most:
            break
        best = max(best, (epsilon - Fraction(_constant(delta, order))) / order)
    if best <= 0:
        raise InputError("epsilon is too small for this delta; choose a larger epsilon or delta")
    shift = max(0, 53 - math.floor(math.log2(best)))
    return Fraction(math.floor(best * 2**shift), 2**shift)


def _constant(delta: Fraction, order: Fraction) -> Decimal:
    """A number not below ln(1/(a·δ))/(a - 1) + ln(1 - 1/a)."""
    _, up = contexts(DIGITS)
    excess = quotient_bounds(order - 1, DIGITS)
    tail = log_bounds(1 / (order * delta), DIGITS)[1]
    first = up.divide(tail, excess[0] if tail > 0 else excess[1])
    return up.add(first, log_bounds(1 - 1 / order, DIGITS)[1])
