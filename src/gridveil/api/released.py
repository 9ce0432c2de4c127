"""What a release gives back to a notebook: the public part, and apart from it what only the curator may see."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from gridveil.api.frames import demand_frame
from gridveil.api.html import NOTE, facts_html, facts_text
from gridveil.api.objects import to_pandapower, to_pypsa
from gridveil.api.plots import CuratorPlots, ReleasePlots
from gridveil.api.solved import SolveResult, solve_case
from gridveil.bilevel.certificate import Certificate
from gridveil.core.choices import Formulation
from gridveil.core.methods import Solver
from gridveil.core.secret import SecretDemand
from gridveil.privacy.curator import Comparison, demand_table
from gridveil.privacy.ledger import Ledger
from gridveil.privacy.noisy import Draw
from gridveil.report.card_page import card_page
from gridveil.report.curator_page import write_curator_page
from gridveil.sectors.case import Network
from gridveil.sectors.describe import demand_unit
from gridveil.sectors.geometry import read_places
from gridveil.service.card import SIMULATION_NOTICE, card
from gridveil.service.export import CURATOR, SIMULATION_TITLE, TITLE, check_destination, export, list_files
from gridveil.service.pipeline import Release
from gridveil.service.summary import summary

if TYPE_CHECKING:
    import pandas as pd

Made = TypeVar("Made")

CURATOR_WARNING = "Contains true demands: do not share. to_pandas() and plot.scatter() show them."


@dataclass(frozen=True, eq=False, repr=False)
class CuratorView:
    """True demands beside the released ones. Nothing is shown unless it is asked for by name."""

    _release: Release

    @property
    def distances(self) -> Comparison:
        """How far noisy, high-point and released demands are from the true ones, ‖· − d°‖/‖d°‖."""
        return self._release.curator

    @property
    def plot(self) -> CuratorPlots:
        """Plots that show true demands."""
        return CuratorPlots(self._release)

    def to_pandas(self) -> pd.DataFrame:
        """Give true, noisy and released demands of each site (MW and MVAr, or kg/s). Never to be published."""
        release = self._release
        rows = demand_table(release.case, release.draw.noisy, release.released.values)
        _, *columns = zip(*rows, strict=True)
        true, noisy, released = (np.array(column) for column in columns)
        return demand_frame(release.case.network, true=true, noisy=noisy, released=released)

    def __repr__(self) -> str:
        return f"CuratorView({CURATOR_WARNING})"

    def _repr_html_(self) -> str:
        return str(NOTE.format(CURATOR_WARNING))


@dataclass(frozen=True, eq=False, repr=False)
class ReleaseResult:
    """A verified release. Everything here may be published, but for what ``curator`` holds.

    ``_source`` is the file or name that the case came from and ``_ledger`` what the draw was charged to, for the report.
    """

    _release: Release
    _source: str | None = None
    _ledger: Ledger | None = None

    @property
    def status(self) -> str:
        """Always "verified": whatever could not be verified is an error, not a result."""
        return str(self.summary()["status"])

    @property
    def simulation(self) -> bool:
        """Whether the noise was made from a seed, and so protects nobody."""
        return self._release.draw.noisy.simulation

    @property
    def cost(self) -> float:
        """The optimal cost O(d*) of the released demands, as a fresh solve confirmed it."""
        return self._release.released.result.cost

    @property
    def demand(self) -> NDArray[Any]:
        """The released demands d*, per unit, one per site (read-only)."""
        return self._release.released.values

    @property
    def network(self) -> Network:
        """The public network: everything but demands."""
        return self._release.case.network

    @property
    def certificate(self) -> Certificate:
        """What can be proved of the release."""
        return self._release.certificate

    @property
    def card(self) -> dict[str, object]:
        """The public card: the promise, its parameters, and what is not protected."""
        return card(self._release)

    @property
    def draw(self) -> Draw:
        """The noise that was paid for; release(…, reuse=result) uses it again at no cost."""
        return self._release.draw

    @property
    def curator(self) -> CuratorView:
        """What only the curator may see."""
        return CuratorView(self._release)

    @property
    def plot(self) -> ReleasePlots:
        """Plots of public quantities."""
        return ReleasePlots(self._release)

    def summary(self) -> dict[str, object]:
        """Give the public fields of ``gridveil release --json``."""
        return {key: value for key, value in summary(self._release).items() if key != "curator"}

    def to_pandas(self) -> pd.DataFrame:
        """Give the released demands of each site (MW and MVAr, or kg/s)."""
        return demand_frame(self.network, released=self.demand)

    def solve(
        self, *, formulation: Formulation | str = Formulation.AC, solver: Solver | str = Solver.STRUCTURED
    ) -> SolveResult:
        """Solve the optimal flow O(d*) of the released network, as anybody can."""
        case = replace(self._release.case, demand=SecretDemand(self.demand), name=self._title)
        return solve_case(case, formulation, solver, secret=False)

    def to_pandapower(self) -> Any:
        """Give the released network as a pandapower net."""
        return to_pandapower(self.network, self.demand, self._title)

    def to_pypsa(self) -> Any:
        """Give the released network as a PyPSA network."""
        return to_pypsa(self.network, self.demand, self._title)

    def save(self, folder: str | PathLike[str], *, simulation: bool = False) -> list[str]:
        """Write public/ and curator/ into an empty or new folder, and list the files.

        A simulation goes to simulation/ instead of public/, unless ``simulation`` insists.
        """
        target = Path(folder)
        check_destination(target)
        export(
            self._release,
            target,
            simulation_as_public=simulation,
            card_page=lambda facts: _or_warn(lambda: card_page(facts), "the page of the card"),
        )
        _or_warn(lambda: self._write_report(target / CURATOR), "the curator's report")
        return list_files(target)

    def _write_report(self, folder: Path) -> Path:
        places = None if self._source is None else read_places(self._source)
        return write_curator_page(self._release, folder, ledger=self._ledger, places=places)

    @property
    def _title(self) -> str:
        return SIMULATION_TITLE if self.simulation else TITLE

    def _facts(self) -> dict[str, object]:
        fields, release = self.summary(), self._release
        return {
            "status": fields["status"],
            "promise": f"ε = {release.draw.epsilon:g} at α = {release.draw.noisy.mechanism.alpha:g} "
            f"({demand_unit(self.network)})",
            "optimal cost": f"{self.cost:.8g} {release.cost_unit}",
            "cost target": f"{release.target.value:.8g} ± {release.target.beta:.4g} ({release.target.source.value})",
            "squared distance to the noisy demands": fields["delta"],
            "certificate": f"{self.certificate.band} ({self.certificate.relaxation})",
            "optimisations": fields["optimisations"],
            "seconds": fields["seconds"],
        }

    def __repr__(self) -> str:
        kind = "ReleaseResult" if not self.simulation else "ReleaseResult, SIMULATION, NOT PRIVATE"
        return facts_text(kind, {"case": self._release.case.name} | self._facts())

    def _repr_html_(self) -> str:
        note = SIMULATION_NOTICE if self.simulation else ""
        return facts_html(f"Release of {self._release.case.name}", self._facts(), note)


def _or_warn(make: Callable[[], Made], what: str) -> Made | None:
    """Make a page; a release that is verified and written does not fail for one."""
    try:
        return make()
    except Exception as error:
        # Only the kind of error: its words may hold a demand.
        reason = f"{what} could not be made ({type(error).__name__}); the release itself is complete and verified"
        warnings.warn(reason, stacklevel=3)
        return None
