"""Attacks on files: how much of the true demands comes back from what is published. Run by the curator, who knows them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import powerio
from numpy.typing import NDArray

from gridveil.sectors.case import Case
from gridveil.sectors.describe import demand_base
from gridveil.sectors.power.network import PowerNetwork
from gridveil.sectors.publish import read_back

NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
COMMENT = re.compile(r"%[^\n]*")
TELLING_DIGITS = 3

Values = NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class Attack:
    """What one attack recovers: root-mean-square error per bus or site (MVA or kg/s), and relative to the demands."""

    name: str
    error: float
    unit: str
    relative_error: float


def power_flow_attack(case: Case, grid: PowerNetwork, path: Path) -> Attack:
    """Take voltages and generation from a file's set-points: what the network equations leave over must be the load."""
    network = powerio.parse(str(path)).value
    voltage = np.array([bus["vm"] * np.exp(1j * np.deg2rad(bus["va"])) for bus in network.buses])
    position = {bus["id"]: k for k, bus in enumerate(network.buses)}
    load = -voltage * np.conj(network.calc_admittance_matrix() @ voltage)
    for generator in network.generators:
        if generator["in_service"]:
            load[position[generator["bus"]]] += complex(generator["pg"], generator["qg"]) / network.base_mva
    return _attack("power flow from set-points", load, _per_bus(grid, case.demand.reveal()), case)


def reading_attack(case: Case, released: Path) -> Attack:
    """Read the released demands and believe them."""
    return _attack("reading one release", _demands_of(case, released), case.demand.reveal(), case)


def differencing_attack(case: Case, released: list[Path]) -> Attack:
    """Average several releases of the same demands: noise cancels, which is why every draw is charged."""
    mean = np.mean([_demands_of(case, path) for path in released], axis=0)
    return _attack(f"averaging {len(released)} releases", mean, case.demand.reveal(), case)


def totals_attack(case: Case, released: Path) -> Attack:
    """Compare the total demand only."""
    total = np.array([_demands_of(case, released).sum()])
    return _attack("total of one release", total, np.array([case.demand.reveal().sum()]), case)


def demands_in_text(case: Case, text: str, explained: str = "") -> list[int]:
    """List the sites whose demand stands in a text, in MW, MVAr or per unit, with three or more significant digits.

    Numbers that also stand in ``explained`` (public fields) do not count.
    """
    shown = {_canonical(token) for token in NUMBER.findall(text)} - {
        _canonical(token) for token in NUMBER.findall(explained)
    }
    values, base = case.demand.reveal(), demand_base(case.network)[0]
    candidates = np.stack([values.real, values.imag, base * values.real, base * values.imag], axis=1)
    return [
        site
        for site, row in enumerate(candidates)
        if any(_telling(value) and _canonical(f"{abs(value):.12g}") in shown for value in row)
    ]


def comments_of(path: Path) -> str:
    """Give the comments of a MATPOWER file."""
    return "\n".join(COMMENT.findall(path.read_text(errors="replace")))


def _attack(name: str, guess: Values, truth: Values, case: Case) -> Attack:
    error = float(np.linalg.norm(guess - truth))
    base, unit = demand_base(case.network)
    relative = error / float(np.linalg.norm(truth))
    return Attack(name=name, error=base * error / math.sqrt(len(truth)), unit=unit, relative_error=relative)


def _per_bus(network: PowerNetwork, sites: Values) -> Values:
    total = np.zeros(len(network.bus.id), dtype=complex)
    np.add.at(total, network.load.bus[network.served], sites[network.served])
    return total


def _demands_of(case: Case, path: Path) -> Values:
    return read_back(case.network, path).demand.reveal()


def _canonical(token: str) -> str:
    return f"{abs(float(token)):.9g}"


def _telling(value: float) -> bool:
    return value != 0 and float(f"{value:.{TELLING_DIGITS - 1}g}") != value
