"""The choices that shape a program; apart, so that the command line can name them without loading the models."""

from enum import Enum


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
