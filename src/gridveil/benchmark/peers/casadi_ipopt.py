"""gridveil's CasADi model with the Ipopt in CasADi's wheel: the fallback for whatever the structured solver does not solve."""

from __future__ import annotations

import numpy as np

from gridveil.benchmark.contestant import BenchProblem, Contestant, ContestantAnswer, Floats, Point
from gridveil.programs import Follower, FollowerSolution
from gridveil.sectors.power.network import PowerNetwork
from gridveil.sectors.registry import build_model
from gridveil.solvers.backend import Answer


class CasadiIpopt(Contestant):
    """Follower on O(d)."""

    def __init__(self, problem: BenchProblem) -> None:
        self._network, self._demand = problem.network, problem.served_demand
        self._follower: Follower
        self._solution: FollowerSolution

    def build(self) -> None:
        """Build the program and compile its derivatives."""
        self._follower = Follower(build_model(self._network).program)
        _ = self._follower.build_seconds

    def solve(self) -> None:
        """Solve from the flat start."""
        self._solution = self._follower.solve(self._demand)

    def answer(self) -> ContestantAnswer:
        """Read the solution."""
        return read_follower(self._network, self._solution)


def read_follower(network: PowerNetwork, found: FollowerSolution | Answer) -> ContestantAnswer:
    """Split a follower's x into angles, magnitudes, active and reactive generation."""
    return ContestantAnswer(
        converged=found.converged,
        detail=found.status.value,
        cost=found.cost,
        iterations=found.iterations,
        point=_point(network, found.x),
    )


def _point(network: PowerNetwork, x: Floats) -> Point:
    grid = network.grid
    n_bus, n_gen = grid.n_bus, len(grid.generator.bus)
    sizes = [n_bus, n_bus, n_gen, n_gen, len(grid.dc_line.from_bus), len(grid.compensator.bus)]
    va, vm, pg, qg, dc, susceptance, _ = np.split(x, np.cumsum(sizes))
    return Point(va=va, vm=vm, pg=pg, qg=qg, dc=dc, susceptance=susceptance)
