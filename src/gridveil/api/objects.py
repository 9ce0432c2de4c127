"""Conversion from and to pandapower nets and PyPSA networks, through files in a private temporary folder."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from gridveil.core.choices import Names
from gridveil.core.errors import InputError
from gridveil.core.extras import optional_package
from gridveil.sectors.case import Case, Network
from gridveil.sectors.power.pypsa_files import folder_of_network
from gridveil.sectors.registry import load_case, sector_of, write_network

PANDAPOWER, PYPSA = "pandapower", "pypsa"
FORMATS = {PANDAPOWER: "pandapower-json", PYPSA: "pypsa-csv"}


def read_object(network: Any, names: Names | None = None) -> Case:
    """Load a case from a pandapower net or from a PyPSA network."""
    package = type(network).__module__.partition(".")[0]
    if package not in FORMATS:
        raise InputError(
            f"cannot load a {type(network).__name__}; give a path, a built-in name, a pandapower net or a PyPSA network"
        )
    with _private_folder() as folder:
        path = _write_pandapower(network, folder) if package == PANDAPOWER else folder_of_network(network, folder)
        return replace(
            load_case(str(path), names), name=str(getattr(network, "name", "")).strip() or f"{package} network"
        )


def to_pandapower(network: Network, sites: NDArray[Any], title: str) -> Any:
    """Create a pandapower net with these demands (per unit, one per site)."""
    _refuse_without_form(network, FORMATS[PANDAPOWER])
    pandapower = optional_package(PANDAPOWER, PANDAPOWER)
    with _private_folder() as folder:
        path = write_network(network, sites, folder, FORMATS[PANDAPOWER], title=title)
        return pandapower.from_json(str(path))


def to_pypsa(network: Network, sites: NDArray[Any], title: str) -> Any:
    """Create a PyPSA network with these demands (per unit, one per site)."""
    _refuse_without_form(network, FORMATS[PYPSA])
    pypsa = optional_package(PYPSA, PYPSA)
    with _private_folder() as folder:
        path = write_network(network, sites, folder, FORMATS[PYPSA], title=title)
        return pypsa.Network(str(path))


def _write_pandapower(net: Any, folder: Path) -> Path:
    path = folder / "network.json"
    optional_package(PANDAPOWER, PANDAPOWER).to_json(net, str(path))
    return path


def _refuse_without_form(network: Network, file_format: str) -> None:
    sector = sector_of(network)
    if not sector.writes(file_format):
        raise InputError(f"a {sector.kind} network has no form in pandapower or PyPSA; use save(folder) instead")


@contextmanager
def _private_folder() -> Iterator[Path]:
    """Temporary folder that only this user can read, as true demands pass through it."""
    with tempfile.TemporaryDirectory(prefix="gridveil-") as folder:
        yield Path(folder)
