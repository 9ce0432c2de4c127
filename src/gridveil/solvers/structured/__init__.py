"""The structured interior-point solver for AC optimal power flow and the problems built on it.

One 4×4 block per bus, factored on the bus graph in an order found once per network; docs/structured-solver.md has the
mathematics. Compiled code (numba) is imported on first use, not here.
"""

from gridveil.solvers.structured.problem import (
    Cut,
    DemandBox,
    Dispatch,
    Multipliers,
    Nearest,
    Push,
    Residuals,
    Solution,
    SolveStatus,
    Task,
)
from gridveil.solvers.structured.solver import StructuredSolver

__all__ = [
    "Cut",
    "DemandBox",
    "Dispatch",
    "Multipliers",
    "Nearest",
    "Push",
    "Residuals",
    "Solution",
    "SolveStatus",
    "StructuredSolver",
    "Task",
]
