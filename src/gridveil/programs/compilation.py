"""Whether compiled kernels lie on disk, and whether a command does without them until they do.

Compiling takes two minutes of a processor, once. A command that needs few solves of a small network can ask for general
solvers instead: ``postpone_compilation``. Importing this module does not load numba.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import gridveil

_PYTHON = f"py{sys.version_info.major}{sys.version_info.minor}"
KERNELS = (f"ipm.run-*.{_PYTHON}.*nbc", f"interior_point.*.{_PYTHON}.*nbc")
"""One compiled kernel of the solver, and one of the relaxation, of this version of Python."""

_postponed = False


def compiled_before() -> bool:
    """Whether compiled kernels lie on disk, so that the first release need not compile them."""
    folder = _folder_of_kernels()
    return all(any(folder.rglob(pattern)) for pattern in KERNELS)


def _folder_of_kernels() -> Path:
    """Where numba keeps them: beside the sources, or in the user's cache where that folder cannot be written."""
    package = Path(gridveil.__file__).parent
    if stated := os.environ.get("NUMBA_CACHE_DIR"):
        return Path(stated)
    if os.access(package, os.W_OK):
        return package
    import platformdirs

    return Path(platformdirs.user_cache_dir("numba", appauthor=False))


def postpone_compilation() -> None:
    """Compile nothing in this process: the relaxation is solved by Clarabel, and the caller chooses another solver."""
    global _postponed  # noqa: PLW0603
    _postponed = True


def compilation_is_postponed() -> bool:
    """Whether kernels must not be used, as they would have to be compiled first."""
    return _postponed
