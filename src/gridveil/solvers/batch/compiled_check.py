"""The independent check of batches, compiled: of every answer, where it lies in the engine's memory, as the kernels wrote it.

The formulas are in kernels/check.cuh, which shares nothing with the kernels that solve: it reads the network as it was before it
was lowered for these. What it needs to know of them is where in an answer each variable and multiplier stands.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridveil.solvers.batch.contract import JointTasks, Scenarios
from gridveil.solvers.batch.engine import Array, Engine
from gridveil.solvers.batch.layout import KERNELS, Declared, declarations, filled, solver_settings
from gridveil.solvers.batch.lowering import gen_on
from gridveil.solvers.batch.network import BatchNetwork

_INT, _REAL, _INTS, _REALS = "int", "double", "const int*", "const double*"
_OF_NETWORK = ("y_own", "y_mutual", "rate", "angle_min", "angle_max", "shunt_g", "shunt_b", "v_min", "v_max", "p_min", "p_max",
               "q_min", "q_max", "cost_0", "cost_1", "cost_2", "line_slope", "line_intercept", "flow_scale")  # fmt: skip
_LISTS = ("branch_from", "branch_to", "end_ptr", "end", "load_ptr", "load", "load_bus", "gen_ptr", "gen", "gen_bus", "line_ptr",
          "is_reference", "bus_at", "part_ptr", "part_at", "qg_at", "limit_at", "load_at")  # fmt: skip
_OF_SCENARIOS = ("p_min", "p_max", "q_min", "q_max", "cost_1", "cost_2")
CHECK_STRUCTURES: Declared = {
    "CheckNet": [
        *((name, _INT) for name in ("n_bus", "n_branch", "n_gen", "n_load", "n_point", "n_kept")),
        ("scale", _REAL),
        *((name, _INTS) for name in _LISTS),
        *((name, _REALS) for name in _OF_NETWORK),
    ],
    "CheckBatch": [
        *((name, _INT) for name in ("n_rows", "n_out", "demand_step", "weight_step", "task_step")),
        ("constant", _REAL),
        *((name, _INTS) for name in ("rows", "branch_out")),
        *((name, _REALS) for name in ("point", "cost", "demand_p", "demand_q", "scale", "row_scale", "kind")),
        ("gen_on", "const bool*"),
        *((name, _REALS) for name in _OF_SCENARIOS),
        *(
            (name, _REALS)
            for name in ("cost_low", "cost_high", "weight_p", "weight_q", "least", "delta", "low", "high")
        ),
        *((name, _REALS) for name in ("kept", "kept_low", "kept_high")),
        ("residuals", "double*"),
    ],
}
"""As in layout.py: stated once, and written out for C++ and NumPy."""
_SETTINGS = ("CORNER", "LEAST_BALL", "LEAST_WEIGHT")
NEAREST, CUT, PUSH = 0, 1, 2
"""Kinds of tasks in check.cuh."""


@cache
def check_source() -> str:
    """The whole program."""
    constants = "\n".join(f"constexpr double {name} = {solver_settings()[name]!r};" for name in _SETTINGS)
    return "\n".join([constants, declarations(CHECK_STRUCTURES), (KERNELS / "check.cuh").read_text(encoding="utf-8")])


def check_structures(net: dict[str, Any], batch: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """What the compiled check is called with: ``CheckNet`` and ``CheckBatch``."""
    return filled("CheckNet", net, CHECK_STRUCTURES), filled("CheckBatch", batch, CHECK_STRUCTURES)


def check_scenarios(engine: Engine, network: BatchNetwork, scenarios: Scenarios, cost: Array, raw: Array) -> Array:
    """(B, 3) scaled residuals of dispatches: primal, dual, complementarity; NaN where an answer is no number.

    ``raw`` (B, n_point) in the engine's memory is as the kernels write it, ``cost`` (B,) are the stated costs in $/h.
    """
    xp = engine.xp
    changed = {name: getattr(scenarios, name) for name in _OF_SCENARIOS}
    given = {name: None if array is None else _reals(xp, array) for name, array in changed.items()}
    if scenarios.branch_out is not None:
        out = np.ascontiguousarray(scenarios.branch_out, np.int32)
        given |= {"branch_out": xp.asarray(out), "n_out": out.shape[1]}
    if scenarios.gen_out is not None:
        given["gen_on"] = xp.asarray(gen_on(network, scenarios))
    given |= demands_in(xp.asarray(scenarios.demand_p), xp.asarray(scenarios.demand_q))
    return _residuals(engine, network, raw, cost, given)


def check_tasks(
    engine: Engine, network: BatchNetwork, tasks: JointTasks, scales: tuple[Array, Array], cost: Array, raw: Array
) -> Array:
    """(B, 3) residuals of joint tasks, as ``check_scenarios``.

    ``scales`` are (B,) that of the objective and (B, 2 + K) those of the dense rows.
    """
    xp, there = engine.xp, tasks.low is not None and tasks.high is not None
    kind = PUSH if tasks.delta is not None else CUT if tasks.least is not None else NEAREST
    numbers = {
        "scale": scales[0],
        "row_scale": scales[1],
        "kind": np.full(len(tasks), float(kind)),
        **{name: getattr(tasks, name) for name in ("cost_low", "cost_high", "least", "delta")},
        **{name: getattr(tasks, name) for name in ("kept", "kept_low", "kept_high")},
        **{name: getattr(tasks, name) if there else None for name in ("low", "high")},
    }
    given: dict[str, Any] = {name: None if array is None else _reals(xp, array) for name, array in numbers.items()}
    if kind == CUT:
        given |= weights_in(*(xp.asarray(array) for array in (tasks.weight_p, tasks.weight_q)))
    given |= demands_in(xp.asarray(tasks.target_p), xp.asarray(tasks.target_q))
    return _residuals(engine, network, raw, cost, given)


def check_rows(engine: Engine, network: BatchNetwork, rows: Array, given: dict[str, Any], constant: float) -> Array:
    """(R, 3) residuals of some rows of arrays in the engine's memory: the fields of ``CheckBatch``, of which all have all rows.

    The costs in them are without the ``constant`` of generators at no output.
    """
    return _run(engine, network, len(rows), {**given, "rows": rows, "constant": constant})


def _residuals(engine: Engine, network: BatchNetwork, raw: Array, cost: Array, given: dict[str, Any]) -> Array:
    more = {"point": _reals(engine.xp, raw), "cost": _reals(engine.xp, cost)}
    return _run(engine, network, len(raw), {**given, **more})


def _run(engine: Engine, network: BatchNetwork, count: int, given: dict[str, Any]) -> Array:
    made = engine.xp.empty((count, 3))
    batch = dict.fromkeys(name for name, _ in CHECK_STRUCTURES["CheckBatch"]) | {"task_step": 1} | given
    if count:
        engine.check(tables_of(network, engine.xp).values, {**batch, "n_rows": count, "residuals": made})
    return made


def _reals(xp: Any, array: Array) -> Array:
    return xp.ascontiguousarray(xp.asarray(array), dtype=np.float64)


def _rows(array: Array) -> Array:
    """Rows of numbers that lie behind each other, as the compiled check reads them; others are copied."""
    plain = array.dtype == np.float64 and array.strides[1] == array.itemsize
    return array if plain else array.astype(np.float64, order="C")


def _step(array: Array) -> int:
    return int(array.strides[0]) // int(array.itemsize)


def demands_in(demand_p: Array, demand_q: Array) -> dict[str, Any]:
    """Active and reactive demands (B, D): rows of either may be parts of longer ones, as far apart in one as in the other."""
    demand_p, demand_q = _rows(demand_p), _rows(demand_q)
    if _step(demand_p) != _step(demand_q):
        demand_p, demand_q = demand_p.copy(), demand_q.copy()
    return {"demand_p": demand_p, "demand_q": demand_q, "demand_step": _step(demand_p)}


def weights_in(weight_p: Array, weight_q: Array) -> dict[str, Any]:
    """Normals of cuts in the same way."""
    found = demands_in(weight_p, weight_q)
    return {"weight_p": found["demand_p"], "weight_q": found["demand_q"], "weight_step": found["demand_step"]}


class _Tables:
    """What the check knows of a network, in the memory of ``xp``, to which it is sent once: the fields of ``CheckNet``."""

    def __init__(self, network: BatchNetwork, xp: Any) -> None:
        lists, numbers = _lists(network), _numbers(network)
        self.values: dict[str, Any] = {
            **{name: xp.asarray(np.ascontiguousarray(lists[name], np.int32)) for name in _LISTS},
            **{name: xp.asarray(np.ascontiguousarray(numbers[name], np.float64)) for name in _OF_NETWORK},
            "n_bus": network.grid.n_bus,
            "n_branch": len(network.grid.branch_from),
            "n_gen": len(network.grid.gen_bus),
            "n_load": len(network.grid.load_bus),
            "n_point": network.sizes(False)["n_point"],
            "n_kept": network.kept,
            "scale": network.objective_scale,
        }


tables_of = lru_cache(maxsize=32)(_Tables)


def _numbers(network: BatchNetwork) -> dict[str, NDArray[np.float64]]:
    """The network's own numbers; admittances of all ends, from ends first, as pairs; lines of costs by generator."""
    grid, by_gen = network.grid, np.argsort(network.grid.line_gen, kind="stable")
    own = {name: getattr(grid, name) for name in _OF_NETWORK if hasattr(grid, name)}
    return own | {
        "y_own": _pairs(np.concatenate([grid.y_ff, grid.y_tt])),
        "y_mutual": _pairs(np.concatenate([grid.y_ft, grid.y_tf])),
        "line_slope": grid.line_slope[by_gen],
        "line_intercept": grid.line_intercept[by_gen],
        "flow_scale": network.flow_scale,
    }


def _pairs(values: NDArray[np.complex128]) -> NDArray[np.float64]:
    return np.stack([values.real, values.imag], axis=1)


def _lists(network: BatchNetwork) -> dict[str, NDArray[Any]]:
    """What is at each bus; and where in an answer of the kernels each variable and multiplier stands."""
    grid, n_segment = network.grid, len(network.segment_gen)
    n_bus, n_gen, n_load = grid.n_bus, len(grid.gen_bus), len(grid.load_bus)
    found: dict[str, NDArray[Any]] = {
        name: getattr(grid, name) for name in ("branch_from", "branch_to", "load_bus", "gen_bus")
    }
    near = np.concatenate([grid.branch_from, grid.branch_to])
    for name, place in (("end", near), ("load", grid.load_bus), ("gen", grid.gen_bus)):
        found[f"{name}_ptr"], found[name] = _by_place(place, n_bus)
    found["line_ptr"], _ = _by_place(grid.line_gen, n_gen)
    local = 4 * n_bus + network.place_of_local
    found["part_ptr"], of_gen = _by_place(network.segment_gen, n_gen)
    demands = local[network.n_local - 2 * n_load :] if network.rows else np.zeros(0, np.int64)
    return found | {
        "is_reference": np.isin(np.arange(n_bus), grid.reference),
        "bus_at": 4 * network.position,
        "part_at": local[:n_segment][of_gen],
        "qg_at": local[n_segment : n_segment + n_gen],
        "limit_at": 4 * n_bus + 3 * network.n_local + network.branch_place,
        "load_at": demands,
    }


def _by_place(place: NDArray[Any], count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(count + 1,) where the things at each place begin in a list of them by place, and that list."""
    order = np.argsort(place, kind="stable")
    return np.searchsorted(place[order], np.arange(count + 1)), order
