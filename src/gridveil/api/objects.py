"""Conversion from and to pandapower nets and PyPSA networks, through files in a private temporary folder."""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from numpy.typing import NDArray

from gridveil.core.errors import InputError
from gridveil.sectors.case import Case, Network
from gridveil.sectors.registry import load_case, sector_of, write_network

PANDAPOWER, PYPSA = "pandapower", "pypsa"
FORMATS = {PANDAPOWER: "pandapower-json", PYPSA: "pypsa-csv"}


def read_object(network: Any) -> Case:
    """Load a case from a pandapower net or from a PyPSA network with one snapshot."""
    package = type(network).__module__.partition(".")[0]
    if package not in FORMATS:
        raise InputError(
            f"cannot load a {type(network).__name__}; give a path, a built-in name, a pandapower net or a PyPSA network"
        )
    with _private_folder() as folder:
        path = _write_pandapower(network, folder) if package == PANDAPOWER else _write_pypsa(network, folder)
        return replace(load_case(str(path)), name=str(getattr(network, "name", "")).strip() or f"{package} network")


def to_pandapower(network: Network, sites: NDArray[Any], title: str) -> Any:
    """Create a pandapower net with these demands (per unit, one per site)."""
    _refuse_without_form(network, FORMATS[PANDAPOWER])
    pandapower = _package(PANDAPOWER)
    with _private_folder() as folder:
        path = write_network(network, sites, folder, FORMATS[PANDAPOWER], title=title)
        return pandapower.from_json(str(path))


def to_pypsa(network: Network, sites: NDArray[Any], title: str) -> Any:
    """Create a PyPSA network with these demands (per unit, one per site)."""
    _refuse_without_form(network, FORMATS[PYPSA])
    pypsa = _package(PYPSA)
    with _private_folder() as folder:
        path = write_network(network, sites, folder, FORMATS[PYPSA], title=title)
        return pypsa.Network(str(path))


def _write_pandapower(net: Any, folder: Path) -> Path:
    path = folder / "network.json"
    _package(PANDAPOWER).to_json(net, str(path))
    return path


def _write_pypsa(net: Any, folder: Path) -> Path:
    if len(net.snapshots) != 1:
        raise InputError(
            f"the PyPSA network has {len(net.snapshots)} snapshots, and a case has one; "
            "load a copy of one, such as net.copy(snapshots=net.snapshots[:1])"
        )
    net.export_to_csv_folder(str(folder / "copy"))  # PyPSA's own copy() refuses solved networks
    still = type(net)(str(folder / "copy"))
    for component in still.components:
        _without_time(component)
    if len(still.generators) and not (still.generators.control == "Slack").any():
        still.generators.loc[still.generators.p_nom.idxmax(), "control"] = "Slack"
    path = folder / "network"
    still.export_to_csv_folder(str(path))
    return path


def _without_time(component: Any) -> None:
    """Move a component's values for the single snapshot to its static values, and drop results."""
    for name in list(component.dynamic):
        series = component.dynamic[name]
        if not series.empty and str(component.defaults.at[name, "status"]).startswith("Input"):
            component.static.loc[series.columns, name] = series.iloc[0]
        component.dynamic[name] = series.iloc[:, :0]


def _refuse_without_form(network: Network, file_format: str) -> None:
    sector = sector_of(network)
    if not sector.writes(file_format):
        raise InputError(f"a {sector.kind} network has no form in pandapower or PyPSA; use save(folder) instead")


def _package(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise InputError(f"{name} is not installed; install it with: pip install 'gridveil[{name}]'") from None


@contextmanager
def _private_folder() -> Iterator[Path]:
    """Temporary folder that only this user can read, as true demands pass through it."""
    with tempfile.TemporaryDirectory(prefix="gridveil-") as folder:
        yield Path(folder)
