"""Attacks on a release of several secrets, by somebody who knows all values but one. Run by the curator, who knows it.

The attacker reads the released file, averages several of them, looks for true numbers in every public file, and works the
one unknown value back from every published number that may be the true cost.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridveil.core.secret import SecretPart
from gridveil.privacy.attacks import COST_SHARE, EQUAL, NOISE_SHARE, NUMBER, Attack, canonical, least_error, root
from gridveil.sectors.case import Case
from gridveil.sectors.registry import build_model, hide, read_back, sector_of
from gridveil.solvers.registry import backend_for
from gridveil.solvers.solves import Solves

Values = NDArray[Any]

DIGITS = 4


def released_values(case: Case, path: Path) -> Values:
    """The values of all secrets that a written network states, one per participant, as in ``case``. They are public."""
    network: Any = case.network
    return hide(read_back(network, path), network.choices, network.public_demand).values.reveal()


def reading_attacks(case: Case, released: list[Path], noise: Mapping[str, float]) -> list[Attack]:
    """Read the values of each secret off one file, and off the average of several; ``noise`` is its root mean square."""
    found = [released_values(case, path) for path in released]
    truth, attacks = case.values.reveal(), []
    for part in case.field.parts:
        size = noise[part.field.name]
        guesses = {"reading one release": (found[0], NOISE_SHARE * size)}
        if len(found) > 1:
            least = least_error(len(part.field), size) / math.sqrt(len(found))
            guesses[f"averaging {len(found)} releases"] = (np.mean(found, axis=0), least)
        for name, (guess, least) in guesses.items():
            error = np.sqrt(np.mean(np.abs((guess - truth)[part.run]) ** 2))
            attacks.append(
                Attack(
                    name=f"{part.field.name}: {name}",
                    error=part.field.base * float(error),
                    least=least,
                    unit=part.field.unit,
                )
            )
    return attacks


def unchanged_attacks(case: Case, released: Values) -> list[Attack]:
    """Count participants whose true value is published as it is; one at an end of the public limits tells nothing."""
    truth, attacks = case.values.reveal(), []
    for part in case.field.parts:
        own, inside = truth[part.run], part.within_limits(truth[part.run])
        at_end = (inside != own) | (own.real == part.lower.real) | (own.real == part.upper.real)
        equal = np.abs(released[part.run] - own) <= EQUAL * np.maximum(np.abs(own), EQUAL)
        attacks.append(
            Attack(name=f"{part.field.name}: values that are published unchanged", found=int(np.sum(equal & ~at_end)))
        )
    return attacks


def text_attacks(case: Case, texts: Iterable[str]) -> list[Attack]:
    """Look for true values of each secret, as a file states them, in public files, beyond the network's public numbers."""
    public = sector_of(case.network).revealing_numbers(case.network).values()
    base = float(case.network.grid.base_mva)  # type: ignore[attr-defined]
    explained = {canonical(f"{base * value:.12g}") for column in public for value in np.ravel(column).tolist()}
    shown = {canonical(token) for text in texts for token in NUMBER.findall(text)} - explained
    truth = case.values.reveal()
    return [
        Attack(name=f"{part.field.name}: true values in the files", found=_shown(part, truth[part.run], shown))
        for part in case.field.parts
    ]


def all_but_one_attacks(case: Case, costs: list[float], released: Values, solver: str) -> list[Attack]:
    """Know all values but one of each secret, the most telling one, and work it back from a published cost.

    ``costs`` are the numbers that may be the true cost; the best of them counts, and the released value itself.
    """
    truth = np.array(case.values.reveal())
    model = build_model(case.network)
    solves = Solves(backend_for(model, solver))
    optimum = solves.afresh(model.layout.to_program(truth))
    if not optimum.converged or optimum.prices is None:
        return []
    worth = np.abs(model.layout.weights(optimum.prices, truth).real)

    def cost_at(part: SecretPart, place: int, value: float) -> float:
        if not part.lower.real <= value <= part.upper.real:
            return math.nan
        guess = truth.copy()
        guess[place] = value + 1j * truth[place].imag
        answer = solves.afresh(model.layout.to_program(guess))
        return answer.cost if answer.converged else math.nan

    attacks = []
    for part in case.field.parts:
        place = part.start + int(np.argmax(worth[part.run]))
        start = float(released[place].real)
        found = [root(partial(cost_at, part, place), cost, start) for cost in costs]
        errors = [abs(value - truth[place].real) for value in (*found, start) if math.isfinite(value)]
        attacks.append(
            Attack(
                name=f"{part.field.name}: working one value back from a published cost",
                error=part.field.base * min(errors),
                least=COST_SHARE * float(part.alpha) * part.field.base,
                unit=part.field.unit,
            )
        )
    return attacks


def _shown(part: SecretPart, values: Values, shown: set[str]) -> int:
    """How many participants have a number of theirs, in file units and of four digits or more, among those shown."""
    numbers = np.exp(values) if part.field.unit == "%" else values * part.field.base
    candidates = np.stack([numbers.real, numbers.imag], axis=1)
    return sum(any(_tells(value) and canonical(f"{abs(value):.12g}") in shown for value in row) for row in candidates)


def _tells(value: float) -> bool:
    """Whether a number has so many digits that no number of a bus or a limit equals it by chance."""
    return float(f"{value:.{DIGITS - 1}g}") != float(f"{value:.12g}")
