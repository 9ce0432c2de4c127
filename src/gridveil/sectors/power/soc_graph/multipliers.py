"""From prices and multipliers on the bus graph to multipliers of the rows of `soc.cost_program`.

The program on the graph says the same in fewer variables, so what is missing follows: η has no slope left, which fixes the
multiplier of its definition; a price y_Q presses on one of the limits of reactive generation; and a generator whose cost is
the largest of some lines weighs two of them so that the mixed slope is its price. Limits of w and of generation get none:
the box of the program knows them. Whatever comes out, the caller's bound holds; an error here could only make it loose.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gridveil.programs.conic import Affine, ConeLayout
from gridveil.sectors.power.soc import CostModel
from gridveil.sectors.power.soc_graph.local_variables import reactive_limits
from gridveil.sectors.power.soc_graph.lowering import LoweredGrid, squared_limits
from gridveil.sectors.power.soc_graph.pair_cones import (
    ANGLE_HIGH,
    ANGLE_LOW,
    CUT_HIGH,
    CUT_LOW,
    FLOW_FROM,
    FLOW_TO,
    PRODUCT,
    tight_flows,
)
from gridveil.sectors.power.soc_graph.solve import GraphSolution

Floats = NDArray[np.float64]


def program_multipliers(
    lowered: LoweredGrid, solution: GraphSolution, model: CostModel, rows: Affine, layout: ConeLayout
) -> Floats:
    """Multipliers, in the dual cone, of the stacked rows of the cost program of the same grid."""
    grid = lowered.grid
    n_pair = len(lowered.pairs.i)
    w_fixed, w_below, w_above = _limits(*squared_limits(grid))
    q_fixed, q_below, q_above = _limits(*reactive_limits(grid))
    p_fixed, p_below, p_above = _limits(grid.generator.p_min, grid.generator.p_max)
    price_p, price_q = solution.prices.T
    (_, unit_from), (_, unit_to) = tight_flows(grid)
    zero = [
        np.zeros(w_fixed.sum()),
        np.zeros(n_pair),  # the definition of η, found below
        -price_p,
        -price_q[q_fixed],
        np.zeros(p_fixed.sum()),
    ]
    nonnegative = [
        np.zeros(w_below.sum() + w_above.sum()),
        *(_of_family(lowered, solution, family, 1) for family in (ANGLE_HIGH, ANGLE_LOW, CUT_HIGH, CUT_LOW)),
        -price_q[q_below],
        price_q[q_above],
        np.zeros(p_below.sum() + p_above.sum()),
        _line_weights(model, price_p[grid.generator.bus]),
    ]
    cones = [
        _of_family(lowered, solution, PRODUCT, 4),
        _of_family(lowered, solution, FLOW_FROM, 3) * np.repeat(unit_from, 3),
        _of_family(lowered, solution, FLOW_TO, 3) * np.repeat(unit_to, 3),
    ]
    z = layout.into_dual_cone(np.concatenate([*zero, *nonnegative, *cones]))
    tilt = slice(grid.n_bus + 2 * n_pair, grid.n_bus + 3 * n_pair)
    definition = slice(int(w_fixed.sum()), int(w_fixed.sum()) + n_pair)
    # the slope of the Lagrangian f − zᵀ(Mx + c) in η, where its definition has the coefficient −(unit of the pair)
    slope = (model.program.linear - rows.matrix.transposed_times(z))[tilt]
    z[definition] = -slope / lowered.pairs.unit
    return z


def _limits(lower: Floats, upper: Floats) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    """Which limits `soc_model.constraint_between` writes as equations, as rows from below and as rows from above."""
    fixed = lower == upper
    return fixed, ~fixed & np.isfinite(lower), ~fixed & np.isfinite(upper)


def _of_family(lowered: LoweredGrid, solution: GraphSolution, family: int, size: int) -> Floats:
    rows = lowered.first_rows[family][:, None] + np.arange(size)
    return np.ravel(solution.multipliers[rows])


def _line_weights(model: CostModel, price: Floats) -> Floats:
    """Weights of the lines of each level that add up to its own weight, with a mean slope as near to the price as can be."""
    cost, scale = model.cost, model.weight * model.scale
    weights = np.zeros(len(cost.line_slope))
    if scale == 0.0:
        return weights
    price = price / model.weight
    for level, generator in enumerate(cost.level_generator):
        mine = np.flatnonzero(cost.line_level == level)
        mine = mine[np.argsort(cost.line_slope[mine], kind="stable")]
        slopes = cost.line_slope[mine]
        wanted = float(np.clip(price[generator] - cost.linear[generator], slopes[0], slopes[-1]))
        above = int(np.searchsorted(slopes, wanted))
        below = max(above - 1, 0)
        rise = slopes[above] - slopes[below]
        share = (wanted - slopes[below]) / rise if rise > 0 else 1.0
        weights[mine[below]] += scale * (1 - share)
        weights[mine[above]] += scale * share
    return weights
