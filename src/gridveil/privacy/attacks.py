"""Attacks on a release: how much of the true values comes back from what is published. Run by the curator, who knows them.

Each attack states what it recovers and the least error that the noise allows it; an attack that does better fails the audit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import powerio
from numpy.typing import NDArray

from gridveil.core.choices import Formulation
from gridveil.sectors.case import Case
from gridveil.sectors.power.network import PowerNetwork
from gridveil.sectors.registry import build_model, read_back, sector_of
from gridveil.solvers.registry import backend_for
from gridveil.solvers.solves import Solves

NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
COMMENT = re.compile(r"%[^\n]*")
TELLING_DIGITS = 3
EQUAL = 1e-9  # relative: the same number, but for the rounding of a file
NOISE_SHARE = 0.1  # an error below this share of the noise's root mean square is no chance, over several values
NOISE_SHARE_OF_FEW = 1e-3  # the same for fewer than SEVERAL values
SEVERAL = 8
COST_SHARE = 1e-3  # of α: a private cost comes this near to one demand once in some hundred releases at most
MOST_SOLVES = 25

Values = NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class Attack:
    """What one attack recovers: an error in the field's unit, the least error that the noise allows, and what it rests on.

    For attacks that look for numbers ``error`` is NaN and ``found`` counts them.
    """

    name: str
    error: float = math.nan
    least: float = 0.0
    found: int = 0
    unit: str = ""

    @property
    def passed(self) -> bool:
        """Whether the attack does no better than the noise allows."""
        return self.found == 0 and not self.error < self.least


def power_flow_attack(case: Case, grid: PowerNetwork, path: Path, noise: float) -> Attack:
    """Take voltages and generation from a file's set-points: what the network equations leave over must be the load.

    ``noise`` is the root mean square of the noise on one value, in the field's unit.
    """
    network = powerio.parse(str(path)).value
    voltage = np.array([bus["vm"] * np.exp(1j * np.deg2rad(bus["va"])) for bus in network.buses])
    position = {bus["id"]: k for k, bus in enumerate(network.buses)}
    load = -voltage * np.conj(network.calc_admittance_matrix() @ voltage)
    for generator in network.generators:
        if generator["in_service"]:
            load[position[generator["bus"]]] += complex(generator["pg"], generator["qg"]) / network.base_mva
    truth = _per_bus(grid, case.values.reveal())
    return _recovered("power flow from set-points", load, truth, case, _least(case, noise))


def reading_attack(case: Case, released: Path, noise: float) -> Attack:
    """Read the released values and believe them."""
    return _recovered(
        "reading one release", _values_of(case, released), case.values.reveal(), case, NOISE_SHARE * noise
    )


def differencing_attack(case: Case, released: list[Path], noise: float) -> Attack:
    """Average several releases of the same values: noise cancels, which is why every draw is charged."""
    mean = np.mean([_values_of(case, path) for path in released], axis=0)
    least = _least(case, noise) / math.sqrt(len(released))
    return _recovered(f"averaging {len(released)} releases", mean, case.values.reveal(), case, least)


def cost_attack(case: Case, costs: list[float], start: float, alpha: float, solver: str) -> Attack:
    """Know all values but the largest, and work that one back from a published cost.

    ``costs`` are the numbers that may be the true cost (the target, the ends of its band, the released optimum), ``start``
    the released value (per unit); the best of them counts. ``alpha`` is in the field's unit.
    """
    values = np.array(case.values.reveal())
    site = int(np.argmax(np.abs(values.real)))
    model = build_model(case.network, Formulation.AC)
    solves = Solves(backend_for(model, solver))

    def cost_at(value: float) -> float:
        guess = values.copy()
        guess[site] = value + (1j * values[site].imag if np.iscomplexobj(values) else 0)
        answer = solves.afresh(model.layout.to_program(guess))
        return answer.cost if answer.converged else math.nan

    found = [root(cost_at, cost, start) for cost in costs]
    errors = [abs(value - values[site].real) * case.field.base for value in found if math.isfinite(value)]
    return Attack(
        name="working one value back from a published cost",
        error=min(errors, default=math.inf),
        least=COST_SHARE * alpha,
        unit=case.field.unit,
    )


def set_point_attack(case: Case, source: Path, released: Path) -> Attack:
    """Look for operating values of the source file (generation, voltage) among the public numbers of the release."""
    network = powerio.parse(str(source)).value
    points = [row[key] / network.base_mva for row in network.generators for key in ("pg", "qg")]
    telling = np.array([value for value in points if _telling(value * network.base_mva)])
    limits = sector_of(case.network).revealing_numbers(read_back(case.network, released).network)
    numbers = np.concatenate([np.ravel(column) for column in limits.values()])
    numbers = numbers[np.isfinite(numbers) & (numbers != 0)]
    equal = np.abs(telling[:, None] - numbers[None, :]) <= EQUAL * np.abs(numbers[None, :])
    return Attack(name="set-points among the published limits", found=int(np.any(equal, axis=1).sum()))


def comment_attack(case: Case, path: Path) -> Attack:
    """Look for true values in the comments of a MATPOWER file."""
    return Attack(name="values in comments", found=len(values_in_text(case, comments_of(path))))


def values_in_text(case: Case, text: str, explained: str = "") -> list[int]:
    """List the participants whose value stands in a text, in physical units or per unit, with three or more digits.

    Numbers that also stand in ``explained`` (public fields) do not count.
    """
    shown = {canonical(token) for token in NUMBER.findall(text)} - {
        canonical(token) for token in NUMBER.findall(explained)
    }
    values, base = case.values.reveal(), case.field.base
    candidates = np.stack([values.real, values.imag, base * values.real, base * values.imag], axis=1)
    return [
        site
        for site, row in enumerate(candidates)
        if any(_telling(value) and canonical(f"{abs(value):.12g}") in shown for value in row)
    ]


def comments_of(path: Path) -> str:
    """Comments of a MATPOWER file."""
    return "\n".join(COMMENT.findall(path.read_text(errors="replace")))


def root(function: Callable[[float], float], level: float, start: float) -> float:
    """Secant search for the value at which a function reaches a level; NaN if it ends nowhere."""
    first, second = start, start * 1.02 + 1e-3
    at_first, at_second = function(first) - level, function(second) - level
    for _ in range(MOST_SOLVES):
        if not (math.isfinite(at_first) and math.isfinite(at_second)) or at_first == at_second:
            return math.nan
        first, second, at_first = second, second - at_second * (second - first) / (at_second - at_first), at_second
        if abs(second - first) <= 1e-10 * max(1.0, abs(second)):
            return second
        at_second = function(second) - level
    return second


def _least(case: Case, noise: float) -> float:
    """The least root mean square error that the noise allows an attack on all values, but for once in a thousand releases."""
    return least_error(len(case.field), noise)


def least_error(participants: int, noise: float) -> float:
    """The same for so many participants."""
    return noise * (NOISE_SHARE if participants >= SEVERAL else NOISE_SHARE_OF_FEW)


def _recovered(name: str, guess: Values, truth: Values, case: Case, least: float) -> Attack:
    error = float(np.linalg.norm(guess - truth)) / math.sqrt(len(truth))
    return Attack(name=name, error=case.field.base * error, least=least, unit=case.field.unit)


def _per_bus(network: PowerNetwork, sites: Values) -> Values:
    total = np.zeros(len(network.bus.id), dtype=complex)
    np.add.at(total, network.load.bus[network.served], sites[network.served])
    return total


def _values_of(case: Case, path: Path) -> Values:
    return read_back(case.network, path).values.reveal()


def canonical(token: str) -> str:
    """A number in nine digits, without its sign."""
    return f"{abs(float(token)):.9g}"


def _telling(value: float) -> bool:
    return value != 0 and float(f"{value:.{TELLING_DIGITS - 1}g}") != value
