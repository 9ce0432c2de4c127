"""What a MATPOWER file states and powerio passes over: a refusal where it changes the optimum, else a note."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gridveil.core.errors import InputError
from gridveil.core.text import ranges
from gridveil.sectors.power.matpower_code import MatpowerText

_READ = {"version", "baseMVA", "bus", "gen", "branch", "gencost", "dcline", "dclinecost", "storage", "bus_name"}
_READ |= {"switch", "branch_currents", "static_var_compensator"}
_DESCRIPTIVE = {"areas", "gentype", "genfuel", "time_elapsed"}
_REFUSED = {
    "user-defined constraints or costs": {"A", "l", "u", "N", "H", "Cw", "fparm", "zl", "zu", "z0"},
    "three-phase equipment": {"bus3p", "line3p", "xfmr3p", "load3p", "gen3p", "shunt3p", "buslink"},
    "tap and phase controls": {"branch_oltc_pst"},
}
CURRENT_LIMIT, CURRENT_TABLE = "c_rating_a", "branch_currents"
_STATUS = {"gen": ("generator", 8), "branch": ("branch", 11), "dcline": ("DC line", 3)}
_CURVES = slice(10, 16)  # Pc1, Pc2, Qc1min, Qc1max, Qc2min, Qc2max


def check_matpower(file: MatpowerText) -> list[str]:
    """Refuse what would be misread; list what is simplified."""
    for what, names in _REFUSED.items():
        stated = [name for name in file.columns if name in names]
        if stated:
            raise InputError(
                f"the file has {what} ({', '.join(stated)}), which are not modelled; remove them, or model them otherwise"
            )
    limited = [name for name, columns in file.columns.items() if CURRENT_LIMIT in columns and name != CURRENT_TABLE]
    if limited:
        raise InputError(f"the file limits currents in mpc.{limited[0]}; state them in mpc.{CURRENT_TABLE}")
    for name, (kind, column) in _STATUS.items():
        _check_status(file.table(name), kind, column)
    others = [name for name in file.columns if name not in _READ | _DESCRIPTIVE]
    return [
        *([f"code in the file was evaluated (lines {ranges(file.lines)})"] if file.lines else []),
        *_capability_curves(file.table("gen")),
        *([f"not read: {', '.join(others)}"] if others else []),
    ]


def _check_status(rows: NDArray[np.float64] | None, kind: str, column: int) -> None:
    if rows is None or rows.shape[1] < column:
        return  # powerio refuses the table
    status = rows[:, column - 1]
    odd = np.flatnonzero((status != 0) & (status != 1))
    if odd.size:
        raise InputError(f"{kind} {odd[0] + 1}: its status is neither 0 nor 1; write 1 for in service, or 0")


def _capability_curves(rows: NDArray[np.float64] | None) -> list[str]:
    if rows is None or rows.shape[1] < _CURVES.stop:
        return []
    curved = np.flatnonzero(np.any(rows[:, _CURVES] != 0, axis=1)) + 1
    if not curved.size:
        return []
    return [
        f"capability curves of generators {ranges(curved.tolist())} are not modelled: limits of P and Q hold separately"
    ]
