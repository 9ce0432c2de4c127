"""The way in: from a path or a built-in name to a checked case."""

from __future__ import annotations

from gridveil.formats.builtin import PGLIB_PREFIX, resolve_case
from gridveil.formats.power_read import read_power_file
from gridveil.networks.case import Case
from gridveil.networks.power_case import power_case


def load_case(source: str) -> Case:
    """Read and check a case. ``source`` is a path or a built-in name; what cannot be used is an InputError."""
    path = resolve_case(source)
    return power_case(path.stem.removeprefix(PGLIB_PREFIX), read_power_file(path))
