"""What else in a file gives a secret away: looked for on the curator's side, reported to nobody else.

Each check is about one way in which files are made: ratings copied from other limits, ratings computed from impedances,
costs that are those of a class, reactances of standard conductors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridveil.core.text import ranges
from gridveil.privacy.limits import RELATIVE, ROUND_DIGITS
from gridveil.sectors.case import Case
from gridveil.sectors.registry import sector_of

FEW = 0.5  # of the participants: fewer different values than this are classes
SAME = 5e-3  # relative: ratings are rounded to whole MVA
FEWEST_ALIKE, SHARE_ALIKE = 4, 0.1  # branches, and of all with a rating, whose products are the same by no chance
Values = NDArray[Any]


def secret_leaks(case: Case) -> list[str]:
    """Name what a reader of the release could conclude a secret from. For the curator only."""
    truth, findings = case.values.reveal(), []
    public = sector_of(case.network).revealing_numbers(case.network)
    for part in case.field.parts:
        own = truth[part.run]
        findings += _equal_numbers(part.field.name, own, part.field.base, public)
        findings += CHECKS.get(part.field.name, _nothing)(own)
    return findings + _ratings_from_impedances(case, truth)


def _nothing(_: Values) -> list[str]:
    return []


def _equal_numbers(name: str, values: Values, base: float, public: Any) -> list[str]:
    """Public numbers that equal a demand or a rating, per unit; costs and logarithms have no public counterpart."""
    if name not in ("demand", "limit"):
        return []
    telling = np.array([value for value in values.real if _tells_something(abs(value) * base)])
    found = []
    for column, numbers in public.items():
        rows = np.flatnonzero(np.isfinite(numbers) & _any_equal(np.abs(numbers), np.abs(telling)))
        found += [f"{column}, row {row + 1}: equals the {name} of a participant" for row in rows]
    return found


def _cost_classes(values: Values) -> list[str]:
    different = len(np.unique(np.round(values.real, 6)))
    if len(values) < 4 or different > FEW * len(values):
        return []
    return [
        f"the {len(values)} costs take {different} values only: whoever knows which generators share a class averages the "
        "noise within it; protect a class as one owner by dividing epsilon by its size"
    ]


def _standard_ratios(values: Values) -> list[str]:
    different = len(np.unique(np.round(values.imag, 4)))
    if len(values) < 4 or different > FEW * len(values):
        return []
    return [
        f"the {len(values)} impedances have {different} ratios x/r only: standard conductors; whoever knows the conductor of a "
        "branch knows its ratio"
    ]


def _ratings_from_impedances(case: Case, truth: Values) -> list[str]:
    """Ratings made from impedances, where one of the two is public and the other is not.

    Files without ratings get them from |V|²·2·sin(θ/2)/|z| for a usual angle θ, as PGLib's did: then rating times |z| is one
    number for all of these branches.
    """
    network: Any = case.network
    secret = {part.field.name: truth[part.run] for part in case.field.parts}
    if ("limit" in secret) == ("impedance" in secret):
        return []
    branch, bus = network.grid.branch, network.grid.bus
    rate = np.array(branch.rate)
    if "limit" in secret:
        rate[network.limited] = secret["limit"].real
    impedance = np.exp(secret["impedance"]) if "impedance" in secret else branch.impedance
    rows = np.flatnonzero(np.isfinite(rate) & (rate > 0))
    products = np.log(rate * np.abs(impedance) / np.maximum(bus.v_max[branch.from_bus], bus.v_max[branch.to_bus]) ** 2)
    near = np.abs(products[rows][:, None] - products[rows][None, :]) <= SAME
    alike = rows[near[np.argmax(near.sum(axis=1))]] if len(rows) else rows
    if len(alike) < max(FEWEST_ALIKE, SHARE_ALIKE * len(rows)):
        return []
    hidden, shown = ("rating", "impedance") if "limit" in secret else ("impedance", "rating")
    return [
        f"branches {ranges((alike + 1).tolist())}: rating times |r + jx| is the same for all, so the {hidden} follows from the "
        f"public {shown}; hide both"
    ]


CHECKS: dict[str, Callable[[Values], list[str]]] = {"cost": _cost_classes, "impedance": _standard_ratios}


def _tells_something(amount: float) -> bool:
    """Whether a number has digits enough to be no coincidence."""
    return amount != 0 and float(f"{amount:.{ROUND_DIGITS - 1}g}") != amount


def _any_equal(values: NDArray[np.float64], secrets: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which values equal one of the secrets, up to the rounding of a file."""
    if secrets.size == 0:
        return np.zeros(len(values), dtype=bool)
    ordered = np.sort(secrets)
    place = np.clip(np.searchsorted(ordered, values), 1, len(ordered)) - 1
    nearest = np.minimum(
        np.abs(values - ordered[place]), np.abs(values - ordered[np.minimum(place + 1, len(ordered) - 1)])
    )
    with np.errstate(invalid="ignore"):
        return np.asarray(nearest <= RELATIVE * np.abs(values))
