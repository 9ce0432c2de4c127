"""Load profiles that a pandapower file brings along, as SimBench attaches them: relative profiles, and which load has which.

A load of p_mw with the profile X draws p_mw·scaling·X_pload and q_mvar·scaling·X_qload, as simbench.get_absolute_values says.
A load without a profile is constant.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gridveil.core.errors import InputError
from gridveil.core.secret import SecretValues
from gridveil.sectors.case import ValuesOverTime
from gridveil.sectors.power.source import pandapower_tables, table_rows
from gridveil.sectors.power.tables import Floats

TIME, PROFILE = "time", "profile"
PARTS = (("p_mw", "_pload"), ("q_mvar", "_qload"))

Row = Mapping[str, Any]


def profiles_of(path: Path) -> ValuesOverTime | None:
    """Loads in MW and MVAr at each moment of the profiles, by row of the table load; None for a file without profiles."""
    stated = json.loads(path.read_bytes())["_object"].get("profiles")
    if not isinstance(stated, dict) or "load" not in stated:
        return None
    profiles = [row for _, row in table_rows("profiles", stated["load"])]
    loads = [row for _, row in pandapower_tables(path).get("load", ())]
    if not profiles or not loads or not any(row.get(PROFILE) for row in loads):
        return None
    if TIME not in profiles[0]:
        raise InputError("the pandapower profiles of loads have no column 'time'; add it")
    active, reactive = (_part(loads, profiles, column, suffix) for column, suffix in PARTS)
    return ValuesOverTime(
        timestamps=tuple(str(row[TIME]) for row in profiles),
        values=tuple(SecretValues(hour) for hour in active + 1j * reactive),
        replace_values=False,
    )


def other_profiles(path: Path) -> list[str]:
    """Note profiles of other elements than loads."""
    stated = json.loads(path.read_bytes())["_object"].get("profiles")
    others = [name for name in stated if name != "load"] if isinstance(stated, dict) else []
    if not others:
        return []
    return [f"profiles of {', '.join(sorted(others))} are not read: limits of generators and storage hold throughout"]


def _part(loads: Sequence[Row], profiles: Sequence[Row], column: str, suffix: str) -> Floats:
    """Values of all loads, one row for each moment."""
    names = [f"{row[PROFILE]}{suffix}" if row.get(PROFILE) else None for row in loads]
    missing = next((name for name in names if name is not None and name not in profiles[0]), None)
    if missing is not None:
        raise InputError(f"a load has the profile {missing}, which the file does not hold; add it")
    size = np.array([_number(row.get(column)) * _number(row.get("scaling", 1.0)) for row in loads])
    shape = {name: np.array([_number(row[name]) for row in profiles]) for name in set(names) if name is not None}
    constant = np.ones(len(profiles))
    table = size * np.stack([constant if name is None else shape[name] for name in names], axis=1)
    if not np.all(np.isfinite(table)):
        raise InputError(f"a load or its profile is no finite number ({column}); mend the file")
    return np.asarray(table)


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else float("nan")
