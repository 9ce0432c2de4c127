"""Choices of a release, in a module of their own so that the command line loads no model or solver for them."""

from enum import Enum

DEFAULT_EPSILON, DEFAULT_ALPHA, DEFAULT_BETA = "1", "0.1pu", "1%"
"""The promise and the band where nothing is stated; the α of a base of 100 MVA is then 10 MVA."""


class Formulation(Enum):
    """AC: Model 1 of the paper. DC: the lossless linear form."""

    AC = "ac"
    DC = "dc"


class DemandUnit(Enum):
    """Whose gas demand is one datum: each delivery of the file, or all deliveries at a junction together."""

    DELIVERY = "delivery"
    JUNCTION = "junction"


class DemandBounds(Enum):
    """What released active demands must satisfy: nothing (the paper's setting), or to be zero or more."""

    NONE = "none"
    NONNEGATIVE = "nonnegative"


class Protects(Enum):
    """Whose change a promise hides: one hour of one participant, or the whole profile of one, every hour at once."""

    HOUR = "hour"
    PROFILE = "profile"


class Names(Enum):
    """Whether a release shows what buses and loads are called in the file, or numbers in their place."""

    KEEP = "keep"
    PSEUDONYMS = "pseudonyms"


class CostTargetMode(Enum):
    """Where f̃ comes from.

    PRIVATE: a weighted sum of the true values with noise of its own, and what the noisy values tell. DERIVED: the
    noisy values alone. FORECAST: a number that is given. PUBLIC: the true optimal cost, declared public by the curator.
    """

    PRIVATE = "private"
    DERIVED = "derived"
    FORECAST = "forecast"
    PUBLIC = "public"


class Outages(Enum):
    """What may be switched off in a scenario of a data set: nothing, or one branch or generator."""

    NONE = "none"
    N_1 = "n-1"


class TableLayout(Enum):
    """Whose columns a data set has: PGLearn's, with one row per scenario, or gridfm-datakit's, with one per element."""

    PGLEARN = "pglearn"
    GRIDFM = "gridfm"


class BatchEngine(Enum):
    """What solves batches: a GPU, native code, or the structured solver one by one; AUTO takes the first that is there."""

    AUTO = "auto"
    GPU = "gpu"
    NATIVE = "native"
    STRUCTURED = "structured"
