"""Choices of method and solver, in a module of their own so that the command line loads no solver for them."""

from enum import Enum


class Method(Enum):
    """AUTO: price cuts and root search. BISECTION: Algorithm 1 exactly as in the paper."""

    AUTO = "auto"
    BISECTION = "bisection"


class Solver(Enum):
    """STRUCTURED: our own for AC power flow, with Ipopt behind it. IPOPT: the general solver for everything."""

    STRUCTURED = "structured"
    IPOPT = "ipopt"
