"""The Python API for notebooks: load a case, solve it, release it, look at what came of it."""

from gridveil.api.case import GridCase
from gridveil.api.explored import ExploreResult
from gridveil.api.load import load
from gridveil.api.released import CuratorView, ReleaseResult
from gridveil.api.solved import SolveResult

__all__ = ["CuratorView", "ExploreResult", "GridCase", "ReleaseResult", "SolveResult", "load"]
