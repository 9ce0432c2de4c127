"""Publish networks whose customer demands are differentially private, feasible and true to cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gridveil.api.case import GridCase
    from gridveil.api.load import load
    from gridveil.privacy.ledger import Ledger
    from gridveil.programs import ParametricProgram
    from gridveil.sectors.registry import load_case
    from gridveil.service.own_problem import protect

__version__ = "0.1.0"
__all__ = ["GridCase", "Ledger", "ParametricProgram", "__version__", "load", "load_case", "protect"]

_HOMES = {
    "GridCase": "gridveil.api.case",
    "Ledger": "gridveil.privacy.ledger",
    "ParametricProgram": "gridveil.programs",
    "load": "gridveil.api.load",
    "load_case": "gridveil.sectors.registry",
    "protect": "gridveil.service.own_problem",
}


def __dir__() -> list[str]:
    """Show the public names, which are loaded when they are first used."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


def __getattr__(name: str) -> object:
    """Load public names when they are first used, so that importing gridveil stays quick."""
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module 'gridveil' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
