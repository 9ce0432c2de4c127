"""gridveil's complete follower for O(d): the structured solver, then Ipopt, from several public starts."""

from __future__ import annotations

from gridveil.benchmark.contestant import BenchProblem, Contestant, ContestantAnswer
from gridveil.benchmark.peers.casadi_ipopt import read_follower
from gridveil.core.methods import Solver
from gridveil.sectors.registry import build_model
from gridveil.solvers.backend import Answer, Backend
from gridveil.solvers.registry import backend_for
from gridveil.solvers.solves import Solves
from gridveil.solvers.structured.warm_up import warm_up


class WholeFollower(Contestant):
    """The fresh solve, as in ``gridveil solve``."""

    def __init__(self, problem: BenchProblem) -> None:
        warm_up()
        self._network, self._demand = problem.network, problem.served_demand
        self._backend: Backend
        self._solution: Answer

    def build(self) -> None:
        """Prepare the backend."""
        self._backend = backend_for(build_model(self._network), Solver.STRUCTURED)
        self._backend.prepare()

    def solve(self) -> None:
        """Solve, falling back as needed."""
        self._solution = Solves(self._backend).afresh(self._demand)

    def answer(self) -> ContestantAnswer:
        """Read the solution."""
        return read_follower(self._network, self._solution)
