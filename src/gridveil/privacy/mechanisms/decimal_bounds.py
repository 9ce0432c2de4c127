"""Certified enclosures of logarithms and exponentials in decimal arithmetic of any precision.

``Decimal.ln`` and ``Decimal.exp`` are correctly rounded, so the neighbours of their result enclose the true value. Sums and
products are rounded outwards.
"""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache

Bounds = tuple[Decimal, Decimal]
"""Numbers not above and not below a real number."""


@lru_cache(maxsize=16)
def contexts(digits: int) -> tuple[Context, Context]:
    """Arithmetic that rounds down, and arithmetic that rounds up."""
    down = Context(prec=digits, rounding=ROUND_FLOOR, Emax=MAX_EMAX, Emin=MIN_EMIN)
    return down, Context(prec=digits, rounding=ROUND_CEILING, Emax=MAX_EMAX, Emin=MIN_EMIN)


def quotient_bounds(value: Fraction, digits: int) -> Bounds:
    """Enclose a fraction."""
    down, up = contexts(digits)
    top, bottom = Decimal(value.numerator), Decimal(value.denominator)
    return down.divide(top, bottom), up.divide(top, bottom)


@lru_cache(maxsize=64)
def log_bounds(value: Fraction, digits: int) -> Bounds:
    """Enclose ln(value) for a positive fraction."""
    down, up = contexts(digits)
    low, high = quotient_bounds(value, digits)
    below = down.ln(low)
    return down.next_minus(below), up.next_plus(below if low == high else up.ln(high))


def exp_bounds(exponent: Bounds, digits: int) -> Bounds:
    """Enclose exp of an enclosed number."""
    down, up = contexts(digits)
    return max(down.next_minus(down.exp(exponent[0])), Decimal(0)), up.next_plus(up.exp(exponent[1]))
