"""Read a gas network file of either format: MatGas (.m) or GasLib (.net, with .scn and .cs beside it)."""

from __future__ import annotations

import re
from pathlib import Path

from gridveil.core.errors import InputError
from gridveil.sectors.gas.tables import GasTables
from gridveil.sectors.sites import AS_STATED, SiteKind, SiteRule

_MATGAS = re.compile(rb"^\s*mg[a-z]\.\w+\s*=", re.MULTILINE)


def is_gas_file(path: Path) -> bool:
    """Whether a file is a gas network: by its ending, or, as power cases are .m files too, by what it assigns to."""
    if path.suffix == ".m" and path.is_file():
        return _MATGAS.search(path.read_bytes()) is not None
    return path.suffix in (".net", ".scn", ".cs")


def read_gas_file(path: Path, sites: SiteRule = AS_STATED) -> GasTables:
    """Read a gas network; anything else is an InputError of one line. GasLib networks declare their sites themselves."""
    if not path.is_file():
        raise InputError(f"{path.name}: no such file; check the path")
    if path.suffix in (".scn", ".cs"):
        raise InputError(
            f"{path.name}: give the network itself ({path.stem}.net); its scenario and stations are found in the same folder"
        )
    if path.suffix != ".net":
        from gridveil.sectors.gas.matgas import read_matgas

        return read_matgas(path, sites)
    if sites.kind is SiteKind.LISTED:
        raise InputError(f"{path.name}: a GasLib network declares its sites as sinks; leave out the list of sites")
    from gridveil.sectors.gas.gaslib import read_gaslib

    return read_gaslib(path)
