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
    generator: Ints
    """Whose active power each is, or a part of it; −1 for other variables."""

    @property
    def fixed(self) -> Bools:
        """Which of them have no room."""
        return np.abs(self.upper - self.lower) <= FIXED

    def pick(self, chosen: Bools) -> LocalVariables:
        """Some of them."""
        return LocalVariables(**{name: getattr(self, name)[chosen] for name in LocalVariables.__dataclass_fields__})

    def beside(self, others: LocalVariables) -> LocalVariables:
        """These, then others."""
        names = LocalVariables.__dataclass_fields__
        return LocalVariables(**{name: np.concatenate([getattr(self, name), getattr(others, name)]) for name in names})


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
            pieces.append((bus, 0, low, high, cost.linear[g], 2 * cost.quadratic[g], g))
            continue
        mine = cost.line_level == level[g]
        slopes, starts, intercept = upper_envelope(cost.line_slope[mine], cost.line_intercept[mine], low, high)
        constant += intercept
        ends = np.append(starts[1:], high)
        pieces.append((bus, 0, low, ends[0], slopes[0], 0.0, g))
        pieces += [
            (bus, 0, 0.0, end - start, slope, 0.0, g)
            for slope, start, end in zip(slopes[1:], starts[1:], ends[1:], strict=True)
        ]
    least, most = reactive_limits(grid)
    pieces += [(bus, 1, least[bus], most[bus], 0.0, 0.0, -1) for bus in np.unique(generator.bus)]
    table = np.array(pieces, dtype=float).reshape(-1, 7).T
    return LocalVariables(
        bus=table[0].astype(np.int64),
        row=table[1].astype(np.int64),
        lower=table[2],
        upper=table[3],
        slope=table[4],
        curvature=table[5],
        generator=table[6].astype(np.int64),
    ), constant


def shifts(grid: Grid) -> LocalVariables:
    """What is taken off the demand of each load bus, P and then Q: variables without limits, priced by whoever solves."""
    bus = np.unique(grid.load_bus)
    n, free = 2 * len(bus), np.full(2 * len(bus), np.inf)
    return LocalVariables(
        bus=np.tile(bus, 2),
        row=np.repeat([0, 1], len(bus)),
        lower=-free,
        upper=free,
        slope=np.zeros(n),
        curvature=np.zeros(n),
        generator=np.full(n, -1),
    )


def reactive_limits(grid: Grid) -> tuple[Floats, Floats]:
    """Limits of the sum of reactive generation at each bus."""
    generator, n = grid.generator, grid.n_bus
    least, most = np.zeros(n), np.zeros(n)
    np.add.at(least, generator.bus, generator.q_min)
    np.add.at(most, generator.bus, generator.q_max)
    return least, most
