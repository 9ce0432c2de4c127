"""Choices of studies and explorations, in a module of their own so that the command line loads no solver for them."""

from enum import Enum


class EngineChoice(Enum):
    """LOCAL: processes of this machine. DASK: the workers of a running cluster.

    GPU, NATIVE: all tasks of a network together, in batches on a GPU or by code compiled for this machine's cores; or portions
    of them, by the workers of a cluster.
    """

    LOCAL = "local"
    DASK = "dask"
    GPU = "gpu"
    NATIVE = "native"


class DemandSource(Enum):
    """SIMULATED: made from public data alone. PUBLIC: those of a benchmark that anybody can read. TRUE: secret, and refused."""

    SIMULATED = "simulated"
    PUBLIC = "public"
    TRUE = "true"
