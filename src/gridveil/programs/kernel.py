"""The one place where compiled code is switched on: every numerical kernel is decorated here."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., object])

# Infinities and NaNs keep their meaning: the iteration tests for them, so "nnan" and "ninf" stay off.
_OPTIONS: dict[str, Any] = {
    "cache": True,
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"contract", "arcp", "nsz", "reassoc"},
    "no_cfunc_wrapper": True,
}


def compiled(function: Function) -> Function:
    """Compile ``function`` with numba on first call, without the interpreter lock, and keep the result on disk."""
    return cast(Function, numba.njit(**_OPTIONS)(function))
