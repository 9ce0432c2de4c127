"""The Python API for notebooks: load, solve and release cases, and examine the results."""

from gridveil.api.case import GridCase
from gridveil.api.explored import ExploreResult
from gridveil.api.load import load
from gridveil.api.released import CuratorView, ReleaseResult
from gridveil.api.series import SeriesResult
from gridveil.api.solved import SolveResult

__all__ = ["CuratorView", "ExploreResult", "GridCase", "ReleaseResult", "SeriesResult", "SolveResult", "load"]
