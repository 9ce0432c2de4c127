"""Registry of backends: gridveil's own, registered ones and those of plug-ins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from gridveil.core.errors import InputError
from gridveil.core.plugins import BACKENDS as PLUG_INS
from gridveil.core.plugins import found_in, plugged_in, unknown
from gridveil.sectors.model import Model
from gridveil.solvers.backend import Backend, Capabilities
from gridveil.solvers.fallback import Fallback
from gridveil.solvers.ipopt import IPOPT, QUICK_FOR_IPOPT, IpoptBackend
from gridveil.solvers.structured.backend import STRUCTURED, StructuredBackend
from gridveil.solvers.veiled import VeiledBackend


@dataclass(frozen=True, kw_only=True)
class BackendEntry:
    """A named backend: its capabilities, and how it is built for a model."""

    capabilities: Capabilities
    build: Callable[[Model, bool], Backend]
    """From the model, and whether the solver shall print its log."""


PRELOAD = ("gridveil.solvers.structured.strategy",)
"""What a first solve imports, for worker processes that all need it."""
# Of the time left, for one solve by Ipopt where several secrets are hidden: it is asked where noisy data can serve no flow at
# all, and then no other way leads to a release.
SHARE_OF_SEVERAL_SECRETS = 0.4


def _structured(model: Model, ipopt: IpoptBackend) -> Backend:
    """The structured solver, with Ipopt behind it: at once where that is quick, after every remedy where it is not."""
    if model.ordinary is not None:
        return Fallback(VeiledBackend(model), ipopt, share=SHARE_OF_SEVERAL_SECRETS)
    if model.program.n_x > QUICK_FOR_IPOPT:
        return Fallback(StructuredBackend(model), ipopt)
    return Fallback(StructuredBackend(model, patient=False), ipopt, last=StructuredBackend(model))


def _known_to_the_structured_solver(model: Model) -> bool:
    return StructuredBackend.capabilities.accepts(model) or VeiledBackend.capabilities.accepts(model)


BACKENDS: dict[str, BackendEntry] = {
    STRUCTURED: BackendEntry(
        capabilities=replace(StructuredBackend.capabilities, accepts=_known_to_the_structured_solver),
        build=lambda model, verbose: _structured(model, IpoptBackend(model.program, verbose=verbose)),
    ),
    IPOPT: BackendEntry(
        capabilities=IpoptBackend.capabilities,
        build=lambda model, verbose: IpoptBackend(model.program, verbose=verbose),
    ),
}


def register_backend(name: str, entry: BackendEntry) -> None:
    """Register a backend under a new name."""
    if name in BACKENDS:
        raise InputError(f"there is a backend {name!r} already; choose another name")
    BACKENDS[name] = entry


def backend_entry(name: str) -> BackendEntry:
    """Look up a backend by name."""
    found: BackendEntry | None = BACKENDS.get(name) or plugged_in(PLUG_INS, name)
    if found is None:
        raise unknown("solver", name, BACKENDS, PLUG_INS)
    return found


def backend_names() -> list[str]:
    """Names of all backends; none of the plug-ins is loaded for this."""
    return list(dict.fromkeys([*BACKENDS, *found_in(PLUG_INS)]))


def backend_for(model: Model, name: str, *, verbose: bool = False) -> Backend:
    """Build the backend of that name for a model; Ipopt's where that one does not accept the model."""
    entry = backend_entry(name)
    if not entry.capabilities.accepts(model):
        entry = BACKENDS[IPOPT]
    return entry.build(model, verbose)
