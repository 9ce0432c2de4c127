"""Public numbers that equal a demand: limits derived from loads would reveal them in any release."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gridveil.sectors.case import Case
from gridveil.sectors.registry import sector_of

RELATIVE = 1e-9  # equal up to the rounding of a file
ROUND_DIGITS = 3  # a number with fewer significant digits than this is anybody's guess, and proves nothing
MOST_DIGITS = 12
CHANCE = 0.5  # share of the matches of a column that chance must explain before they are taken for chance

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class EqualNumber:
    """A public number that equals a secret value or a total of them. For the curator only: it names the value.

    ``place`` is the site whose value it is, empty for a total; ``value`` is in ``unit``. ``coincidence`` says that the match
    proves nothing: the number has few digits, or so many numbers are compared that chance explains as many matches.
    """

    column: str
    row: int
    meaning: str
    place: str
    value: float
    unit: str
    digits: int
    coincidence: bool


def in_words(equal: Sequence[EqualNumber]) -> list[str]:
    """Name numbers that equal a secret value or a total, coincidences apart. For the curator only."""
    return [f"{one.column}, row {one.row}: equals {one.meaning}" for one in equal if not one.coincidence]


def equal_numbers(case: Case) -> tuple[EqualNumber, ...]:
    """Find each public number that equals a secret value or a total of them. For the curator only."""
    truth, base, field = case.values.reveal(), case.field.base, case.field
    quantities = {"a site's demand": truth.real, "the total demand": np.array([truth.real.sum()])}
    if case.values.is_complex:
        quantities |= {"a site's reactive demand": truth.imag, "a site's apparent demand": np.abs(truth)}
        quantities |= {"the total reactive demand": np.array([truth.imag.sum()])}
    columns = sector_of(case.network).revealing_numbers(case.network)
    secret = {meaning: _Decades(np.abs(demands) * base) for meaning, demands in quantities.items()}
    found: list[EqualNumber] = []
    for column, values in columns.items():
        public = _Decades(np.abs(values) * base)
        for meaning, demands in quantities.items():
            sites = len(demands) == len(field) and not meaning.startswith("the total")
            matches = [
                (row, site, abs(float(demands[site])) * base, _digits(abs(float(demands[site])) * base))
                for row, site in _equal(np.abs(values), np.abs(demands))
            ]
            chance = _by_chance(public, secret[meaning], matches)
            found += [
                EqualNumber(
                    column=column,
                    row=row + 1,
                    meaning=meaning,
                    place=field.places[site] if sites else "",
                    value=value,
                    unit=field.unit,
                    digits=digits,
                    coincidence=digits < ROUND_DIGITS or digits in chance,
                )
                for row, site, value, digits in matches
            ]
    return tuple(found)


def _digits(value: float) -> int:
    """Significant digits of a number as files print it."""
    mantissa = f"{value:.{MOST_DIGITS - 1}e}".partition("e")[0]
    return len(mantissa.replace(".", "").rstrip("0")) or 1


def _equal(values: Floats, demands: Floats) -> Iterator[tuple[int, int]]:
    """Yield (row, site) for each number that equals a demand other than zero: the first such site."""
    order = np.argsort(demands, kind="stable")
    ordered = demands[order]
    first = np.searchsorted(ordered, values * (1 - RELATIVE))
    rows = np.flatnonzero(np.isfinite(values) & (values > 0) & (first < len(ordered)))
    rows = rows[np.abs(ordered[first[rows]] - values[rows]) <= RELATIVE * values[rows]]
    yield from zip(rows.tolist(), order[first[rows]].tolist(), strict=True)


@dataclass(frozen=True, eq=False)
class _Decades:
    """Numbers, sorted by decade once: each column meets several secrets, and each secret all columns."""

    numbers: Floats

    @cached_property
    def digits(self) -> dict[int, list[int]]:
        """Digits of the distinct positive numbers, by decade."""
        found: dict[int, list[int]] = {}
        for value in np.unique(self.numbers[np.isfinite(self.numbers) & (self.numbers > 0)]).tolist():
            found.setdefault(math.floor(math.log10(value)), []).append(_digits(value))
        return found


def _by_chance(public: _Decades, secret: _Decades, matches: list[tuple[int, int, float, int]]) -> set[int]:
    """Digits at which chance explains the matches of a column: numbers of k digits fall on 9·10^(k−1) marks a decade."""
    if not matches:
        return set()
    chance = set()
    for digits in {digits for *_, digits in matches}:
        seen = {value for *_, value, k in matches if k == digits}
        marks = 9 * 10 ** (digits - 1)
        expected = sum(
            sum(k <= digits for k in public.digits[decade])
            * sum(k <= digits for k in secret.digits.get(decade, ()))
            / marks
            for decade in public.digits
        )
        if expected >= CHANCE * len(seen):
            chance.add(digits)
    return chance
