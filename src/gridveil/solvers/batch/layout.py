"""The structures that the kernels are called with: each is stated once, here, and written out for C++ and for NumPy."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from runpy import run_path
from typing import Any

import numpy as np

KERNELS = Path(__file__).parent / "kernels"
SOURCES = (
    "platform.cuh",
    "slot.cuh",
    "rows.cuh",
    "wide.cuh",
    "start.cuh",
    "assemble.cuh",
    "blocks.cuh",
    "factor.cuh",
    "border.cuh",
    "direction.cuh",
    "refine.cuh",
    "search.cuh",
    "branches.cuh",
    "entry.cuh",
)
N_SCALARS = 76
"""Scalars of a slot: the enumeration and the filter in slot.cuh, which the native library is asked to confirm."""
JOINT_ROWS = 2
"""Dense rows of every joint task: the cost band, and a ball or a cut. Totals that are kept are one more each."""
MOST_KEPT = 24
"""Totals that a joint task can keep: rows are eliminated together by one thread, and counted in bits of an integer."""
UNBOUNDED = 1e300
"""Stands for a bound that does not exist."""

_INT, _REAL, _INTS, _REALS, _FLOATS = "int", "double", "const int*", "const double*", "float*"
_KIND = {_INT: "i4", _REAL: "f8"}
_Length = tuple[tuple[int, str], ...]
OFFSETS: dict[str, _Length] = {
    "point": ((4, "n_bus"),),
    "u": ((1, "n_local"),),
    "z_low": ((1, "n_local"),),
    "z_high": ((1, "n_local"),),
    "slack": ((1, "n_limit"),),
    "limit": ((1, "n_limit"),),
    "right": ((4, "n_bus"),),
    "push": ((2, "n_bus"),),
    "diagonal": ((10, "n_bus"),),
    "block": ((16, "n_block"),),
    "draw": ((2, "n_bus"),),
    "trade": ((2, "n_spare_bus"),),
    "surplus": ((1, "n_spare_limit"), (2, "n_spare_bus")),
    "scalar": ((1, "n_scalar"),),
    "own": ((1, "n_own"),),
    "border": ((4, "n_border"),),
    "rows": ((1, "n_row_fields"),),
}
"""Arrays of a slot with their lengths as sums of multiples of sizes, in the order they lie in.

Sizes called spare are those of second-order corrections and soft balances, which lean slots do without.
"""
STEP_OFFSETS: dict[str, _Length] = {
    "x": ((4, "n_bus"),),
    "du": ((1, "n_local"),),
    "dz_low": ((1, "n_local"),),
    "dz_high": ((1, "n_local"),),
    "dtrade": ((2, "n_spare_bus"),),
    "ds": ((1, "n_limit"),),
    "dl": ((1, "n_limit"),),
}
"""Arrays of a step, which a slot holds twice unless it is lean."""
NET_INTS = ("end_ptr", "end", "by_ends", "local_ptr", "local_row", "local_sign", "branch_end", "branch_flag", "bus_flag",
            "fixed", "load_ptr", "load", "level_ptr", "column", "plain", "off_ptr", "off", "source_ptr", "source", "in_ptr",
            "in", "col_ptr", "row")  # fmt: skip
NET_REALS = ("branch", "bus", "start", "local")
SIZES = ("n_bus", "n_branch", "n_local", "n_load", "n_block", "n_levels", "n_limit", "n_point", "n_step", "n_slot")
STRUCTURES: dict[str, list[tuple[str, str]]] = {
    "Net": [
        *((name, _INT) for name in SIZES),
        *((f"o_{name}", _INT) for name in (*OFFSETS, *STEP_OFFSETS)),
        *(
            (name, _INT)
            for name in (
                "varied",
                "lean",
                "soften",
                "max_iterations",
                "cold_iterations",
                "give_up_after",
                "refill",
                "refill_at_once",
                "refill_rounds",
                "trials",
                "correct_until",
            )
        ),
        *((name, _REAL) for name in ("tolerance", "objective_scale", "give_up_price", "most_trade")),
        *((name, _INTS) for name in NET_INTS),
        *((name, _REALS) for name in NET_REALS),
    ],
    "Batch": [
        *((name, _REALS) for name in ("demand_p", "demand_q", "local", "warm", "rows", "start")),
        ("outage", _INTS),
        *((name, "double*") for name in ("cost", "point")),
        *((name, "int*") for name in ("status", "iterations", "factorisations", "feasible", "counter")),
        ("queue", _INTS),
        *((name, "int*") for name in ("ended", "working")),
        ("n_scenarios", _INT),
        ("warm_each", _INT),
    ],
    "Work": [("memory", "double*"), ("softness", _FLOATS), ("n_tiles", _INT)],
}


Declared = dict[str, list[tuple[str, str]]]
"""The fields of structures with their kinds."""


def structure_type(name: str, of: Declared = STRUCTURES) -> np.dtype[Any]:
    """The structure as C++ lays it out."""
    return np.dtype([(field, _KIND.get(kind, "u8")) for field, kind in of[name]], align=True)


def declarations(structures: Declared) -> str:
    """Structures for C++."""
    return "\n".join(
        f"struct {name} {{ {' '.join(f'{kind} {field};' for field, kind in fields)} }};"
        for name, fields in structures.items()
    )


def filled(name: str, values: dict[str, Any], of: Declared = STRUCTURES) -> np.ndarray:
    """One structure, every field given: numbers as they are, arrays by the address of their first entry, none by 0."""
    made = np.zeros(1, structure_type(name, of))
    for field, _ in of[name]:
        made[field] = _plain(values[field])
    return made


def by_value(structure: np.ndarray) -> np.ndarray:
    """A structure without names for its parts: CuPy would first describe every field of a named one, at every launch."""
    return structure.view(f"V{structure.itemsize}")


def _plain(value: Any) -> Any:
    if value is None:
        return 0
    if isinstance(value, np.ndarray):
        return value.ctypes.data
    return value.data.ptr if hasattr(value, "__cuda_array_interface__") else value


def slot_layout(sizes: dict[str, int]) -> dict[str, int]:
    """Offsets ``o_…`` of all arrays of a slot, the length of a step ``n_step`` and of the slot ``n_slot``."""
    found, at = {}, 0
    for name, length in (OFFSETS | STEP_OFFSETS).items():
        found[f"o_{name}"] = at
        at += -(-sum(factor * sizes[size] for factor, size in length) // 2) * 2  # even: see load_run in slot.cuh
    n_step = at - found[f"o_{next(iter(STEP_OFFSETS))}"]
    return found | {"n_step": n_step, "n_slot": at + (n_step if sizes["n_spare_bus"] else 0)}


def row_fields(rows: int) -> int:
    """Numbers that a slot holds about its dense rows: the enumeration in slot.cuh, which the native library confirms."""
    return rows * (22 + rows) + 1


@cache
def solver_settings() -> dict[str, float]:
    """The table of settings of the structured solver, read without importing that package, which needs compiled code."""
    table = run_path(str(Path(__file__).parents[1] / "structured" / "settings.py"))
    return {name: value for name, value in table.items() if name.isupper()}


def kernel_source(rows: int) -> str:
    """The whole program for tasks with so many dense rows: settings of the structured solver, structures, kernels."""
    constants = "\n".join(
        f"constexpr {'int' if isinstance(value, int) else 'double'} {name} = {value!r};"
        for name, value in solver_settings().items()
    )
    kernels = [(KERNELS / name).read_text(encoding="utf-8") for name in SOURCES]
    return "\n".join([f"#define ROWS {rows}", constants, declarations(STRUCTURES), *kernels])
