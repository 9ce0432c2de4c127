"""pandapower nets and PyPSA networks in and out, by way of files in a private folder that is deleted at once."""

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
from gridveil.sectors.gas.network import GasNetwork
from gridveil.sectors.load import load_case
from gridveil.sectors.publish import write_network

PANDAPOWER, PYPSA = "pandapower", "pypsa"
FORMATS = {PANDAPOWER: "pandapower-json", PYPSA: "pypsa-csv"}


def read_object(network: Any) -> Case:
    """Give the case of a pandapower net or of a PyPSA network with one snapshot."""
    package = type(network).__module__.partition(".")[0]
    if package not in FORMATS:
        raise InputError(
            f"cannot load a {type(network).__name__}; give a path, a built-in name, a pandapower net or a PyPSA network"
        )
    with _private_folder() as folder:
        path = _write_pandapower(network, folder) if package == PANDAPOWER else _write_pypsa(network, folder)
        return replace(load_case(str(path)), name=str(getattr(network, "name", "")).strip() or f"{package} network")


def to_pandapower(network: Network, sites: NDArray[Any], title: str) -> Any:
    """Give a pandapower net with these demands (per unit, one per site)."""
    power, pandapower = _power_only(network), _package(PANDAPOWER)
    with _private_folder() as folder:
        path = write_network(power, sites, folder, FORMATS[PANDAPOWER], title=title)
        return pandapower.from_json(str(path))


def to_pypsa(network: Network, sites: NDArray[Any], title: str) -> Any:
    """Give a PyPSA network with these demands (per unit, one per site)."""
    power, pypsa = _power_only(network), _package(PYPSA)
    with _private_folder() as folder:
        path = write_network(power, sites, folder, FORMATS[PYPSA], title=title)
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
    """Put what a component is given for the one snapshot among its fixed values, and forget results."""
    for name in list(component.dynamic):
        series = component.dynamic[name]
        if not series.empty and str(component.defaults.at[name, "status"]).startswith("Input"):
            component.static.loc[series.columns, name] = series.iloc[0]
        component.dynamic[name] = series.iloc[:, :0]


def _power_only(network: Network) -> Network:
    if isinstance(network, GasNetwork):
        raise InputError("a gas network has no form in pandapower or PyPSA; use save(folder) instead")
    return network


def _package(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise InputError(f"{name} is not installed; install it with: pip install 'gridveil[{name}]'") from None


@contextmanager
def _private_folder() -> Iterator[Path]:
    """A folder that only this user can read, gone on leaving: true demands pass through it."""
    with tempfile.TemporaryDirectory(prefix="gridveil-") as folder:
        yield Path(folder)
