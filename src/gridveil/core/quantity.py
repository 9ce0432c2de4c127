"""Parsing of quantities: a number with its unit."""

from __future__ import annotations

import re
from fractions import Fraction

from gridveil.core.errors import InputError
from gridveil.core.secret import SecretField

PER_UNIT = "pu"
# Factors to the unit of the field; MW and MVAr measure the same plane as MVA.
UNITS = {
    "MVA": {
        "MVA": Fraction(1),
        "MW": Fraction(1),
        "kVA": Fraction(1, 1000),
        "kW": Fraction(1, 1000),
        "GVA": Fraction(1000),
    },
    "kg/s": {"kg/s": Fraction(1), "g/s": Fraction(1, 1000)},
    "$/MWh": {"$/MWh": Fraction(1), "$/kWh": Fraction(1000)},
}
QUANTITY = re.compile(
    r"\s*(\d{1,99}(?:\.\d{0,99})?(?:[eE][+-]?\d{1,3})?|\d{1,99}/\d{1,99})\s*([A-Za-z/$%]*)\s*", re.ASCII
)


def parse_distance(text: str, field: SecretField, name: str = "alpha") -> Fraction:
    """Read a distance between two values of a field, such as ``10MVA`` or ``0.1pu``; exact, per unit.

    A bare number is per unit of the case's base.
    """
    units = UNITS.get(field.unit, {field.unit: Fraction(1)})
    found = QUANTITY.fullmatch(text)
    if found is None or re.search(r"/0+$", found[1]):
        raise InputError(f"{name} must be a positive number such as 0.1, 1/3 or 10{field.unit}, not {text!r}")
    amount, unit = Fraction(found[1]), found[2]
    if amount <= 0:
        raise InputError(f"{name} must be positive, not {text!r}")
    if unit in ("", PER_UNIT):
        return amount
    if unit not in units:
        known = ", ".join([*units, PER_UNIT])
        raise InputError(f"{name}: {unit!r} does not measure a {field.name} of this case; write one of {known}")
    return amount * units[unit] / Fraction(field.base)


def physical(amount: Fraction, field: SecretField) -> Fraction:
    """Convert a per-unit amount to the field's physical unit, exactly."""
    return amount * Fraction(field.base)
