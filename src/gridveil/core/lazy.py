"""Large libraries that most commands do not need, imported when they are first used.

::

    if TYPE_CHECKING:
        import casadi as ca
    else:
        ca = lazy_module("casadi")
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


class _LazyModule:
    """Stands for a module until one of its names is asked for."""

    def __init__(self, name: str) -> None:
        self.__dict__["_LazyModule__name"] = name

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(import_module(self.__name), attribute)
        self.__dict__[attribute] = found
        return found

    def __repr__(self) -> str:
        return f"<{self.__name}, imported when it is used>"


def lazy_module(name: str) -> Any:
    """A stand-in for a module, which is imported when one of its names is first used."""
    return _LazyModule(name)
