"""Contents of a gas network file as plain columns in SI units (Pa, m, kg/s): the common result of all gas readers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gridveil.core.errors import InputError
from gridveil.core.secret import SecretValues

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

GAS_CONSTANT = 8.314462618  # J/(mol K)
MOLAR_MASS_OF_AIR = 0.0289647  # kg/mol
DEFAULT_HEAT_CAPACITY_RATIO = 1.4
DIAMETER_RANGE = (1e-3, 100.0)  # m: outside, a file has mixed up its units
LONGEST = 1e8  # m
LARGEST_DEMAND = 1e9  # kg/s; what a solver could fail on is refused here, before it can fail because of a demand


class Columns:
    """A table: its arrays cannot be written to."""

    def __post_init__(self) -> None:
        for value in vars(self).values():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)


@dataclass(frozen=True, eq=False, kw_only=True)
class JunctionTable(Columns):
    """Junctions with their pressure limits; ``slack_pressure`` is NaN where the file does not regulate the pressure."""

    id: tuple[str, ...]
    p_min: Floats
    p_max: Floats
    slack_pressure: Floats


@dataclass(frozen=True, eq=False, kw_only=True)
class EdgeTable(Columns):
    """Connections between positions in the junction table."""

    id: tuple[str, ...]
    from_junction: Ints
    to_junction: Ints


@dataclass(frozen=True, eq=False, kw_only=True)
class PipeTable(EdgeTable):
    """Pipes; lengths in m, flow limits in kg/s (±inf: none)."""

    diameter: Floats
    length: Floats
    friction_factor: Floats
    flow_min: Floats
    flow_max: Floats


@dataclass(frozen=True, eq=False, kw_only=True)
class LinkTable(EdgeTable):
    """Connections without pressure loss: short pipes and open valves."""


@dataclass(frozen=True, eq=False, kw_only=True)
class StationTable(EdgeTable):
    """Compressors (ratio 1 or more) or regulators (ratio 1 or less): limits on p_out / p_in and on the flow (kg/s)."""

    ratio_min: Floats
    ratio_max: Floats
    flow_min: Floats
    flow_max: Floats


@dataclass(frozen=True, eq=False, kw_only=True)
class ReceiptTable(Columns):
    """Supplies and what they inject (kg/s). Injections are not protected, and their sum is near the total demand."""

    junction: Ints
    injection: Floats


@dataclass(frozen=True, eq=False, kw_only=True)
class DeliveryTable(Columns):
    """Delivery sites. Where they are is public; what they withdraw (kg/s) is secret from the first moment."""

    junction: Ints
    withdrawal: SecretValues
    shared_junction: Ints
    """The junctions that have deliveries, each once."""
    withdrawal_per_junction: SecretValues
    """The same demands summed at each of ``shared_junction``."""


@dataclass(frozen=True, eq=False, kw_only=True)
class GasProperties:
    """The gas, as far as the file describes it: temperature in K, molar mass in kg/mol, speed in m/s."""

    heat_capacity_ratio: float = DEFAULT_HEAT_CAPACITY_RATIO
    temperature: float | None = None
    compressibility: float | None = None
    molar_mass: float | None = None
    stated_sound_speed: float | None = None

    @property
    def sound_speed(self) -> float | None:
        """The isothermal speed of sound: as stated, or √(Z·R·T/M), or None when the file does not tell."""
        if self.stated_sound_speed is not None:
            return self.stated_sound_speed
        if self.temperature is None or self.compressibility is None or self.molar_mass is None:
            return None
        return math.sqrt(self.compressibility * GAS_CONSTANT * self.temperature / self.molar_mass)


@dataclass(frozen=True, eq=False, kw_only=True)
class GasElements:
    """The elements of a gas network other than its demands."""

    junction: JunctionTable
    pipe: PipeTable
    link: LinkTable
    compressor: StationTable
    regulator: StationTable
    receipt: ReceiptTable
    gas: GasProperties


@dataclass(frozen=True, eq=False, kw_only=True)
class GasTables(GasElements):
    """A whole gas network file. ``notes`` lists what the reader simplified or left out.

    ``sites_declared`` is False where the list of sites follows the demands.
    """

    delivery: DeliveryTable
    file_format: str
    notes: tuple[str, ...]
    sites_declared: bool = True

    @property
    def unprotected(self) -> tuple[str, ...]:
        """What takes gas out elsewhere and is published as the file states it: receipts with a negative injection."""
        at = sorted({self.junction.id[place] for place in self.receipt.junction[self.receipt.injection < 0]})
        count = int(np.sum(self.receipt.injection < 0))
        return (f"{count} receipts that take gas out (junctions {', '.join(at)}): published exactly",) if count else ()


@dataclass(frozen=True, eq=False, kw_only=True)
class PublicGasTables(GasElements):
    """What may be published of a gas network: no names, no limits of customers, no injection at a slack junction."""

    delivery_junction: Ints
    withdrawal: Floats
    """Released demands (kg/s), never the true ones."""


def delivery_table(junction: Sequence[int], withdrawal: Sequence[float]) -> DeliveryTable:
    """Put the true withdrawals (kg/s) into secret containers, individually and summed per junction."""
    at, values = np.array(junction, dtype=np.int64), np.array(withdrawal, dtype=np.float64)
    shared, group = np.unique(at, return_inverse=True)
    return DeliveryTable(
        junction=at,
        withdrawal=SecretValues(values),
        shared_junction=shared,
        withdrawal_per_junction=SecretValues(np.bincount(group, values, minlength=len(shared))),
    )


def link_table(id: Sequence[str] = (), from_junction: Sequence[int] = (), to_junction: Sequence[int] = ()) -> LinkTable:
    """Build a link table from plain columns; without arguments, an empty one."""
    return LinkTable(
        id=tuple(id),
        from_junction=np.array(from_junction, dtype=np.int64),
        to_junction=np.array(to_junction, dtype=np.int64),
    )


def station_table(
    *,
    id: Sequence[str] = (),
    from_junction: Sequence[int] = (),
    to_junction: Sequence[int] = (),
    ratio_min: Sequence[float] = (),
    ratio_max: Sequence[float] = (),
    flow_min: Sequence[float] = (),
    flow_max: Sequence[float] = (),
) -> StationTable:
    """Build a table of compressors or regulators from plain columns; without arguments, an empty one."""
    return StationTable(
        id=tuple(id),
        from_junction=np.array(from_junction, dtype=np.int64),
        to_junction=np.array(to_junction, dtype=np.int64),
        ratio_min=np.array(ratio_min, dtype=np.float64),
        ratio_max=np.array(ratio_max, dtype=np.float64),
        flow_min=np.array(flow_min, dtype=np.float64),
        flow_max=np.array(flow_max, dtype=np.float64),
    )


def receipt_table(junction: Sequence[int] = (), injection: Sequence[float] = ()) -> ReceiptTable:
    """Build a receipt table from plain columns; without arguments, an empty one."""
    return ReceiptTable(junction=np.array(junction, dtype=np.int64), injection=np.array(injection, dtype=np.float64))


def tighten(limits: JunctionTable, at: Ints, lower: Sequence[float], upper: Sequence[float]) -> JunctionTable:
    """Tighten the pressure limits of junctions (Pa) by those of the elements connected there."""
    p_min, p_max = limits.p_min.copy(), limits.p_max.copy()
    np.maximum.at(p_min, at, np.array(lower, dtype=np.float64))
    np.minimum.at(p_max, at, np.array(upper, dtype=np.float64))
    return replace(limits, p_min=p_min, p_max=p_max)


def check_gas_tables(tables: GasTables, source: str) -> None:
    """Refuse numbers that no gas network can have; the message names the element and what to change."""
    junction, pipe = tables.junction, tables.pipe
    if not junction.id:
        raise InputError(f"{source}: the file has no junctions; give a complete gas network")
    if not len(tables.delivery.junction):
        raise InputError(f"{source}: the file has no deliveries in service, so there are no demands to protect")
    with np.errstate(over="ignore"):  # scaled so that just what is beyond the limit overflows
        site = tables.delivery.withdrawal.scaled(np.finfo(float).max / LARGEST_DEMAND).first_not_finite()
    if site is not None:
        raise InputError(f"{source}: delivery {site + 1} withdraws more than any pipe carries; give it in kg/s")
    _refuse(source, "junction", junction.id, junction.p_min < 0, "has a negative p_min; pressures are absolute")
    _refuse(
        source, "junction", junction.id, junction.p_min > junction.p_max, "has p_min above p_max; swap or widen them"
    )
    _refuse(source, "junction", junction.id, junction.p_max <= 0, "has no positive p_max; give its pressure limit")
    _refuse(source, "pipe", pipe.id, pipe.diameter <= 0, "has no positive diameter; give it in metres")
    odd = (pipe.diameter < DIAMETER_RANGE[0]) | (pipe.diameter > DIAMETER_RANGE[1])
    _refuse(source, "pipe", pipe.id, odd, "has a diameter below 1 mm or above 100 m; give it in metres")
    _refuse(source, "pipe", pipe.id, pipe.length < 0, "has a negative length; give it in metres")
    _refuse(source, "pipe", pipe.id, pipe.length > LONGEST, "is longer than 100 000 km; give its length in metres")
    _refuse(source, "pipe", pipe.id, pipe.friction_factor <= 0, "has no positive friction factor")
    _refuse(source, "pipe", pipe.id, pipe.flow_min > pipe.flow_max, "has flow_min above flow_max; swap or widen them")
    for kind, table in (("compressor", tables.compressor), ("regulator", tables.regulator)):
        wrong = table.ratio_min > table.ratio_max
        _refuse(source, kind, table.id, wrong, "has an empty range of pressure ratios; check its ratio limits")
        _refuse(
            source, kind, table.id, table.flow_min > table.flow_max, "has flow_min above flow_max; swap or widen them"
        )


def check_gas(gas: GasProperties, source: str) -> None:
    """Refuse properties that no gas can have."""
    for name, value in (
        ("speed of sound", gas.stated_sound_speed),
        ("temperature", gas.temperature),
        ("compressibility factor", gas.compressibility),
        ("molar mass", gas.molar_mass),
    ):
        if value is not None and value <= 0:
            raise InputError(f"{source}: the {name} must be positive; correct it in the file")
    if gas.heat_capacity_ratio <= 1:
        raise InputError(
            f"{source}: the ratio of heat capacities must exceed 1; methane has about 1.3, the studies 1.4"
        )


def _refuse(source: str, kind: str, ids: tuple[str, ...], wrong: NDArray[np.bool_], problem: str) -> None:
    if np.any(wrong):
        raise InputError(f"{source}: {kind} {ids[int(np.argmax(wrong))]} {problem}")
