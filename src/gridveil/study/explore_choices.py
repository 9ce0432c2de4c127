"""On which demands settings are explored; apart, so that the command line can name it without loading the solvers."""

from enum import Enum


class DemandSource(Enum):
    """SIMULATED: made from public data alone. PUBLIC: those of a benchmark that anybody can read. TRUE: secret, and refused."""

    SIMULATED = "simulated"
    PUBLIC = "public"
    TRUE = "true"
