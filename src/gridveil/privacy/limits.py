"""Public numbers that equal a demand: limits derived from loads would reveal them in any release."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gridveil.sectors.case import Case
from gridveil.sectors.registry import sector_of

RELATIVE = 1e-9  # equal up to the rounding of a file
ROUND_DIGITS = 3  # a number with fewer significant digits than this is anybody's guess, and proves nothing


def numbers_from_secret(case: Case) -> list[str]:
    """Name each public number that equals a secret value or a total of them. For the curator only."""
    truth, base = case.values.reveal(), case.field.base
    quantities = {"a site's demand": truth.real, "the total demand": np.array([truth.real.sum()])}
    if case.values.is_complex:
        quantities |= {"a site's reactive demand": truth.imag, "a site's apparent demand": np.abs(truth)}
        quantities |= {"the total reactive demand": np.array([truth.imag.sum()])}
    findings = []
    for column, values in sector_of(case.network).revealing_numbers(case.network).items():
        for meaning, demands in quantities.items():
            telling = demands[[tells_something(abs(value) * base) for value in demands]]
            rows = np.flatnonzero(np.isfinite(values) & any_equal(np.abs(values), np.abs(telling)))
            findings += [f"{column}, row {row + 1}: equals {meaning}" for row in rows]
    return findings


def tells_something(megawatts: float) -> bool:
    """Whether a number has digits enough to be no coincidence."""
    return megawatts != 0 and float(f"{megawatts:.{ROUND_DIGITS - 1}g}") != megawatts


def any_equal(values: NDArray[np.float64], demands: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which values equal one of the demands, up to the rounding of a file."""
    if demands.size == 0:
        return np.zeros(len(values), dtype=bool)
    ordered = np.sort(demands)
    place = np.clip(np.searchsorted(ordered, values), 1, len(ordered)) - 1
    nearest = np.minimum(
        np.abs(values - ordered[place]), np.abs(values - ordered[np.minimum(place + 1, len(ordered) - 1)])
    )
    with np.errstate(invalid="ignore"):
        return np.asarray(nearest <= RELATIVE * np.abs(values))
