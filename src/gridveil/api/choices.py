"""Conversion of Python arguments to the types of the packages below."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from enum import Enum
from fractions import Fraction
from typing import TypeVar

from gridveil.core.errors import InputError
from gridveil.privacy.ledger import exact_text

Choice = TypeVar("Choice", bound=Enum)
Number = str | int | float | Fraction
"""A float stands for the decimal that Python prints for it: 0.1 is exactly 1/10."""


def choose(kind: type[Choice], value: Choice | str, name: str) -> Choice:
    """Resolve a choice given as an enumeration member or as its value."""
    if isinstance(value, kind):
        return value
    known = [member.value for member in kind]
    if value not in known:
        raise InputError(f"{name} {value!r} is unknown; choose one of {', '.join(known)}")
    return kind(value)


def exact_number(value: Number) -> str:
    """Convert a number to exact text."""
    return exact_text(Fraction(repr(float(value)))) if isinstance(value, float) and math.isfinite(value) else str(value)


def tolerance_text(value: str) -> str:
    """Return β unchanged; refuse a bare number, which could be a share or an amount."""
    if not isinstance(value, str):
        raise InputError(f"beta must be text: a share such as '1%' or an amount such as '250$/h', not {value!r}")
    return value


def listed(values: Number | Iterable[Number]) -> tuple[str, ...]:
    """Convert one or several numbers to exact text."""
    if isinstance(values, str | int | float | Fraction):
        return (exact_number(values),)
    return tuple(exact_number(value) for value in values)


def slack_texts(slack: Mapping[str, float | str] | Iterable[str] | None) -> list[str]:
    """Format regulated pressures as JUNCTION=PRESSURE."""
    if isinstance(slack, Mapping):
        return [f"{junction}={pressure}" for junction, pressure in slack.items()]
    return list(slack or ())
