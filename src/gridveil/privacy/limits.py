"""Public numbers that a demand explains: limits that somebody derived from loads would give them away in any release."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gridveil.sectors.case import Case, Network
from gridveil.sectors.describe import demand_base
from gridveil.sectors.gas.network import GasNetwork

RELATIVE = 1e-9  # equal up to the rounding of a file
ROUND_DIGITS = 3  # a number with fewer significant digits than this is anybody's guess, and proves nothing


def limits_from_demand(case: Case) -> list[str]:
    """Name each public limit that equals a site's demand or a total of demands. For the curator's eyes only."""
    truth, base = case.demand.reveal(), demand_base(case.network)[0]
    quantities = {"a site's demand": truth.real, "the total demand": np.array([truth.real.sum()])}
    if case.demand.is_complex:
        quantities |= {"a site's reactive demand": truth.imag, "a site's apparent demand": np.abs(truth)}
        quantities |= {"the total reactive demand": np.array([truth.imag.sum()])}
    findings = []
    for column, values in _public_columns(case.network).items():
        for meaning, demands in quantities.items():
            telling = demands[[_tells_something(abs(value) * base) for value in demands]]
            rows = np.flatnonzero(_any_equal(np.abs(values), np.abs(telling)))
            findings += [f"{column}, row {row + 1}: equals {meaning}" for row in rows]
    return findings


def _public_columns(network: Network) -> dict[str, NDArray[np.float64]]:
    """Public numbers that could have been made from demands, per unit of the demands' base."""
    if isinstance(network, GasNetwork):
        base = network.flow_base
        return {
            "pipe maximum flow": network.pipe.flow_max / base,
            "compressor maximum flow": network.compressor.flow_max / base,
            "fixed injection": network.receipt.injection / base,
            "flow base": np.array([1.0]),
        }
    generator, branch, bus = network.generator, network.branch, network.bus
    return {
        "generator maximum active power": generator.p_max,
        "generator minimum active power": generator.p_min,
        "generator maximum reactive power": generator.q_max,
        "generator minimum reactive power": generator.q_min,
        "branch rating": branch.rate,
        "bus shunt conductance": bus.shunt.real,
        "bus shunt susceptance": bus.shunt.imag,
        "base MVA": np.array([1.0]),
    }


def _tells_something(megawatts: float) -> bool:
    return megawatts != 0 and float(f"{megawatts:.{ROUND_DIGITS - 1}g}") != megawatts


def _any_equal(values: NDArray[np.float64], demands: NDArray[np.float64]) -> NDArray[np.bool_]:
    if demands.size == 0:
        return np.zeros(len(values), dtype=bool)
    ordered = np.sort(demands)
    place = np.clip(np.searchsorted(ordered, values), 1, len(ordered)) - 1
    nearest = np.minimum(
        np.abs(values - ordered[place]), np.abs(values - ordered[np.minimum(place + 1, len(ordered) - 1)])
    )
    with np.errstate(invalid="ignore"):
        return np.asarray(nearest <= RELATIVE * np.abs(values))
