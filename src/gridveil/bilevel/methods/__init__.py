"""Registry of the bilevel methods."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from gridveil.bilevel.methods.algorithm1 import solve_bilevel
from gridveil.bilevel.methods.auto import solve_auto
from gridveil.bilevel.result import BilevelResult
from gridveil.core.band import CostTarget
from gridveil.core.errors import InputError
from gridveil.core.methods import Method
from gridveil.solvers.backend import Backend

BilevelMethod = Callable[[Backend, NDArray[np.float64], CostTarget], BilevelResult]
"""From a backend, d̃ and the band to d*, or the reason why there is none."""

METHODS: dict[str, BilevelMethod] = {
    Method.AUTO.value: solve_auto,
    Method.BISECTION.value: solve_bilevel,
}


def method_named(name: str | Method) -> BilevelMethod:
    """Look up a method by name."""
    wanted = name.value if isinstance(name, Method) else name
    if wanted not in METHODS:
        raise InputError(f"there is no method {wanted!r}; known are {', '.join(METHODS)}")
    return METHODS[wanted]
