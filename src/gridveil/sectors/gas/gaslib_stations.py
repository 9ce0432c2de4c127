"""Pressure ratios that the machines of a GasLib compressor station (.cs) can reach."""

from __future__ import annotations

import numpy as np

from gridveil.core.errors import InputError
from gridveil.sectors.gas.gaslib_xml import Element, PhysicalQuantity

COEFFICIENTS = 9
HIGHEST_HEAD = 1e7  # J/kg; real stations stay below 3e5


def station_ratios(root: Element, *, specific_gas_energy: float, heat_capacity_ratio: float) -> dict[str, float]:
    """Largest ratio p_out / p_in of each station, for Z·R·T/M in J/kg (the square of the speed of sound).

    The head of a turbo compressor at its top speed is a parabola in the flow; its peak bounds the ratio from above
    (surge and choke lines make it smaller). Stages in series add their heads. Stations with other machines are left out.
    """
    ratios = {}
    for station in root.all("compressorStation"):
        heads = {machine.attribute("id"): _peak_head(machine) for machine in station.all("turboCompressor")}
        reachable = [_configuration_head(item, heads) for item in station.all("configuration")]
        best = max((head for head in reachable if head is not None), default=None)
        if best is not None and best > HIGHEST_HEAD:
            raise InputError(
                f"{station.where()}: its machines reach an impossible head; check their n_isoline coefficients"
            )
        if best is not None:
            exponent = (heat_capacity_ratio - 1) / heat_capacity_ratio
            ratios[station.attribute("id")] = (1 + exponent * best / specific_gas_energy) ** (1 / exponent)
    return ratios


def _configuration_head(configuration: Element, heads: dict[str, float]) -> float | None:
    """Head of the stages in series (J/kg); machines in parallel share theirs, so the best one of a stage counts."""
    total = 0.0
    for stage in configuration.all("stage"):
        available = [heads.get(unit.attribute("id")) for unit in stage.all("compressor")]
        known = [head for head in available if head is not None]
        if not known or len(known) < len(available):
            return None
        total += max(known)
    return total if total > 0 else None


def _peak_head(machine: Element) -> float:
    """Peak over the flow Q ≥ 0 of (1 n n²)·A·(1 Q Q²)ᵀ at the highest speed n, in J/kg (the file has kJ/kg)."""
    speed = machine.required("speedMax", PhysicalQuantity.SPEED)
    values = [machine.required(f"n_isoline_coeff_{k}", PhysicalQuantity.PLAIN) for k in range(1, COEFFICIENTS + 1)]
    constant, slope, curvature = np.array(values).reshape(3, 3) @ np.array([1.0, speed, speed**2])
    if curvature < 0 < slope:
        return 1e3 * float(constant - slope**2 / (4 * curvature))
    return 1e3 * float(constant)
