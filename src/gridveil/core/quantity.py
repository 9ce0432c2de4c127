"""Parsing of quantities: a number with its unit. A number alone is refused wherever it could be read in two ways."""

from __future__ import annotations

import re
from fractions import Fraction

from gridveil.core.errors import InputError
from gridveil.core.secret import SecretField
from gridveil.core.text import did_you_mean

PER_UNIT = "pu"
# Factors to the unit of the field; MW and MVAr measure the same plane as MVA.
UNITS = {
    "MVA": {
        "MVA": Fraction(1),
        "MW": Fraction(1),
        "MVAr": Fraction(1),
        "kVA": Fraction(1, 1000),
        "kW": Fraction(1, 1000),
        "GVA": Fraction(1000),
        "GW": Fraction(1000),
    },
    "kg/s": {"kg/s": Fraction(1), "g/s": Fraction(1, 1000)},
    "$/MWh": {"$/MWh": Fraction(1), "$/kWh": Fraction(1000)},
}
QUANTITY = re.compile(
    r"\s*(\d{1,99}/\d{1,99}|\d{1,99}(?:\.\d{0,99})?(?:[eE][+-]?\d{1,3})?)\s*([^\d\s./+-][^\d\s]*)?\s*", re.ASCII
)


def parse_distance(text: str, field: SecretField, name: str = "alpha") -> Fraction:
    """Read a distance between two values of a field, such as ``10MVA`` or ``0.1pu``; exact, per unit.

    A bare number is refused: it could be per unit or in the field's physical unit, which differ by the base of the case. Only
    the data of a user's own program, in a unit of their own with a base of 1, have no second reading.
    """
    amount, unit = split_quantity(text, name, example=f"10{field.unit}")
    units = UNITS.get(field.unit, {field.unit: Fraction(1)})
    if unit == PER_UNIT or (unit == "" and field.base == 1 and field.unit not in UNITS):
        return amount
    if unit == "":
        raise InputError(_two_readings(text.strip(), amount, field, name))
    if unit not in units:
        known = [*units, PER_UNIT]
        raise InputError(
            f"{name}: {unit!r} does not measure a {field.name} of this case; write one of {', '.join(known)}"
            f"{did_you_mean(unit, known)}"
        )
    return amount * units[unit] / Fraction(field.base)


def split_quantity(text: str, name: str, *, example: str) -> tuple[Fraction, str]:
    """Split a positive quantity into its number and its unit, which is empty for a bare number."""
    found = QUANTITY.fullmatch(text)
    if found is None or re.search(r"/0+$", found[1]):
        raise InputError(f"{name} must be a positive number with its unit, such as {example} or 0.1pu, not {text!r}")
    amount = Fraction(found[1])
    if amount <= 0:
        raise InputError(f"{name} must be positive, not {text!r}")
    return amount, found[2] or ""


def refuse_bare_distance(text: str, name: str = "alpha") -> None:
    """Refuse a distance without a unit where the case, and with it the base, is not known yet."""
    if split_quantity(text, name, example="10MVA")[1] == "":
        bare = text.strip()
        raise InputError(
            f"{name} {bare} has no unit: write {bare}pu for per unit of the case's base, or an amount such as {bare}MVA or "
            f"{bare}kg/s"
        )


def physical(amount: Fraction, field: SecretField) -> Fraction:
    """Convert a per-unit amount to the field's physical unit, exactly."""
    return amount * Fraction(field.base)


def _two_readings(text: str, amount: Fraction, field: SecretField, name: str) -> str:
    scaled = float(physical(amount, field))
    return (
        f"{name} {text} has no unit: {text} means {scaled:g} {field.unit} (per unit of {field.base:g} {field.unit}) or {text} "
        f"{field.unit}: write {text}{PER_UNIT} or {text}{field.unit}"
    )
