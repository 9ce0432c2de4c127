"""O(d) from several starts: Model 2 is nonconvex, so one start may end in an optimum that is only local."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gridveil.programs import Follower, FollowerSolution

Vector = NDArray[np.float64]

SAME_COST = 1e-3  # relative: closer costs count as one optimum


@dataclass(frozen=True, eq=False, kw_only=True)
class MultiStart:
    """The best of several solves, and the costs at which the others converged, ascending."""

    best: FollowerSolution
    costs: tuple[float, ...]
    tried: int

    @property
    def optima(self) -> tuple[float, ...]:
        """The different optima found, ascending: more than one means that some starts end in a local optimum only."""
        found: list[float] = []
        for cost in self.costs:
            if not found or cost - found[-1] > SAME_COST * max(abs(self.costs[0]), abs(cost)):
                found.append(cost)
        return tuple(found)


def solve_from_all(follower: Follower, d: Vector, starts: Sequence[Vector]) -> MultiStart:
    """Solve O(d) from each start and keep the lowest cost that converged (else the last try, as it ended)."""
    solutions = [follower.solve(d, start=start) for start in starts]
    converged = sorted((s for s in solutions if s.converged), key=lambda s: s.cost)
    return MultiStart(
        best=converged[0] if converged else solutions[-1],
        costs=tuple(s.cost for s in converged),
        tried=len(solutions),
    )
