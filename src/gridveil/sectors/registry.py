"""The registry of sectors, and functions that dispatch to them: loading, writing, modelling, describing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from numpy.typing import NDArray

from gridveil.core.choices import DemandBounds, Formulation
from gridveil.core.errors import InputError
from gridveil.core.plugins import SECTORS as PLUG_INS
from gridveil.core.plugins import working
from gridveil.core.secret import Secret, SecretValues
from gridveil.core.secret_choice import SecretChoice
from gridveil.sectors.builtin import is_plainly_power
from gridveil.sectors.case import Case, Network
from gridveil.sectors.gas.sector import GAS
from gridveil.sectors.geometry import Places
from gridveil.sectors.model import Model
from gridveil.sectors.power.case import demand_field
from gridveil.sectors.power.sector import POWER
from gridveil.sectors.power.veiled_network import VeiledNetwork, filled
from gridveil.sectors.power.veiled_network import hide as hide_in_power
from gridveil.sectors.power.veiled_sector import VeiledSector
from gridveil.sectors.program import ProgramSector
from gridveil.sectors.sector import Sector
from gridveil.sectors.sites import AS_STATED, SiteRule

SECTORS: list[Sector] = [cast(Sector, ProgramSector()), GAS, POWER]
"""In the order in which they are asked whether they recognise a source; power, which takes all that is left, comes last."""


BY_DECLARATION: list[Sector] = [cast(Sector, VeiledSector())]
"""Sectors whose cases are not read from a file: a case becomes one of them when more of it is declared secret."""


def register(sector: Sector) -> None:
    """Add a sector; it is asked before those that are already there.

    Call this in the module that defines the class of its networks: then worker processes, which import that module to read a
    network that was sent to them, know the sector too.
    """
    if any(known.kind == sector.kind for known in SECTORS):
        raise ValueError(f"there is a sector {sector.kind} already; give the new one a kind of its own")
    SECTORS.insert(0, sector)


def sector_of(network: Network) -> Sector:
    """Find the sector of a network."""
    own = next((sector for sector in (*SECTORS, *BY_DECLARATION) if sector.kind == network.kind), None)
    found = own or next((sector for sector in working(PLUG_INS) if sector.kind == network.kind), None)
    if found is None:
        raise ValueError(f"no sector {network.kind} is registered; import the module that registers it")
    return found


def load_case(source: str, options: Any = None, *, sites: SiteRule = AS_STATED) -> Case:
    """Read and check a case. ``source`` is a path or a built-in name; what cannot be used is an InputError.

    ``options`` is what the sector needs beyond the file: for gas the boundary conditions, where the file leaves them out.
    ``sites`` says which places have participants. The sites of a built-in case are public, as everybody has its file.
    """
    case = _sector_for(source).read(source, options, sites)
    return case if Path(source).exists() else replace(case, sites_declared=True)


def hide(case: Case, choices: tuple[SecretChoice, ...], public_demand: NDArray[Any] | None) -> Case:
    """Declare more of a case secret, which its sector then moves out of its public network."""
    if sector_of(case.network).kind != POWER.kind:
        raise InputError("only power networks have further secrets (cost, limit, impedance); leave out --secret")
    return hide_in_power(case, choices, public_demand)


def released_case(case: Case, values: NDArray[Any]) -> Case:
    """The case that readers of released values have: an ordinary one, with these values in place of all secrets."""
    network = case.network
    if not isinstance(network, VeiledNetwork):
        return case.with_values(SecretValues(values))
    grid, demand = filled(network, values)
    secret = Secret(field=demand_field(grid), values=SecretValues(demand))
    return replace(case, network=grid, secret=secret)


def read_places(source: str) -> Places:
    """Read names and coordinates of a case that can be loaded. ``source`` is a path or a built-in name."""
    return _sector_for(source).read_places(source)


def file_of(source: str) -> Path | None:
    """Find the file behind a path or a built-in name; None for a built-in network that has none."""
    return _sector_for(source).file_of(source)


def list_names() -> list[str]:
    """List the names that stand for built-in cases."""
    sectors = [*reversed(SECTORS), *working(PLUG_INS)]
    return [name for sector in sectors for name in sector.built_in_names()]


def build_model(
    network: Network, formulation: Formulation = Formulation.AC, bounds: DemandBounds = DemandBounds.NONE
) -> Model:
    """Build the optimal flow of a network; the formulation matters only where its sector has more than one."""
    sector = sector_of(network)
    chosen = formulation if formulation in sector.formulations else sector.formulations[0]
    return sector.model(network, chosen).bounded(bounds)


def write_network(network: Network, values: NDArray[Any], folder: Path, file_format: str, *, title: str) -> Path:
    """Write the public network with released values (per unit), in the source's format where that can be written."""
    return sector_of(network).write(network, values, folder, file_format, title=title)


def read_back(network: Network, path: Path) -> Case:
    """Read a written network as its reader would, values in the same unit as before."""
    return sector_of(network).read_back(network, path)


def describe_case(case: Case) -> dict[str, object]:
    """Describe a case in plain values: counts, what is secret and what is public, and notes of the reader."""
    sector = sector_of(case.network)
    return {
        "case": case.name,
        "format": case.file_format,
        "kind": sector.kind,
        **sector.describe(case.network),
        **({} if case.over_time is None else {"snapshots": len(case.over_time)}),
        "secret": [case.field.meaning],
        "public": [fact.words for fact in sector.public_facts],
        "unprotected": list(case.unprotected),
        "sites_declared": case.sites_declared,
        "notes": list(case.notes),
    }


def _sector_for(source: str) -> Sector:
    """The first sector that recognises a source; plug-ins are asked before power, which takes all that is left."""
    own = next(sector for sector in SECTORS if sector.recognises(source))
    if own is not POWER or is_plainly_power(source):
        return own
    return next((sector for sector in working(PLUG_INS) if sector.recognises(source)), own)
