"""O(d) from several starts: Model 2 is nonconvex, so one start may end in an optimum that is only local."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gridveil.programs import Follower, FollowerSolution
from gridveil.sectors.gas.network import GasNetwork
from gridveil.sectors.gas.ogf import ogf_start, scaled_gas

Vector = NDArray[np.float64]

SAME_COST = 1e-3  # relative: closer costs count as one optimum
RANDOM_RATIO = 0.5  # random starts draw ratios of compressors up to this much above their least
RANDOM_FLOW = 2.0  # standard deviation of random flows, in flow scales


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


def random_starts(network: GasNetwork, d: Vector, *, count: int, seed: int) -> Iterator[Vector]:
    """Draw starts spread over the limits of pressures and ratios, with random flows; d as for ``ogf_start``."""
    rng, gas = np.random.default_rng(seed), scaled_gas(network)
    calm = np.split(ogf_start(network, d), gas.sizes[1:-1])
    lower, upper = gas.pressure_squared
    for _ in range(count):
        ratio = gas.ratio[0] + RANDOM_RATIO * rng.random(len(gas.ratio[0]))
        yield np.concatenate(
            [
                lower + (upper - lower) * rng.random(len(lower)),
                np.clip(calm[1] + RANDOM_FLOW * rng.standard_normal(len(calm[1])), *gas.edge_flow),
                np.clip(calm[2] + RANDOM_FLOW * rng.standard_normal(len(calm[2])), *gas.station_flow),
                np.clip(ratio, *gas.ratio),
            ]
        )
