"""The choices of a run; apart, so that the command line can name them without loading the solvers."""

from enum import Enum


class EngineChoice(Enum):
    """LOCAL: processes of this machine. DASK: the workers of a running cluster."""

    LOCAL = "local"
    DASK = "dask"
