"""What only the curator may compute: quantities of the true demands themselves."""

from __future__ import annotations

from gridveil.networks.case import Case
from gridveil.networks.model import Model
from gridveil.programs import Follower, FollowerSolution


def solve_true(case: Case, model: Model, follower: Follower) -> FollowerSolution:
    """O(d°): the optimum at the true demands. The result reveals them in part and must stay with the curator."""
    return follower.solve(model.layout.to_program(case.demand.reveal()))
