"""Boundary conditions of a gas problem: regulated pressures, speed of sound, flow base and what counts as one demand."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from gridveil.core.choices import DemandUnit
from gridveil.core.errors import InputError
from gridveil.sectors.gas.tables import Floats, GasTables

PRESSURE_UNITS = {"": 1.0, "Pa": 1.0, "kPa": 1e3, "MPa": 1e6, "bar": 1e5, "psi": 6894.757293168}
SPEED_UNITS = {"": 1.0, "m/s": 1.0}
FLOW_UNITS = {"": 1.0, "kg/s": 1.0}

_QUANTITY = re.compile(r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*([A-Za-z/]*)\s*")


@dataclass(frozen=True, kw_only=True)
class GasBoundary:
    """What the user states; what is left out is taken from the file.

    ``slack``: absolute pressure in Pa of each junction whose pressure is regulated (its supply is free).
    ``flow_base``: kg/s that demands and alpha are measured in; without one they are in kg/s. A file's own base flow is
    never used: it often equals the total demand.
    """

    slack: Mapping[str, float] = field(default_factory=dict)
    sound_speed: float | None = None
    flow_base: float | None = None
    demand_unit: DemandUnit = DemandUnit.DELIVERY

    def __post_init__(self) -> None:
        for name, value in {"speed of sound": self.sound_speed, "flow base": self.flow_base}.items():
            if value is not None and not (math.isfinite(value) and value > 0):
                raise InputError(f"the {name} must be a positive number")
        for junction, pressure in self.slack.items():
            if not (math.isfinite(pressure) and pressure > 0):
                raise InputError(f"slack junction {junction}: the pressure must be a positive number (absolute)")


# Numbers of our own studies, not of the files: the paper does not print its boundary conditions.
PRESETS: Mapping[str, GasBoundary] = {
    "24-pipe": GasBoundary(
        slack={"1": 3447378.645}, sound_speed=377.968, flow_base=56.3, demand_unit=DemandUnit.JUNCTION
    ),
    "gaslib-40": GasBoundary(slack={"0": 5.0e6}, sound_speed=312.806, flow_base=301.5),
    "gaslib-135": GasBoundary(slack={"0": 4.0e6}, sound_speed=312.806, flow_base=56.9),
}


def preset_boundary(name: str) -> GasBoundary:
    """Return the boundary conditions of a shipped study."""
    if name not in PRESETS:
        raise InputError(f"unknown preset {name}; known are {', '.join(PRESETS)}")
    return PRESETS[name]


def stated_boundary(
    *,
    preset: str | None,
    slack: Sequence[str],
    sound_speed: str | None,
    flow_base: str | None,
    demand_unit: DemandUnit | None,
) -> GasBoundary:
    """Combine a preset (or none) with the conditions stated as text, which take precedence."""
    boundary = preset_boundary(preset) if preset is not None else GasBoundary()
    if slack:
        boundary = replace(boundary, slack=dict(parse_slack(text) for text in slack))
    if sound_speed is not None:
        boundary = replace(boundary, sound_speed=parse_quantity(sound_speed, SPEED_UNITS, "the speed of sound"))
    if flow_base is not None:
        boundary = replace(boundary, flow_base=parse_quantity(flow_base, FLOW_UNITS, "the flow base"))
    return boundary if demand_unit is None else replace(boundary, demand_unit=demand_unit)


def parse_slack(text: str) -> tuple[str, float]:
    """Read JUNCTION=PRESSURE, such as 1=500psi or 0=5.0MPa (no unit: Pa), as a junction and its pressure in Pa."""
    junction, found, pressure = text.rpartition("=")
    if not found or not junction.strip():
        raise InputError(f"slack {text}: write JUNCTION=PRESSURE, for example 1=500psi or 0=5.0MPa")
    return junction.strip(), parse_quantity(pressure, PRESSURE_UNITS, f"slack {text}")


def parse_quantity(text: str, units: Mapping[str, float], what: str) -> float:
    """Parse a number with one of the units (or without: SI) and convert it to SI."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise InputError(f"{what}: not a number with a unit; write for example 5.0{list(units)[-1]}")
    if match.group(2) not in units:
        raise InputError(f"{what}: unknown unit {match.group(2)}; known are {', '.join(filter(None, units))}")
    return float(match.group(1)) * units[match.group(2)]


def slack_pressures(tables: GasTables, boundary: GasBoundary) -> Floats:
    """Return the regulated pressure of each junction (Pa, NaN: not regulated); at least one is required."""
    if not boundary.slack:
        if not np.any(np.isfinite(tables.junction.slack_pressure)):
            raise InputError(
                "the file regulates no pressure (no slack junction); state one, for example --slack JUNCTION=5.0MPa"
            )
        return tables.junction.slack_pressure
    pressures = np.full(len(tables.junction.id), np.nan)
    for junction, pressure in boundary.slack.items():
        if junction not in tables.junction.id:
            raise InputError(f"slack junction {junction} is not in the file; name one of its junctions")
        pressures[tables.junction.id.index(junction)] = pressure
    return pressures


def sound_speed(tables: GasTables, boundary: GasBoundary) -> float:
    """Return the speed of sound (m/s) as stated, or from the file; an error if neither has it."""
    speed = boundary.sound_speed if boundary.sound_speed is not None else tables.gas.sound_speed
    if speed is None:
        raise InputError("the file does not state the speed of sound; state it, for example --sound-speed 350m/s")
    return speed
