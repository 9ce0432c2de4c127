"""From a grid to the program on the bus graph: everything that depends on neither demands nor the price of moves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gridveil.programs.bus_order import BusOrder, analyse
from gridveil.programs.potentials import fit_potentials
from gridveil.sectors.power.network import Grid
from gridveil.sectors.power.soc_costs import convex_costs
from gridveil.sectors.power.soc_graph.layout import ConeGraph
from gridveil.sectors.power.soc_graph.local_variables import FIXED, LocalVariables, local_variables, shifts
from gridveil.sectors.power.soc_graph.pair_cones import Family, pair_balances, pair_expressions, pair_families
from gridveil.sectors.power.soc_model import BusPairs, bus_pairs, cost_scale

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MEETING_ROOM = 1e-8
"""What a squared magnitude whose limits meet may move to either side: an interior point needs an interior."""
START_LOSS = 30.0
"""α of the first iterate beyond what its magnitudes need: well inside the cone of every pair."""
START_PULL = 0.1
"""Weight, beside 1/z of a pair, that draws magnitudes of the first iterate to one."""
START_MARGIN = 0.1
"""Share of the limits that magnitudes of the first iterate keep from them."""


@dataclass(frozen=True, eq=False, kw_only=True)
class LoweredGrid:
    """The program of a grid; costs are divided by ``scale``, and buses are in elimination order."""

    grid: Grid
    pairs: BusPairs
    order: BusOrder
    graph: ConeGraph
    scale: float
    constant: float
    """Cost of what is not decided, in $/h."""
    draw: Floats
    """(N, 2): what fixed generation draws (a feed is negative)."""
    first_rows: tuple[Ints, ...]
    """The first row of each cone of each family of `pair_cones`."""
    start_x: Floats
    start_y: Floats
    local: LocalVariables
    """The local variables of the graph, in its order, in $/h."""
    fixed: LocalVariables
    """Those that have no room, and are none of the graph."""


def _has_other_elements(grid: Grid) -> bool:
    """Whether there is something that this form has no variables or cones for."""
    elements = len(grid.dc_line.from_bus) + len(grid.compensator.bus)
    return bool(elements or grid.generator.reactive_cost.stated or np.any(np.isfinite(grid.current)))


def lower_grid(grid: Grid, *, moves: bool, limit_losses: bool, shifted: bool = False) -> LoweredGrid | None:
    """Lower a grid, with moves of all load buses or without; None for one that this form does not hold.

    With ``shifted`` demands the last local variables are the `shifts` of all load buses.

    That is a generator whose cost has no convex form between its limits, a branch that joins a bus to itself, DC lines,
    compensators, costs of reactive power and limits on currents.
    """
    generator = grid.generator
    cost = convex_costs(generator.cost, generator.p_min, generator.p_max)
    found = local_variables(grid, cost)
    if found is None or np.any(grid.from_bus == grid.to_bus) or _has_other_elements(grid):
        return None
    every, constant = found
    scale = cost_scale(cost, generator.p_min, generator.p_max)
    pairs = bus_pairs(grid)
    order = analyse(grid.n_bus, pairs.i.astype(np.int64), pairs.j.astype(np.int64), np.zeros(grid.n_bus, dtype=bool))
    position = order.position
    fixed, local = every.pick(every.fixed), every.pick(~every.fixed)
    local = local.beside(shifts(grid)) if shifted else local
    middle = 0.5 * (fixed.lower + fixed.upper)
    draw = np.zeros((grid.n_bus, 2))
    np.subtract.at(draw, (position[fixed.bus], fixed.row), middle)
    constant += float(np.sum(fixed.slope * middle + 0.5 * fixed.curvature * middle**2))
    flow = pair_expressions(grid, pairs)
    stacked = _stack(pair_families(grid, pairs, flow, limit_losses=limit_losses), len(pairs.i))
    move_bus = np.unique(position[grid.load_bus]) if moves else np.zeros(0, np.int64)
    own = _own_rows(grid, order, local, len(pairs.i), len(move_bus))
    n_single = len(own.offset) - 3 * len(move_bus)
    singles = stacked.cone[-1] + 1 + np.arange(n_single)
    cone = np.concatenate([stacked.cone, singles, stacked.cone[-1] + n_single + 3 * (1 + np.arange(len(move_bus)))])
    free = np.zeros(grid.n_bus + 2 * len(pairs.i))
    unpriced = np.zeros(3 * len(move_bus))
    graph = ConeGraph(
        pair_i=position[pairs.i],
        pair_j=position[pairs.j],
        pair_block=order.branch_block,
        balance=pair_balances(pairs, flow),
        shunt=np.stack([grid.bus.shunt.real, -grid.bus.shunt.imag], axis=1)[order.bus_at],
        rows=stacked.rows,
        pair_row=stacked.cone[stacked.pair_cone],
        own_column=own.column,
        own_sign=own.sign,
        offset=np.concatenate([stacked.offset, own.offset]),
        cone=cone.astype(np.int64),
        pair_cone=stacked.pair_cone,
        first_move_cone=len(stacked.cone) - 1 + n_single,
        local_bus=position[local.bus],
        local_row=local.row,
        move_bus=move_bus.astype(np.int64),
        quadratic=np.concatenate([free, local.curvature / scale, unpriced]),
        linear=np.concatenate([free, local.slope / scale, unpriced]),
    )
    start_x, start_y = _start(grid, pairs, order, graph, local)
    return LoweredGrid(
        grid=grid,
        pairs=pairs,
        order=order,
        graph=graph,
        scale=scale,
        constant=constant,
        draw=draw,
        first_rows=stacked.first_rows,
        start_x=start_x,
        start_y=start_y,
        local=local,
        fixed=fixed,
    )


@dataclass(frozen=True, eq=False)
class _StackedRows:
    rows: Floats
    offset: Floats
    cone: Ints
    pair_cone: Ints
    first_rows: tuple[Ints, ...]


def _stack(families: list[Family], n_pair: int) -> _StackedRows:
    """Sort the cones of all families by pair, as rows of G = −(rows of the families) with h = their constants."""
    pair = np.concatenate([family.pair for family in families])
    size = np.concatenate([np.full(len(family.pair), family.constant.shape[1]) for family in families])
    by_pair = np.argsort(pair, kind="stable")
    cone = np.concatenate([[0], np.cumsum(size[by_pair])]).astype(np.int64)
    first = np.empty(len(pair), np.int64)
    first[by_pair] = cone[:-1]
    first_rows = tuple(np.split(first, np.cumsum([len(family.pair) for family in families])[:-1]))
    rows, offset = np.zeros((cone[-1], 4)), np.zeros(cone[-1])
    for family, at in zip(families, first_rows, strict=True):
        places = at[:, None] + np.arange(family.constant.shape[1])
        rows[places], offset[places] = -family.rows, family.constant
    pair_cone = np.concatenate([[0], np.cumsum(np.bincount(pair, minlength=n_pair))]).astype(np.int64)
    return _StackedRows(rows, offset, cone, pair_cone, first_rows)


@dataclass(frozen=True, eq=False)
class _OwnRows:
    column: Ints
    sign: Floats
    offset: Floats


def _own_rows(grid: Grid, order: BusOrder, local: LocalVariables, n_pair: int, n_move: int) -> _OwnRows:
    """Finite limits of w and u, one row each, then −1 for each variable of a move."""
    w_low, w_high = squared_limits(grid)
    room = np.where(w_high - w_low <= FIXED, MEETING_ROOM, 0.0)
    w, u = np.arange(grid.n_bus), grid.n_bus + 2 * n_pair + np.arange(len(local.bus))
    moves = grid.n_bus + 2 * n_pair + len(local.bus) + np.arange(3 * n_move)
    columns, signs, offsets = [], [], []
    for column, sign, limit in (
        (w, -1.0, (w_low - room)[order.bus_at]),
        (w, 1.0, (w_high + room)[order.bus_at]),
        (u, -1.0, local.lower),
        (u, 1.0, local.upper),
    ):
        finite = np.isfinite(limit)
        columns.append(column[finite])
        signs.append(np.full(int(finite.sum()), sign))
        offsets.append(sign * limit[finite])
    return _OwnRows(
        np.concatenate([*columns, moves]).astype(np.int64),
        np.concatenate([*signs, np.full(len(moves), -1.0)]),
        np.concatenate([*offsets, np.zeros(len(moves))]),
    )


def squared_limits(grid: Grid) -> tuple[Floats, Floats]:
    """Limits of w."""
    return np.maximum(grid.bus.v_min, 0.0) ** 2, grid.bus.v_max**2


def _start(
    grid: Grid, pairs: BusPairs, order: BusOrder, graph: ConeGraph, local: LocalVariables
) -> tuple[Floats, Floats]:
    """The first x and y: magnitudes at which least current flows, no angles, generation amid its limits, the mean price."""
    n, n_pair = grid.n_bus, len(pairs.i)
    asked = 2 * np.log(np.abs(pairs.ratio))
    pull = np.full(n, START_PULL)
    level = np.exp(
        fit_potentials(order, graph.pair_i, graph.pair_j, weight=1 / pairs.unit, difference=asked, pull=pull)
    )
    low, high = (limit[order.bus_at] for limit in squared_limits(grid))
    margin = START_MARGIN * (high - low)
    w = np.clip(level, low + margin, high - margin)
    w_i, w_j = w[graph.pair_i] / np.abs(pairs.ratio) ** 2, w[graph.pair_j]
    tilt = 0.5 * (w_i - w_j) / pairs.unit
    alpha = START_LOSS + tilt**2 / (w_i + w_j)
    u = _amid(local.lower, local.upper)
    moves = np.zeros(3 * len(graph.move_bus))  # their sizes follow from the price
    x = np.concatenate([w, np.stack([alpha, np.zeros(n_pair)], axis=1).ravel(), u, moves])
    y = np.zeros((n, 2))
    feeds = local.generator >= 0
    if np.any(feeds):
        at = slice(n + 2 * n_pair, n + 2 * n_pair + len(u))
        y[:, 0] = np.mean((graph.linear[at] + graph.quadratic[at] * u)[feeds])
    return x, y


def _amid(lower: Floats, upper: Floats) -> Floats:
    """The middle of limits; where one is missing, zero, or one beyond the other if that is not inside."""
    both = np.isfinite(lower) & np.isfinite(upper)
    middle = 0.5 * (np.where(both, lower, 0.0) + np.where(both, upper, 0.0))
    return np.where(both, middle, np.clip(0.0, lower + 1.0, upper - 1.0))
