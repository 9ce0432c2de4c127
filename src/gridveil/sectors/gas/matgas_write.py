"""Write MatGas files from an allow-list: topology, parameters, pressure limits, delivery sites and released demands.

Nothing is copied from a source file. Columns of the format that could tell demands (set-points, limits and prices of
customers, names, base values) get a neutral value or follow from the released demands.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from gridveil.sectors.gas.tables import MOLAR_MASS_OF_AIR, Floats, PublicGasTables, StationTable

NO_LIMIT = 1e100
ENDS = "fr_junction to_junction"


def matgas_text(tables: PublicGasTables, *, title: str, with_fixed_injections: bool) -> str:
    """Render a MatGas file; ``title`` is the name of its function.

    The injections of receipts that are no slack are needed to solve the network again, but tell much of the total
    demand: the caller must decide. Without them the receipts are written as free, with nominal injection 0.
    """
    numbers = _junction_numbers(tables.junction.id)
    parts = [f"function mgc = {title}", "", *_scalars(tables), ""]
    parts += _junctions(tables, numbers)
    parts += _pipes(tables, numbers)
    parts += _compressors(tables.compressor, tables, numbers)
    parts += _regulators(tables.regulator, numbers)
    parts += _receipts(tables, numbers, with_fixed_injections)
    parts += _deliveries(tables, numbers)
    return "\n".join([*parts, "end", ""])


def _junction_numbers(ids: tuple[str, ...]) -> list[int]:
    """Junction ids of the input when they are numbers; else 1, 2, … because the format has no other ids."""
    if all(name.isdecimal() for name in ids):
        return [int(name) for name in ids]
    return list(range(1, len(ids) + 1))


def _scalars(tables: PublicGasTables) -> list[str]:
    gas = tables.gas
    gravity = None if gas.molar_mass is None else gas.molar_mass / MOLAR_MASS_OF_AIR
    values = {
        "gas_specific_gravity": gravity,
        "gas_molar_mass": gas.molar_mass,
        "specific_heat_capacity_ratio": gas.heat_capacity_ratio,
        "temperature": gas.temperature,
        "compressibility_factor": gas.compressibility,
        "sound_speed": gas.sound_speed,
    }
    lines = [f"mgc.{name} = {value!r};" for name, value in values.items() if value is not None]
    return [*lines, "mgc.units = 'si';", "mgc.is_per_unit = 0;"]


def _junctions(tables: PublicGasTables, numbers: list[int]) -> list[str]:
    junction = tables.junction
    slack = np.isfinite(junction.slack_pressure)
    nominal = np.where(slack, junction.slack_pressure, junction.p_min)
    columns: list[ArrayLike] = [numbers, junction.p_min, junction.p_max, nominal, slack.astype(int), _ones(numbers)]
    return _table("junction", "id p_min p_max p_nominal junction_type status", columns)


def _pipes(tables: PublicGasTables, numbers: list[int]) -> list[str]:
    pipe, link, junction = tables.pipe, tables.link, tables.junction
    columns: list[ArrayLike] = [
        *_edge(pipe.from_junction.tolist(), pipe.to_junction.tolist(), numbers),
        pipe.diameter,
        pipe.length,
        pipe.friction_factor,
        np.minimum(junction.p_min[pipe.from_junction], junction.p_min[pipe.to_junction]),
        np.maximum(junction.p_max[pipe.from_junction], junction.p_max[pipe.to_junction]),
        _ones(pipe.id),
        _limited(pipe.flow_min),
        _limited(pipe.flow_max),
    ]
    names = f"id {ENDS} diameter length friction_factor p_min p_max status flow_min flow_max"
    lines = _table("pipe", names, columns)
    if link.id:
        columns = [*_edge(link.from_junction.tolist(), link.to_junction.tolist(), numbers), _ones(link.id)]
        lines += _table("short_pipe", f"id {ENDS} status", columns)
    return lines


def _compressors(table: StationTable, tables: PublicGasTables, numbers: list[int]) -> list[str]:
    if not table.id:
        return []
    limits = tables.junction
    columns: list[ArrayLike] = [
        *_edge(table.from_junction.tolist(), table.to_junction.tolist(), numbers),
        table.ratio_min,
        table.ratio_max,
        [NO_LIMIT] * len(table.id),
        _limited(table.flow_min),
        _limited(table.flow_max),
        limits.p_min[table.from_junction],
        limits.p_max[table.from_junction],
        limits.p_min[table.to_junction],
        limits.p_max[table.to_junction],
        _ones(table.id),
        _ones(table.id),
        [0] * len(table.id),
    ]
    names = (
        f"id {ENDS} c_ratio_min c_ratio_max power_max flow_min flow_max inlet_p_min inlet_p_max "
        "outlet_p_min outlet_p_max status operating_cost directionality"
    )
    return _table("compressor", names, columns)


def _regulators(table: StationTable, numbers: list[int]) -> list[str]:
    if not table.id:
        return []
    columns: list[ArrayLike] = [
        *_edge(table.from_junction.tolist(), table.to_junction.tolist(), numbers),
        table.ratio_min,
        table.ratio_max,
        _limited(table.flow_min),
        _limited(table.flow_max),
        _ones(table.id),
    ]
    names = f"id {ENDS} reduction_factor_min reduction_factor_max flow_min flow_max status"
    return _table("regulator", names, columns)


def _receipts(tables: PublicGasTables, numbers: list[int], with_fixed_injections: bool) -> list[str]:
    receipt = tables.receipt
    slack = np.flatnonzero(np.isfinite(tables.junction.slack_pressure))
    injection = receipt.injection if with_fixed_injections else np.zeros(len(receipt.injection))
    at = [numbers[place] for place in [*receipt.junction.tolist(), *slack.tolist()]]
    free = [0 if with_fixed_injections else 1] * len(injection) + [1] * len(slack)
    columns: list[ArrayLike] = [
        list(range(1, len(at) + 1)),
        at,
        [0] * len(at),
        [NO_LIMIT] * len(at),
        np.concatenate([injection, np.zeros(len(slack))]),
        free,
        _ones(at),
    ]
    names = "id junction_id injection_min injection_max injection_nominal is_dispatchable status"
    return _table("receipt", names, columns)


def _deliveries(tables: PublicGasTables, numbers: list[int]) -> list[str]:
    at = [numbers[place] for place in tables.delivery_junction.tolist()]
    released = tables.withdrawal
    columns: list[ArrayLike] = [list(range(1, len(at) + 1)), at, released, released, released, [0] * len(at), _ones(at)]
    names = "id junction_id withdrawal_min withdrawal_max withdrawal_nominal is_dispatchable status"
    return _table("delivery", names, columns)


def _edge(start: list[int], end: list[int], numbers: list[int]) -> list[list[int]]:
    return [list(range(1, len(start) + 1)), [numbers[place] for place in start], [numbers[place] for place in end]]


def _limited(values: Floats) -> Floats:
    return np.clip(values, -NO_LIMIT, NO_LIMIT)


def _ones(rows: Sequence[object]) -> list[int]:
    return [1] * len(rows)


def _table(name: str, names: str, columns: Sequence[ArrayLike]) -> list[str]:
    rows = zip(*(np.asarray(column).tolist() for column in columns), strict=True)
    body = ["\t".join(repr(value) for value in row) for row in rows]
    return [f"%% {name} data", f"% {names}", f"mgc.{name} = [", *body, "];", ""]
