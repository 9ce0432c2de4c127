"""How the bilevel problem is solved; apart, so that the command line can name it without loading the solvers."""

from enum import Enum


class Method(Enum):
    """How the bilevel problem is solved."""

    BISECTION = "bisection"
