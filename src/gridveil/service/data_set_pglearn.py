"""Scenarios with their solutions as PGLearn's columns (docs/guides/data-sets.md).

The vectors of solved scenarios are computed where the engine keeps its points, and leave it as float32: a GPU has them in no
time, and nothing else is brought to the host. Signs of multipliers are JuMP's: of ≥ positive, of ≤ negative, of an equation
the derivative of the cost by its right-hand side.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gridveil.core.threads import all_cores
from gridveil.service.data_set_tables import Solved
from gridveil.solvers.batch.check import Answers
from gridveil.solvers.batch.contract import BatchStatus, Points, Scenarios
from gridveil.solvers.batch.lowering import gen_on
from gridveil.solvers.batch.network import BatchNetwork
from gridveil.solvers.batch.solver import host

Array = Any
"""An array of NumPy or CuPy, (B, …)."""
Ints = NDArray[np.int64]
DEVICE_CHUNK = 2_000_000
"""Bus voltages that columns are made of at a time: what is held of each is some hundred bytes."""
HOST_CHUNK = 15_000
"""The same in NumPy, for what fits into a processor's cache."""
Vectors = dict[str, NDArray[np.float32]]
"""Columns of vectors under their names, one row per solved scenario."""

PRIMAL = ("vm", "va", "pg", "qg", "pf", "pt", "qf", "qt")
DUAL = ("kcl_p", "kcl_q", "vm", "pg", "qg", "ohm_pf", "ohm_pt", "ohm_qf", "ohm_qt", "pf", "pt", "qf", "qt", "va_diff",
        "sm_fr", "sm_to")  # fmt: skip
SOLUTION = (*(f"ACOPF/primal/{name}" for name in PRIMAL), *(f"ACOPF/dual/{name}" for name in DUAL))
ALWAYS_ZERO = tuple(f"ACOPF/dual/{name}" for name in ("pf", "pt", "qf", "qt"))
"""Multipliers of limits that follow from others."""
_OF_BUSES = ("vm", "va", "kcl_p", "kcl_q")
_OF_GENERATORS = ("pg", "qg")

# Words of MathOptInterface, which PGLearn's columns use.
_TERMINATION = {
    BatchStatus.CONVERGED: "LOCALLY_SOLVED",
    BatchStatus.ITERATION_LIMIT: "ITERATION_LIMIT",
    BatchStatus.STALLED: "SLOW_PROGRESS",
    BatchStatus.NO_STEP: "SLOW_PROGRESS",
    BatchStatus.UNBALANCED: "LOCALLY_INFEASIBLE",
    BatchStatus.INFEASIBLE: "LOCALLY_INFEASIBLE",
}


def solution_vectors(network: BatchNetwork, scenarios: Scenarios, points: Points, good: Ints, xp: Any = np) -> Vectors:
    """Primal and dual solutions of the scenarios ``good`` (S,), whose points are in the memory of ``xp``."""
    size = max(1, (HOST_CHUNK if xp is np else DEVICE_CHUNK) // network.grid.n_bus)
    made = {name: xp.empty((len(good), _width(network, name)), np.float32) for name in _computed()}
    states = replace(
        scenarios, demand_p=scenarios.demand_p[:, :0], demand_q=scenarios.demand_q[:, :0]
    )  # no need to copy

    def compute(begin: int) -> None:
        rows = good[begin : begin + size]
        at = xp.asarray(rows)
        some = replace(points, **{f.name: getattr(points, f.name)[at] for f in fields(points)})
        for name, part in _vectors(network, states.rows(rows), some, xp).items():
            made[name][begin : begin + size] = part

    _for_each(compute, range(0, len(good), size), all_cores() if xp is np else 1)
    return {name: host(xp, array) for name, array in made.items()}


def _computed() -> tuple[str, ...]:
    return tuple(name for name in SOLUTION if name not in ALWAYS_ZERO)


def _width(network: BatchNetwork, name: str) -> int:
    kind = name.rsplit("/", maxsplit=1)[-1]
    grid = network.grid
    return grid.n_bus if kind in _OF_BUSES else len(grid.gen_bus if kind in _OF_GENERATORS else grid.branch_from)


def _for_each(compute: Callable[[int], None], places: range, threads: int) -> None:
    """Do all places, in as many threads: NumPy computes without the interpreter lock."""
    if threads == 1:
        for place in places:
            compute(place)
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(compute, places))


def _vectors(network: BatchNetwork, scenarios: Scenarios, points: Points, xp: Any) -> dict[str, Array]:
    """The columns of solutions in the memory of ``xp``; of the scenarios all but the demands."""
    grid = network.grid
    on = xp.asarray(gen_on(network, scenarios))
    found = Answers(grid, on, scenarios, points, xp)
    n_branch, net = len(grid.branch_from), found.net
    price = points.price_p + 1j * points.price_q
    flow = xp.concatenate([points.flow_from, points.flow_to], axis=1)
    by_end = found.both_here * -(price[:, net.at_near] + 2.0 * flow * found.power)
    _, by_magnitude = found.voltage_gradient()
    _, slope_low, slope_high = found.slopes
    price_p, price_q = points.price_p[:, net.gen_bus], points.price_q[:, net.gen_bus]
    # At a corner of the cost the slope is the one next to the price.
    by_p = xp.maximum(slope_low - price_p, 0.0) + xp.minimum(slope_high - price_p, 0.0)
    (sent, taken), (at_from, at_to) = ((both[:, :n_branch], both[:, n_branch:]) for both in (found.power, by_end))
    primal = (points.vm, points.va, points.pg, points.qg, sent.real, taken.real, sent.imag, taken.imag)
    bounds = (by_magnitude, on * by_p, on * -price_q)
    ends = (at_from.real, at_to.real, at_from.imag, at_to.imag)
    limits = (points.angle_below - points.angle_above, -points.flow_from, -points.flow_to)
    return dict(zip(_computed(), (*primal, points.price_p, points.price_q, *bounds, *ends, *limits), strict=True))


def pglearn_tables(solved: Solved) -> tuple[pa.Table, pa.Table]:
    """Solved scenarios with inputs, primal and dual solutions; and those without a solution, inputs alone."""
    good = solved.answer.converged
    zeros = np.zeros((int(good.sum()), len(solved.lowered.grid.branch_from)), np.float32)
    solution = _arrow({name: solved.vectors.get(name, zeros) for name in SOLUTION})
    solution["ACOPF/dual/slack_bus"] = pa.array(np.zeros(len(zeros), np.float32))
    return (
        pa.table(_inputs(solved, good) | solution | _meta(solved, good)),
        pa.table(_inputs(solved, ~good) | _meta(solved, ~good)),
    )


def _inputs(solved: Solved, rows: NDArray[np.bool_]) -> dict[str, pa.Array]:
    scenarios = solved.scenarios
    return _arrow(
        {
            "input/pd": scenarios.demand_p[rows],
            "input/qd": scenarios.demand_q[rows],
            "input/gen_status": solved.gen_on[rows],
            "input/branch_status": solved.branch_on[rows],
            "input/seed": solved.first + np.flatnonzero(rows),
        }
    )


def _meta(solved: Solved, rows: NDArray[np.bool_]) -> dict[str, pa.Array]:
    """Costs and statuses, which are words of MathOptInterface."""
    answer, numbers = solved.answer, np.flatnonzero(rows)
    found = _words(
        answer.status[rows], lambda code: "FEASIBLE_POINT" if code is BatchStatus.CONVERGED else "NO_SOLUTION"
    )
    named = {
        "ACOPF/meta/seed": solved.first + numbers,
        "ACOPF/meta/formulation": pa.repeat("ACOPF", len(numbers)),
        "ACOPF/meta/primal_objective_value": answer.cost[rows],
        "ACOPF/meta/primal_status": found,
        "ACOPF/meta/dual_status": found,
        "ACOPF/meta/termination_status": _words(
            answer.status[rows], lambda code: _TERMINATION.get(code, "NUMERICAL_ERROR")
        ),
        "gridveil/status": _words(answer.status[rows], lambda code: code.name),
        "gridveil/iterations": answer.iterations[rows],
        "gridveil/residual": answer.residuals[rows].max(axis=1),
        "gridveil/by_cpu": answer.by_cpu[rows],
    }
    return {name: column if isinstance(column, pa.Array) else pa.array(column) for name, column in named.items()}


def _words(status: NDArray[np.int32], word: Callable[[BatchStatus], str]) -> pa.Array:
    """A word for each status, looked up outside of the interpreter."""
    return pa.array([word(BatchStatus(code)) for code in range(len(BatchStatus))]).take(pa.array(status))


def _arrow(columns: dict[str, NDArray[Any]]) -> dict[str, pa.Array]:
    """Vectors become fixed-size lists, of float32 or bool."""
    return {name: _column(array) for name, array in columns.items()}


def _column(array: NDArray[Any]) -> pa.Array:
    if array.ndim == 1:
        return pa.array(array)
    flat = array.reshape(-1)
    values = pa.array(flat if flat.dtype == bool else flat.astype(np.float32, copy=False))
    return pa.FixedSizeListArray.from_arrays(values, array.shape[1])
