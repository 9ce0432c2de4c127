"""Which equations describe the flow; apart, so that the command line can name them without loading the models."""

from enum import Enum


class Formulation(Enum):
    """AC: Model 1 of the paper. DC: the lossless linear form."""

    AC = "ac"
    DC = "dc"
