"""Our CasADi model and the Ipopt of its wheel: what solves everything that the structured solver does not."""

from __future__ import annotations

from gridveil.benchmark.contestant import Answer, Contestant, Floats, Point, Problem
from gridveil.programs import Follower, FollowerSolution
from gridveil.sectors.model import build_model
from gridveil.sectors.power.network import PowerNetwork


class CasadiIpopt(Contestant):
    """Follower on O(d)."""

    def __init__(self, problem: Problem) -> None:
        self._network, self._demand = problem.network, problem.served_demand
        self._follower: Follower
        self._solution: FollowerSolution

    def build(self) -> None:
        """Write the program down and compile its derivatives."""
        self._follower = Follower(build_model(self._network).program)
        _ = self._follower.build_seconds

    def solve(self) -> None:
        """Solve from the flat start."""
        self._solution = self._follower.solve(self._demand)

    def answer(self) -> Answer:
        """Read the solution."""
        return read_follower(self._network, self._solution)


def read_follower(network: PowerNetwork, found: FollowerSolution) -> Answer:
    """Split a follower's x into angles, magnitudes, active and reactive generation."""
    return Answer(
        converged=found.converged,
        detail=found.status.value,
        cost=found.cost,
        iterations=found.iterations,
        point=_point(network, found.x),
    )


def _point(network: PowerNetwork, x: Floats) -> Point:
    n_bus, n_gen = network.grid.n_bus, len(network.grid.generator.bus)
    generation = x[2 * n_bus : 2 * (n_bus + n_gen)]
    return Point(va=x[:n_bus], vm=x[n_bus : 2 * n_bus], pg=generation[:n_gen], qg=generation[n_gen:])
