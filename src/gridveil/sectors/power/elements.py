"""Elements beside buses, branches, generators and loads: DC lines, storage and static var compensators, in per unit."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from gridveil.sectors.power.costs import GeneratorCosts, no_costs

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False, kw_only=True)
class DcLines:
    """Lines that carry a chosen active power p from one bus and deliver (1 − loss_1)·p − loss_0 at the other.

    Each end has reactive power of its own within limits, as a generator has.
    """

    from_bus: Ints
    to_bus: Ints
    p_min: Floats
    p_max: Floats
    """Limits of p, what the line draws at its from end."""
    loss_0: Floats
    loss_1: Floats
    q_from_min: Floats
    q_from_max: Floats
    q_to_min: Floats
    q_to_max: Floats
    cost: GeneratorCosts
    """Cost of p."""
    in_service: Bools


@dataclass(frozen=True, eq=False, kw_only=True)
class StorageUnits:
    """Storage at one moment: an injection within its power limits, free of charge."""

    bus: Ints
    p_min: Floats
    """The largest charging power, negative."""
    p_max: Floats
    q_min: Floats
    q_max: Floats
    in_service: Bools


@dataclass(frozen=True, eq=False, kw_only=True)
class Compensators:
    """Shunts whose susceptance b is chosen between limits: they feed b·|V|² of reactive power."""

    bus: Ints
    b_min: Floats
    b_max: Floats
    in_service: Bools


Element = TypeVar("Element", DcLines, StorageUnits, Compensators)


def no_dc_lines() -> DcLines:
    """Return an empty table."""
    none, bus = np.zeros(0), np.zeros(0, dtype=np.int64)
    return DcLines(
        from_bus=bus,
        to_bus=bus,
        p_min=none,
        p_max=none,
        loss_0=none,
        loss_1=none,
        q_from_min=none,
        q_from_max=none,
        q_to_min=none,
        q_to_max=none,
        cost=no_costs(0),
        in_service=np.zeros(0, dtype=bool),
    )


def no_storage() -> StorageUnits:
    """Return an empty table."""
    none, bus, flags = np.zeros(0), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=bool)
    return StorageUnits(bus=bus, p_min=none, p_max=none, q_min=none, q_max=none, in_service=flags)


def no_compensators() -> Compensators:
    """Return an empty table."""
    none, bus, flags = np.zeros(0), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=bool)
    return Compensators(bus=bus, b_min=none, b_max=none, in_service=flags)


def energised(element: Element, isolated: Bools) -> Bools:
    """Whether each row takes part in the power flow: in service, and none of its buses isolated."""
    buses = [getattr(element, name) for name in _bus_columns(element)]
    return np.asarray(element.in_service & ~np.any([isolated[bus] for bus in buses], axis=0), dtype=bool)


def select(element: Element, kept: Ints, bus_number: Ints) -> Element:
    """Select rows, with their buses renumbered."""
    chosen: dict[str, Any] = {}
    for field in fields(element):
        column = getattr(element, field.name)
        rows: Any = column.select(kept) if isinstance(column, GeneratorCosts) else column[kept]
        chosen[field.name] = bus_number[rows] if field.name in _bus_columns(element) else rows
    return replace(element, **chosen)


def _bus_columns(element: DcLines | StorageUnits | Compensators) -> tuple[str, ...]:
    return ("from_bus", "to_bus") if isinstance(element, DcLines) else ("bus",)
