"""The paper's parametric program (OPT) and the backend that solves it."""

from gridveil.programs.follower import Follower, FollowerSolution
from gridveil.programs.nlp import Bounds, NlpSolution, NlpSolver, Status, Trust
from gridveil.programs.program import ParametricProgram

__all__ = ["Bounds", "Follower", "FollowerSolution", "NlpSolution", "NlpSolver", "ParametricProgram", "Status", "Trust"]
