"""A power network for batches: the arrays of the kernels and those of the independent check, on disk as one .npz file."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gridveil.core.errors import InputError
from gridveil.solvers.batch.layout import (
    JOINT_ROWS,
    MOST_KEPT,
    N_SCALARS,
    NET_INTS,
    NET_REALS,
    UNBOUNDED,
    row_fields,
    slot_layout,
    solver_settings,
)

if TYPE_CHECKING:
    from gridveil.sectors.power.arrays import OpfArrays

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

GRID_FIELDS = ("branch_from", "branch_to", "y_ff", "y_ft", "y_tf", "y_tt", "rate", "angle_min", "angle_max", "shunt_g",
               "shunt_b", "v_min", "v_max", "reference", "gen_bus", "p_min", "p_max", "q_min", "q_max", "cost_0", "cost_1",
               "cost_2", "line_gen", "line_slope", "line_intercept", "load_bus")  # fmt: skip
COSTS = ("cost_0", "cost_1", "cost_2")


@dataclass(frozen=True, eq=False, kw_only=True)
class PlainGrid:
    """The arrays of ``OpfArrays`` that batches know, without the packages that building them takes; costs are of P alone."""

    branch_from: Ints
    branch_to: Ints
    y_ff: NDArray[np.complex128]
    y_ft: NDArray[np.complex128]
    y_tf: NDArray[np.complex128]
    y_tt: NDArray[np.complex128]
    rate: Floats
    angle_min: Floats
    angle_max: Floats
    shunt_g: Floats
    shunt_b: Floats
    v_min: Floats
    v_max: Floats
    reference: Ints
    gen_bus: Ints
    p_min: Floats
    p_max: Floats
    q_min: Floats
    q_max: Floats
    cost_0: Floats
    cost_1: Floats
    cost_2: Floats
    line_gen: Ints
    line_slope: Floats
    line_intercept: Floats
    load_bus: Ints

    @property
    def n_bus(self) -> int:
        """Number of buses."""
        return len(self.v_min)


@dataclass(frozen=True, eq=False, kw_only=True)
class BatchNetwork:
    """One network, lowered for the kernels: N buses in elimination order, L branches, n local variables.

    Local variables are the segments of active generation (S), the reactive generation (G) and, for joint tasks, what active
    and reactive demands deviate by from their targets (2 D), sorted by bus; ``local_of`` (n,) says which of these each is.
    Limits: 4 per branch (flow from, flow to, angle above, angle below), then 2 per bus (magnitude above, below).
    """

    grid: PlainGrid
    tables: dict[str, NDArray[Any]]
    """The arrays of the structure ``Net`` by name."""
    position: Ints
    """(N,) where each bus stands in the elimination order."""
    swapped: NDArray[np.bool_]
    """(L,) branches that the kernels see from their other end."""
    flow_scale: Floats
    """(L,) factor on the limits of |S|²."""
    local_of: Ints
    segment_gen: Ints
    """(S,) generator of each segment."""
    constants: Floats
    """(G,) cost of each generator at no output of its segments."""
    objective_scale: float
    kept: int = 0
    """Totals of demands that its joint tasks keep."""

    @property
    def n_local(self) -> int:
        """Number of local variables."""
        return len(self.local_of)

    @property
    def rows(self) -> int:
        """Dense rows of its tasks: none if demands are given."""
        return JOINT_ROWS + self.kept if self.n_local > len(self.segment_gen) + len(self.grid.gen_bus) else 0

    @property
    def own_fields(self) -> int:
        """Numbers that a scenario, or task, brings of each local variable: bounds, share in the objective and in dense rows."""
        return 3 + self.rows if self.rows else 4

    @property
    def row_bounds(self) -> int:
        """Numbers about the dense rows of a task: two bounds each, and the curvature of a ball."""
        return 2 * self.rows + 1

    def keeping(self, kept: int) -> BatchNetwork:
        """The same network for joint tasks that keep so many totals."""
        if not self.rows or kept > MOST_KEPT:
            raise InputError(f"batches keep at most {MOST_KEPT} totals, in joint tasks")
        return replace(self, kept=kept)

    @cached_property
    def place_of_local(self) -> Ints:
        """(n,) where the kernels have each local variable."""
        at = np.empty(self.n_local, np.int64)
        at[self.local_of] = np.arange(self.n_local)
        return at

    def sizes(self, varied: bool, lean: bool = False) -> dict[str, int]:
        """Sizes and offsets of ``Net``; ``varied`` if scenarios bring their own bounds and costs, ``lean`` see layout.py."""
        table, grid = self.tables, self.grid
        n_bus, n_branch, n_local = grid.n_bus, len(grid.branch_from), self.n_local
        n_limit = 4 * n_branch + 2 * n_bus
        counts = {
            "n_bus": n_bus,
            "n_branch": n_branch,
            "n_local": n_local,
            "n_load": len(grid.load_bus),
            "n_block": len(table["row"]),
            "n_levels": len(table["level_ptr"]) - 1,
            "n_limit": n_limit,
            "n_point": 4 * n_bus + 3 * n_local + n_limit + 2 * self.rows,
        }
        more = {
            "n_scalar": N_SCALARS,
            "n_own": self.own_fields * n_local if varied else 0,
            "n_border": self.rows * n_bus,
            "n_row_fields": row_fields(self.rows) if self.rows else 0,
            "n_spare_bus": 0 if lean else n_bus,
            "n_spare_limit": 0 if lean else n_limit,
        }
        return counts | slot_layout(counts | more)

    @cached_property
    def branch_place(self) -> Ints:
        """(L, 4) where the limits of each branch stand among the kernels' limits, in the branch's own orientation."""
        own = 4 * np.arange(len(self.swapped))[:, None] + np.arange(4)
        return np.where(self.swapped[:, None], own[:, [1, 0, 3, 2]], own)

    def save(self, path: Path, **more: NDArray[Any]) -> None:
        """Write everything to one .npz file, with other arrays beside it."""
        plain = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("grid", "tables")}
        grid = {f"grid_{name}": getattr(self.grid, name) for name in GRID_FIELDS}
        tables = {f"table_{name}": array for name, array in self.tables.items()}
        everything: dict[str, Any] = {**plain, **grid, **tables, **more}
        np.savez_compressed(path, **everything)


def load_network(path: Path) -> BatchNetwork:
    """Read what ``BatchNetwork.save`` wrote."""
    with np.load(path) as file:
        grid = PlainGrid(**{name: file[f"grid_{name}"] for name in GRID_FIELDS})
        tables = {name: file[f"table_{name}"] for name in (*NET_INTS, *NET_REALS)}
        others = ("position", "swapped", "flow_scale", "local_of", "segment_gen", "constants")
        return BatchNetwork(
            grid=grid,
            tables=tables,
            objective_scale=float(file["objective_scale"]),
            kept=int(file["kept"]),
            **{name: file[name] for name in others},
        )


def lower_network(arrays: OpfArrays, *, joint: bool = False) -> BatchNetwork:
    """Lower a network: order, fill, levels and gathering lists, found once; for dispatches, or for ``joint`` tasks."""
    from gridveil.solvers.structured.lowering import cost_segments, ordered_grid
    from gridveil.solvers.structured.problem import Dispatch
    from gridveil.solvers.structured.settings import FIXED_WIDTH
    from gridveil.solvers.structured.tasks import lower_task
    from gridveil.solvers.structured.warm import cold_start

    _refuse_elements(arrays)
    if joint and len(arrays.line_output):
        raise InputError("joint tasks in batches need costs without pieces; solve such a network one task at a time")
    n_gen, ordered, segments = len(arrays.gen_bus), ordered_grid(arrays), cost_segments(arrays)
    segment_gen = segments.output[segments.output < n_gen]  # reactive power, one segment each, comes after these
    nothing = np.zeros(len(arrays.load_bus))
    task = lower_task(arrays, ordered, segments, Dispatch(demand_p=nothing, demand_q=nothing))
    n_generation, low, high = len(segments.output), segments.low, segments.high
    if not (np.all(np.isfinite(low)) and np.all(np.isfinite(high))):
        raise InputError(
            "a generator has no finite limits: batches need p_min, p_max, q_min and q_max of every generator"
        )
    position = ordered.order.position
    gen_position = position[arrays.gen_bus]
    load_position = position[arrays.load_bus]
    n_free = 2 * len(load_position) if joint else 0
    loads = [load_position, load_position] if joint else []
    bus = np.concatenate([gen_position[segment_gen], gen_position, *loads])
    local_of = np.argsort(bus, kind="stable")
    scale = task.objective.scale
    cost = scale * np.stack([task.cost.quadratic[:n_generation], task.cost.linear[:n_generation]])
    free = high - low > FIXED_WIDTH
    low, high = relaxed_bounds(low, high, free)
    demands = np.tile([-UNBOUNDED, UNBOUNDED, 0.0, 0.0], (n_free, 1))
    local = np.concatenate([np.stack([low, high, *cost], axis=1), demands])[local_of]
    row = np.repeat([0, 1, 0, 1], [len(segment_gen), n_gen, n_free // 2, n_free // 2])[local_of]
    sign = np.repeat([1, -1], [n_generation, n_free])[local_of]
    start = cold_start(ordered.data, task.data, ordered.no_load, task.start[task.free], 1.0).x
    tables = _branch_tables(ordered, task.data.active, start)
    tables |= _pattern_tables(ordered.order.pattern, tables.pop("branch_blocks"))
    tables |= {
        "local": local,
        "local_row": row,
        "local_sign": sign,
        "local_ptr": np.searchsorted(bus[local_of], np.arange(arrays.n_bus + 1)),
    }
    load = np.argsort(load_position, kind="stable")
    tables |= {"load": load, "load_ptr": np.searchsorted(load_position[load], np.arange(arrays.n_bus + 1))}
    kinds = dict.fromkeys(NET_INTS, np.int32) | dict.fromkeys(NET_REALS, np.float64)
    constants = arrays.cost_0[:n_gen].copy()
    constants[np.unique(arrays.line_output)] += _line_constants(arrays)
    return BatchNetwork(
        grid=_plain_grid(arrays),
        tables={name: np.ascontiguousarray(tables[name], kind) for name, kind in kinds.items()},
        position=position,
        swapped=ordered.swapped,
        flow_scale=ordered.data.flow_scale,
        local_of=local_of,
        segment_gen=segment_gen,
        constants=constants,
        objective_scale=float(scale),
    )


def _refuse_elements(arrays: OpfArrays) -> None:
    """Refuse what the kernels do not know."""
    n_gen = len(arrays.gen_bus)
    priced = any(np.any(cost[n_gen:]) for cost in (arrays.cost_0, arrays.cost_1, arrays.cost_2))
    present = {
        "DC lines": len(arrays.dc_from) > 0,
        "static var compensators": len(arrays.svc_bus) > 0,
        "current limits": bool(np.any(np.isfinite(arrays.current))),
        "reactive costs": priced or bool(np.any(arrays.line_output >= n_gen)),
    }
    if any(present.values()):
        found = ", ".join(name for name, there in present.items() if there)
        raise InputError(
            f"batches do not know {found}; solve such a network by itself, one set of demands at a time (gridveil solve)"
        )


def _plain_grid(arrays: OpfArrays) -> PlainGrid:
    own = {name: getattr(arrays, name) for name in GRID_FIELDS if name != "line_gen"}
    own |= {name: own[name][: len(arrays.gen_bus)] for name in COSTS}
    return PlainGrid(**own, line_gen=arrays.line_output)


def opf_arrays(plain: dict[str, Any]) -> OpfArrays:
    """The arrays of the structured solver from the fields of a plain grid."""
    from gridveil.sectors.power.arrays import OpfArrays

    n_gen = len(plain["gen_bus"])
    own: dict[str, Any] = {name: plain[name] for name in GRID_FIELDS if name != "line_gen"}
    own |= {name: np.concatenate([own[name], np.zeros(n_gen)]) for name in COSTS}
    own |= dict.fromkeys(("dc_from", "dc_to", "svc_bus"), np.zeros(0, np.int64))
    own |= dict.fromkeys(("dc_min", "dc_max", "dc_loss_0", "dc_loss_1", "svc_min", "svc_max"), np.zeros(0))
    return OpfArrays(**own, line_output=plain["line_gen"], current=np.full(len(plain["rate"]), np.inf))


def relaxed_bounds(low: Any, high: Any, free: Any, xp: Any = np) -> tuple[Any, Any]:
    """Bounds relaxed a little where a variable is free, met in the middle where it is not; ``xp`` is their array module."""
    share = solver_settings()["RELAXATION"]
    middle = 0.5 * (low + high)
    return (
        xp.where(free, low - share * xp.maximum(1.0, xp.abs(low)), middle),
        xp.where(free, high + share * xp.maximum(1.0, xp.abs(high)), middle),
    )


def _line_constants(arrays: OpfArrays) -> Floats:
    """Cost of each generator with lines at no output of its segments."""
    from gridveil.sectors.power.costs import upper_envelope

    found = []
    for k in np.unique(arrays.line_output):
        mine = arrays.line_output == k
        slope, intercept = arrays.line_slope[mine], arrays.line_intercept[mine]
        found.append(upper_envelope(slope, intercept, float(arrays.p_min[k]), float(arrays.p_max[k]))[2])
    return np.array(found, dtype=float)


def _branch_tables(ordered: Any, active: NDArray[np.bool_], start: Floats) -> dict[str, Any]:
    """Branch and bus constants, the ends of each branch (from, to, block·2 + is first), and the branch ends of each bus.

    These are (branch·2 + is to, far bus, block·2 + is first).
    """
    data = ordered.data
    n_bus, n_branch = len(data.v_low), len(data.branch_from)
    first = np.zeros(n_branch, bool)
    first[np.unique(data.branch_block, return_index=True)[1]] = True
    branch = np.arange(n_branch)
    ends = np.concatenate(
        [
            np.stack([2 * branch, data.branch_to, 2 * data.branch_block + first], axis=1),
            np.stack([2 * branch + 1, data.branch_from, np.zeros(n_branch, np.int64)], axis=1),
        ]
    )
    owner = np.concatenate([data.branch_from, data.branch_to])
    # The first branch of a block writes it, later ones add: branches of one bus stay in their order.
    order = np.lexsort((ends[:, 0], owner))
    has_rate = np.isfinite(data.rate_squared)
    constants = np.column_stack(
        [
            data.flow.reshape(n_branch, 12),
            np.where(has_rate, data.rate_squared, 0.0),
            np.where(has_rate, data.flow_scale, 0.0),
            np.where(np.isfinite(data.angle_high), data.angle_high, 0.0),
            np.where(np.isfinite(data.angle_low), data.angle_low, 0.0),
            1.0 / data.branch_admittance,
        ]
    )
    of_branch, of_bus = active[: 4 * n_branch].reshape(4, n_branch), active[4 * n_branch :].reshape(2, n_bus)
    return {
        "end": ends[order].reshape(-1),
        "end_ptr": np.searchsorted(owner[order], np.arange(n_bus + 1)),
        "by_ends": np.argsort(-np.bincount(owner, minlength=n_bus), kind="stable"),
        "branch_end": np.stack([data.branch_from, data.branch_to, 2 * data.branch_block + first], axis=1).reshape(-1),
        "branch": constants.reshape(-1),
        "branch_flag": (of_branch * np.array([[1], [2], [4], [8]])).sum(axis=0),
        "bus_flag": (of_bus * np.array([[1], [2]])).sum(axis=0),
        "fixed": data.fixed[:, 0] + 2 * data.fixed[:, 1],
        "bus": np.column_stack([data.shunt, data.v_high, data.v_low, 1.0 / data.bus_admittance]).reshape(-1),
        "start": start.reshape(-1),
        "branch_blocks": np.unique(data.branch_block),
    }


def _pattern_tables(pattern: Any, branch_blocks: Ints) -> dict[str, Any]:
    """Levels of the elimination tree, and per diagonal and off-diagonal block what it gathers."""
    col_ptr, row, col, target = pattern.col_ptr, pattern.row, pattern.col, pattern.target
    n_bus = len(col_ptr) - 1
    level = np.zeros(n_bus, np.int64)
    for j in range(n_bus):
        if col_ptr[j] < col_ptr[j + 1]:
            parent = row[col_ptr[j]]
            level[parent] = max(level[parent], level[j] + 1)
    n_levels = int(level.max()) + 1
    by_row = np.argsort(row, kind="stable")
    in_ptr = np.searchsorted(row[by_row], np.arange(n_bus + 1))
    column = np.lexsort((-np.diff(in_ptr), level))  # longest first, so that lanes share a level evenly
    pairs = [
        (a, b) for j in range(n_bus) for a in range(col_ptr[j], col_ptr[j + 1]) for b in range(a + 1, col_ptr[j + 1])
    ]
    source = np.array(pairs, np.int64).reshape(-1, 2)
    by_target = np.argsort(target, kind="stable")
    count = np.bincount(target, minlength=len(row))
    blocks = np.lexsort((-count, level[col]))
    first = np.searchsorted(target[by_target], np.arange(len(row)))
    gathered = np.concatenate([by_target[first[t] : first[t] + count[t]] for t in blocks] or [np.zeros(0, np.int64)])
    gathered = gathered.astype(np.int64)
    fill = np.ones(len(row), np.int64)
    fill[branch_blocks] = 0
    return {
        "level_ptr": np.searchsorted(level[column], np.arange(n_levels + 1)),
        "column": column,
        "off_ptr": np.searchsorted(level[col][blocks], np.arange(n_levels + 1)),
        "off": 2 * blocks + fill[blocks],
        "plain": (count == 0) & (fill == 0),
        "source_ptr": np.concatenate([[0], np.cumsum(count[blocks])]),
        "source": np.column_stack([source, col[source[:, 0]]])[gathered].reshape(-1),
        "in_ptr": in_ptr,
        "in": np.column_stack([by_row, col[by_row]]).reshape(-1),
        "col_ptr": col_ptr,
        "row": row,
    }
