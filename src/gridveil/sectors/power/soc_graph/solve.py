"""Solve the relaxation of a lowered grid for given demands, with moves at a price or without."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from gridveil.sectors.power.soc_graph import interior_point
from gridveil.sectors.power.soc_graph.layout import ConeGraph, ConePoint
from gridveil.sectors.power.soc_graph.lowering import LoweredGrid

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]

LARGEST_GAP = 1e-6
"""Relative, between both objectives: beyond it a value is not worth the name."""
LARGEST_RESIDUAL = 1e-6
"""Relative to the data of the rows: beyond it prices are not."""


class GraphEnding(Enum):
    """How the iteration ended."""

    CONVERGED = interior_point.CONVERGED
    ROUNDED = interior_point.ROUNDED
    """No direction is exact enough any more."""
    DIVERGED = interior_point.DIVERGED
    """Prices beyond all bounds, or numbers that are not finite: most likely nothing can serve the demands."""
    STUCK = interior_point.STUCK
    """No step stays inside the cones."""
    SINGULAR = interior_point.SINGULAR
    """The Newton matrix has no factors."""
    TOO_MANY = interior_point.TOO_MANY
    """The limit on iterations."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Midway:
    """An iterate on the way to an optimum, from which programs of other demands and costs on the same graph may start."""

    point: ConePoint
    scale: float
    """The unit of its multipliers."""
    price: float | None
    """That of moves, in $/h per unit."""

    def start(self, graph: ConeGraph, scale: float, price: float | None) -> ConePoint:
        """The same point in another unit; moves get shorter as their price rises, so that all products stay what they were."""
        x, y, s, z = (part.copy() for part in self.point)
        y *= self.scale / scale
        z *= self.scale / scale
        if price and self.price:
            n_moves, rise = 3 * len(graph.move_bus), price / self.price
            x[len(x) - n_moves :] /= rise
            s[len(s) - n_moves :] /= rise
            z[len(z) - n_moves :] *= rise
        return ConePoint(x, y, s, z)


@dataclass(frozen=True, eq=False, kw_only=True)
class GraphSolution:
    """The last iterate: its dual objective in $/h, prices of buses and multipliers of the rows of G in $/h per unit."""

    ending: GraphEnding
    iterations: int
    value: float
    gap: float
    """Between the objectives, in $/h."""
    residual: float
    """The largest of all rows, relative to their data."""
    prices: Floats
    """(N, 2): of P and Q at each bus of the grid."""
    multipliers: Floats
    local: Floats
    """Values of the local variables."""
    midway: Midway | None
    """None where the iteration did not get so far."""

    @property
    def accurate(self) -> bool:
        """Whether value and prices are those of an optimum, however the iteration ended."""
        return self.within(LARGEST_GAP, LARGEST_RESIDUAL)

    def within(self, gap: float, residual: float) -> bool:
        """Whether the iterate is finite and misses optimality by no more, both relative."""
        finite = bool(np.isfinite(self.value) and np.all(np.isfinite(self.prices)))
        return finite and self.gap <= gap * max(1.0, abs(self.value)) and self.residual <= residual


def solve_on_graph(
    lowered: LoweredGrid,
    demand: Complexes,
    price: float | None = None,
    gap_tolerance: float = interior_point.GAP_TOLERANCE,
    near: Midway | None = None,
) -> GraphSolution:
    """Solve for P + jQ of each site of grid.load_bus; ``price`` in $/h per unit belongs to a grid lowered with moves.

    ``near`` is of a similar solve, to start from.
    """
    graph = lowered.graph
    if price is not None:
        linear = graph.linear.copy()
        linear[len(linear) - 3 * len(graph.move_bus) :: 3] = price / lowered.scale
        graph = graph._replace(linear=linear)
    return solve_graph(
        lowered,
        graph,
        demand,
        scale=lowered.scale,
        constant=lowered.constant,
        gap_tolerance=gap_tolerance,
        near=near,
        price=price,
    )


def solve_graph(
    lowered: LoweredGrid,
    graph: ConeGraph,
    demand: Complexes,
    *,
    scale: float,
    constant: float,
    gap_tolerance: float = interior_point.GAP_TOLERANCE,
    near: Midway | None = None,
    price: float | None = None,
) -> GraphSolution:
    """The same for any objective over the variables of the lowered grid, which is that of ``graph`` times scale, plus constant."""
    position = lowered.order.position
    draw = lowered.draw.copy()
    at = position[lowered.grid.load_bus]
    np.add.at(draw[:, 0], at, demand.real)
    np.add.at(draw[:, 1], at, demand.imag)
    rows = len(graph.offset)
    point = ConePoint(lowered.start_x.copy(), lowered.start_y.copy(), np.zeros(rows), np.zeros(rows))
    if near is not None:
        point = near.start(graph, scale, price)
    midway, figures = ConePoint(*(np.empty_like(part) for part in point)), np.zeros(3)
    ending, iterations, has_midway = interior_point.run(
        graph, lowered.order.pattern, draw, point, near is not None, gap_tolerance, midway, figures
    )
    objective, gap, residual = figures.tolist()
    # at a stationary point the Lagrangian is −½xᵀHx + yᵀdraw − zᵀh
    dual = np.sum(draw * point.y) - graph.offset @ point.z - 0.5 * graph.quadratic @ point.x**2
    local = len(position) + 2 * len(graph.pair_i)
    return GraphSolution(
        ending=GraphEnding(ending),
        iterations=iterations,
        value=scale * float(dual) + constant,
        gap=scale * max(gap, abs(objective - float(dual))),
        residual=residual,
        prices=scale * point.y[position],
        multipliers=scale * point.z,
        local=point.x[local : local + len(graph.local_bus)],
        midway=Midway(point=midway, scale=scale, price=price) if has_midway else None,
    )
