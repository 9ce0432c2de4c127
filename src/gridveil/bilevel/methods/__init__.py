"""Registry of the bilevel methods: gridveil's own, registered ones and those of plug-ins."""

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
from gridveil.core.plugins import METHODS as PLUG_INS
from gridveil.core.plugins import found_in, plugged_in, unknown
from gridveil.solvers.backend import Backend

BilevelMethod = Callable[[Backend, NDArray[np.float64], CostTarget], BilevelResult]
"""From a backend, d̃ and the band to d*, or the reason why there is none."""

METHODS: dict[str, BilevelMethod] = {
    Method.AUTO.value: solve_auto,
    Method.BISECTION.value: solve_bilevel,
}


def register_method(name: str, method: BilevelMethod) -> None:
    """Register a method under a new name, in this process; a study with worker processes needs a plug-in instead."""
    if name in METHODS:
        raise InputError(f"there is a method {name!r} already; choose another name")
    METHODS[name] = method


def method_named(name: str) -> BilevelMethod:
    """Look up a method by name."""
    found: BilevelMethod | None = METHODS.get(name) or plugged_in(PLUG_INS, name)
    if found is None:
        raise unknown("method", name, METHODS, PLUG_INS)
    return found


def method_names() -> list[str]:
    """Names of all methods; none of the plug-ins is loaded for this."""
    return list(dict.fromkeys([*METHODS, *found_in(PLUG_INS)]))
