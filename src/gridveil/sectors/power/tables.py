"""Contents of a power case file as plain columns in the file's own units (MW, MVAr, degrees, per unit on base_mva)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gridveil.core.secret import SecretValues
from gridveil.sectors.case import ValuesOverTime
from gridveil.sectors.power.given_names import NO_NAMES, GivenNames

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False, kw_only=True)
class BusTable:
    """Buses; shunts are the total of the bus, in MW and MVAr at 1 p.u. voltage."""

    id: Ints
    isolated: Bools
    reference: Bools
    v_min: Floats
    v_max: Floats
    shunt_g: Floats
    shunt_b: Floats
    base_kv: Floats
    area: Ints
    zone: Ints


@dataclass(frozen=True, eq=False, kw_only=True)
class BranchTable:
    """Lines and transformers: impedances in per unit, rate in MVA (0: no limit), angles in degrees, tap 0 means 1.

    ``current`` is the limit of |I| as the apparent power in MVA at 1 p.u. voltage, 0 for none.
    """

    from_id: Ints
    to_id: Ints
    r: Floats
    x: Floats
    g_from: Floats
    b_from: Floats
    g_to: Floats
    b_to: Floats
    rate: Floats
    current: Floats
    tap: Floats
    shift: Floats
    angle_min: Floats
    angle_max: Floats
    in_service: Bools


@dataclass(frozen=True, eq=False, kw_only=True)
class CostCurve:
    """Cost of one output in $/h for MW (or MVAr): polynomial coefficients, highest power first, or (MW, $/h) points."""

    polynomial: tuple[float, ...] = ()
    points: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, eq=False, kw_only=True)
class GeneratorTable:
    """Generators, limits in MW and MVAr."""

    bus_id: Ints
    p_min: Floats
    p_max: Floats
    q_min: Floats
    q_max: Floats
    in_service: Bools
    cost: tuple[CostCurve | None, ...]
    reactive_cost: tuple[CostCurve | None, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class DcLineTable:
    """DC lines: limits in MW and MVAr, loss = loss_0 (MW) + loss_1 · (power drawn at the from end)."""

    from_id: Ints
    to_id: Ints
    p_min: Floats
    p_max: Floats
    """Limits of the power drawn at the from end."""
    loss_0: Floats
    loss_1: Floats
    q_from_min: Floats
    q_from_max: Floats
    q_to_min: Floats
    q_to_max: Floats
    in_service: Bools
    cost: tuple[CostCurve | None, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class StorageTable:
    """Storage units as injections: limits in MW (negative: charging) and MVAr."""

    bus_id: Ints
    p_min: Floats
    p_max: Floats
    q_min: Floats
    q_max: Floats
    in_service: Bools


@dataclass(frozen=True, eq=False, kw_only=True)
class CompensatorTable:
    """Static var compensators: limits of the reactive power fed at 1 p.u. voltage, in MVAr."""

    bus_id: Ints
    b_min: Floats
    b_max: Floats
    in_service: Bools


@dataclass(frozen=True, eq=False, kw_only=True)
class LoadTable:
    """Load sites. Where they are is public; what they draw (MW + j MVAr) is secret from the first moment."""

    bus_id: Ints
    in_service: Bools
    power: SecretValues


@dataclass(frozen=True, eq=False, kw_only=True)
class PowerTables:
    """A whole case file. ``notes`` lists what the reader simplified or left out.

    ``sites_declared`` is False where the list of sites follows the demands. ``unprotected`` names what draws power
    outside the table of loads and is published as the file states it.
    """

    base_mva: float
    bus: BusTable
    branch: BranchTable
    generator: GeneratorTable
    load: LoadTable
    dc_line: DcLineTable
    storage: StorageTable
    compensator: CompensatorTable
    file_format: str
    notes: tuple[str, ...]
    sites_declared: bool
    unprotected: tuple[str, ...]
    given: GivenNames = NO_NAMES
    over_time: ValuesOverTime | None = None
    """Loads in MW + j MVAr at several moments, in the order of ``load``, where the file states them."""
