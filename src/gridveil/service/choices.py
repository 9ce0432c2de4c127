"""The choices of a release; apart, so that the command line can name them without loading the solvers."""

from enum import Enum


class CostTargetMode(Enum):
    """Where f̃ comes from.

    PUBLIC: the true optimal cost, declared public knowledge. FORECAST: a number that is given. PRIVATE: the true cost with
    noise. DERIVED: the optimal cost of the feasible demands nearest to d̃, which spends nothing.
    """

    PUBLIC = "public"
    FORECAST = "forecast"
    PRIVATE = "private"
    DERIVED = "derived"
