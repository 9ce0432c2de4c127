"""What kernels/releases.cuh is called with: of releases in rows, what happens to points between two solves."""

from __future__ import annotations

from enum import IntEnum
from functools import cache
from typing import Any

import numpy as np

from gridveil.solvers.batch.layout import KERNELS, UNBOUNDED, Declared, declarations, filled, solver_settings
from gridveil.solvers.batch.lowering import places
from gridveil.solvers.batch.network import BatchNetwork
from gridveil.solvers.batch.starts import StartKind

_INT, _REAL, _INTS, _REALS, _OUT = "int", "double", "const int*", "const double*", "double*"
ROW_STRUCTURES: Declared = {
    "RowNet": [
        *((name, _INT) for name in ("n_bus", "n_local", "n_dispatch_local", "n_joint", "n_dispatch", "n_demand")),
        *((name, _REAL) for name in ("joint_scale", "dispatch_scale", "constant", "steepest")),
        *((name, _INTS) for name in ("generation", "demand_at", "load_at")),
        *((name, _REALS) for name in ("bounds", "low", "high", "choices")),
    ],
    "RowState": [
        *((name, _OUT) for name in ("places", "noisy", "solution", "normal", "task", "scale", "row_scale")),
        *((name, _OUT) for name in ("joint_p", "joint_q", "local", "rows", "joint_start", "joint_from", "joint_found")),
        *((name, _OUT) for name in ("dispatch_p", "dispatch_q", "dispatch_start", "dispatch_from", "dispatch_found")),
    ],
}
"""As in layout.py: stated once, and written out for C++ and NumPy."""
WIDE, ANSWERED = 18, 3
"""Numbers that an operation is given about a row, and gives back."""
OF_TASK = 5
"""Numbers of a joint problem that are kept for its check: kind, cost low and high, δ, least value of the cut."""
PLACES = 4
"""For points of a row: the base, the high point, the one that was known before, and the last one reached may all differ."""
_SETTINGS = ("DISTANCE_SCALE", "DISTANCE_GRADIENT", "LEAST_RADIUS_SQUARED", "LEAST_WEIGHT", "FIXED_WIDTH", "RELAXATION",
             "LEAST_COST_WEIGHT", "NEARBY")  # fmt: skip


class Operation(IntEnum):
    """The operations of releases.cuh, in their order."""

    BEGIN_JOINT = 0
    KEEP_JOINT = 1
    BEGIN_DISPATCH = 2
    KEEP_DISPATCH = 3
    END_ROW = 4


@cache
def row_source() -> str:
    """The whole program."""
    constants = {name: solver_settings()[name] for name in _SETTINGS} | {"UNBOUNDED": UNBOUNDED}
    lines = [f"constexpr double {name} = {value!r};" for name, value in constants.items()]
    source = (KERNELS / "releases.cuh").read_text(encoding="utf-8")
    return "\n".join([*lines, f"constexpr long long PLACES = {PLACES};", declarations(ROW_STRUCTURES), source])


def row_structures(net: dict[str, Any], state: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """``RowNet`` and ``RowState``."""
    return filled("RowNet", net, ROW_STRUCTURES), filled("RowState", state, ROW_STRUCTURES)


def row_tables(dispatches: BatchNetwork, joint: BatchNetwork, box: dict[str, Any], xp: Any) -> dict[str, Any]:
    """The fields of ``RowNet``, in the memory of ``xp``; ``box`` are bounds on demands, if there are any."""
    there, linear = places(joint, np), np.abs(dispatches.tables["local"].reshape(-1, 4)[:, 3]).max(initial=0.0)

    def ints(values: Any) -> Any:
        return xp.asarray(np.ascontiguousarray(values, np.int32))

    def reals(values: Any) -> Any:
        return xp.asarray(np.ascontiguousarray(values, np.float64))

    return {
        "n_bus": joint.grid.n_bus,
        "n_local": joint.n_local,
        "n_dispatch_local": dispatches.n_local,
        "n_joint": joint.sizes(False)["n_point"],
        "n_dispatch": dispatches.sizes(False)["n_point"],
        "n_demand": 2 * len(joint.grid.load_bus),
        "joint_scale": joint.objective_scale,
        "dispatch_scale": dispatches.objective_scale,
        "constant": float(joint.constants.sum()),
        "steepest": float(max(linear / dispatches.objective_scale, 1.0)),
        "generation": ints(joint.place_of_local[dispatches.local_of]),
        "demand_at": ints(there.demand),
        "load_at": ints(4 * there.load_bus),
        "bounds": reals(there.bounds),
        "low": None if not box else reals(box["low"]),
        "high": None if not box else reals(box["high"]),
        "choices": reals(_dispatch_choices()),
    }


def _dispatch_choices() -> list[list[float]]:
    """Starts of dispatches by ``StartRank``, then that with multipliers: if the point is feasible, and if it is not."""
    near = 2 * start_of(StartKind.NEAR, "NEAR_COST_PUSH", "NEAR_COST_MU")
    elsewhere = start_of(StartKind.AT_POINT, "START_PUSH", "PRIMAL_MU")
    cold = 2 * start_of(StartKind.COLD, "START_PUSH", "MU_DISPATCH")
    thin, softened = (
        2 * start_of(kind, push, mu)
        for kind, push, mu in (
            (StartKind.THIN, "THIN_PUSH", "THIN_MU"),
            (StartKind.SOFTENED, "START_PUSH", "MU_SOFTENED"),
        )
    )
    return [[*near[:3], *elsewhere], near, near, cold, cold, thin, softened, warm_start()]


def start_of(kind: StartKind, push: str, mu: str) -> list[float]:
    """Attempt, distance from bounds and first barrier parameter, by the names of settings."""
    setting = solver_settings()
    return [float(kind), setting[push], setting[mu]]


def warm_start() -> list[float]:
    """With multipliers: hardly moved if feasible."""
    return [
        *start_of(StartKind.WARM, "FEASIBLE_PUSH", "FEASIBLE_MU"),
        *start_of(StartKind.WARM, "WARM_PUSH", "WARM_MU"),
    ]
