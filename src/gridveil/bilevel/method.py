"""How the bilevel problem is solved; apart, so that the command line can name it without loading the solvers."""

from enum import Enum


class Method(Enum):
    """AUTO: price cuts and root search. BISECTION: Algorithm 1 exactly as in the paper."""

    AUTO = "auto"
    BISECTION = "bisection"
