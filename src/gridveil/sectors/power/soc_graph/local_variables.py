"""Variables that belong to one bus: segments of active generation and sums of reactive generation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gridveil.sectors.power.costs import upper_envelope
from gridveil.sectors.power.network import Grid
from gridveil.sectors.power.soc_costs import ConvexCosts

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

FIXED = 1e-9
"""Limits no further apart than this leave nothing to decide: an interior point needs an interior."""


@dataclass(frozen=True, eq=False, kw_only=True)
class LocalVariables:
    """Limits and costs slope·u + ½·curvature·u² of variables that feed P (row 0) or Q (row 1) into a bus."""

    bus: Ints
    row: Ints
    lower: Floats
    upper: Floats
    slope: Floats
    curvature: Floats

    @property
    def fixed(self) -> Bools:
        """Which of them have no room."""
        return np.abs(self.upper - self.lower) <= FIXED

    def pick(self, chosen: Bools) -> LocalVariables:
        """Some of them."""
        return LocalVariables(**{name: getattr(self, name)[chosen] for name in LocalVariables.__dataclass_fields__})


def local_variables(grid: Grid, cost: ConvexCosts) -> tuple[LocalVariables, float] | None:
    """The local variables and the constant of the cost; None where a generator's cost has no convex form.

    A cost that is the largest of some lines has one variable for each line of their upper envelope. Slopes grow from one to the
    next, so an optimum fills them in turn.
    """
    generator, constant = grid.generator, cost.constant
    level = {int(g): k for k, g in enumerate(cost.level_generator)}
    if np.any(np.bincount(cost.line_level, minlength=len(level)) == 0):
        return None
    pieces: list[tuple[float, ...]] = []
    for g, (bus, low, high) in enumerate(zip(generator.bus, generator.p_min, generator.p_max, strict=True)):
        if g not in level:
            pieces.append((bus, 0, low, high, cost.linear[g], 2 * cost.quadratic[g]))
            continue
        mine = cost.line_level == level[g]
        slopes, starts, intercept = upper_envelope(cost.line_slope[mine], cost.line_intercept[mine], low, high)
        constant += intercept
        ends = np.append(starts[1:], high)
        pieces.append((bus, 0, low, ends[0], slopes[0], 0.0))
        pieces += [
            (bus, 0, 0.0, end - start, slope, 0.0)
            for slope, start, end in zip(slopes[1:], starts[1:], ends[1:], strict=True)
        ]
    least, most = reactive_limits(grid)
    pieces += [(bus, 1, least[bus], most[bus], 0.0, 0.0) for bus in np.unique(generator.bus)]
    table = np.array(pieces, dtype=float).reshape(-1, 6).T
    return LocalVariables(
        bus=table[0].astype(np.int64),
        row=table[1].astype(np.int64),
        lower=table[2],
        upper=table[3],
        slope=table[4],
        curvature=table[5],
    ), constant


def reactive_limits(grid: Grid) -> tuple[Floats, Floats]:
    """Limits of the sum of reactive generation at each bus."""
    generator, n = grid.generator, grid.n_bus
    least, most = np.zeros(n), np.zeros(n)
    np.add.at(least, generator.bus, generator.q_min)
    np.add.at(most, generator.bus, generator.q_max)
    return least, most
