"""Everything that gridveil has for O(d): the structured solver, then Ipopt, from one public start after another."""

from __future__ import annotations

from gridveil.benchmark.contestant import Answer, Contestant, Problem
from gridveil.benchmark.peers.casadi_ipopt import read_follower
from gridveil.core.methods import Solver
from gridveil.programs import FollowerSolution
from gridveil.sectors.model import build_model
from gridveil.solvers.choose import engine_for
from gridveil.solvers.ipopt import Engine
from gridveil.solvers.structured import warm_up


class WholeFollower(Contestant):
    """The engine's fresh solve, as in ``gridveil solve``."""

    def __init__(self, problem: Problem) -> None:
        warm_up()
        self._network, self._demand = problem.network, problem.served_demand
        self._engine: Engine
        self._solution: FollowerSolution

    def build(self) -> None:
        """Prepare the engine."""
        self._engine = engine_for(self._network, build_model(self._network), Solver.STRUCTURED)
        _ = self._engine.follower.build_seconds

    def solve(self) -> None:
        """Solve, falling back as needed."""
        self._solution = self._engine.solve_afresh(self._demand)

    def answer(self) -> Answer:
        """Read the solution."""
        return read_follower(self._network, self._solution)
