"""Result of a release, for notebooks: the public part, and separately what only the curator may see."""

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
from gridveil.privacy.curator import Comparison
from gridveil.privacy.ledger import Ledger
from gridveil.privacy.noisy import Draw
from gridveil.report.card_page import card_page
from gridveil.report.curator_page import write_curator_page
from gridveil.sectors.case import Case, Network
from gridveil.sectors.registry import read_places, released_case
from gridveil.service.card import SIMULATION_NOTICE, card
from gridveil.service.publication import Publication
from gridveil.service.publish import CURATOR, SIMULATION_TITLE, TITLE, destination, list_files, publish
from gridveil.service.release import PublicRelease, Release
from gridveil.service.summary import summary

if TYPE_CHECKING:
    import pandas as pd

Made = TypeVar("Made")

CURATOR_WARNING = "Contains true demands: do not share. to_pandas() and plot.scatter() show them."


@dataclass(frozen=True, eq=False, repr=False)
class CuratorView:
    """True demands alongside the released ones. Nothing is displayed unless requested explicitly."""

    _release: Release

    @property
    def distances(self) -> Comparison:
        """How far noisy, high-point and released demands are from the true ones, ‖· − d°‖/‖d°‖."""
        return self._release.curator.comparison

    @property
    def plot(self) -> CuratorPlots:
        """Plots that show true demands."""
        return CuratorPlots(self._release)

    def to_pandas(self) -> pd.DataFrame:
        """True, noisy and released demands of each site (MW and MVAr, or kg/s). Must not be published."""
        made = self._release.public
        rows = self._release.curator.curator.table(made.draw.noisy, made.values)
        _, *columns = zip(*rows, strict=True)
        true, noisy, released = (np.array(column) for column in columns)
        return demand_frame(made.case.network, made.case.field, true=true, noisy=noisy, released=released)

    def __repr__(self) -> str:
        return f"CuratorView({CURATOR_WARNING})"

    def _repr_html_(self) -> str:
        return str(NOTE.format(CURATOR_WARNING))


@dataclass(frozen=True, eq=False, repr=False)
class ReleaseResult:
    """A verified release. Everything may be published except ``curator``.

    ``_case`` is the case it was made from, ``_source`` the file or name that came from and ``_ledger`` what the draw was
    charged to, for the curator's report.
    """

    _release: Release
    _case: Case
    _source: str | None = None
    _ledger: Ledger | None = None

    @property
    def _made(self) -> PublicRelease:
        return self._release.public

    @property
    def status(self) -> str:
        """Always "verified": a release that could not be verified is an error."""
        return str(self.summary()["status"])

    @property
    def simulation(self) -> bool:
        """Whether the noise came from a seed, and so protects nobody."""
        return self._made.simulation

    @property
    def cost(self) -> float:
        """The optimal cost O(d*) of the released demands, confirmed by an independent solve."""
        return self._made.released.result.cost

    @property
    def demand(self) -> NDArray[Any]:
        """The released demands d*, per unit, one per site (read-only)."""
        return self._made.values

    @property
    def network(self) -> Network:
        """The public network: everything but demands."""
        return self._made.case.network

    @property
    def certificate(self) -> Certificate:
        """The certificate of the release."""
        return self._made.certificate

    @property
    def card(self) -> dict[str, object]:
        """The public card: the promise, its parameters, and what is not protected."""
        return card(self._made)

    @property
    def draw(self) -> Draw:
        """The noise that was paid for; release(…, reuse=result) uses it again at no cost."""
        return self._made.draw

    @property
    def curator(self) -> CuratorView:
        """What only the curator may see."""
        return CuratorView(self._release)

    @property
    def plot(self) -> ReleasePlots:
        """Plots of the release, all of public quantities."""
        return ReleasePlots(self._made)

    def summary(self) -> dict[str, object]:
        """The public fields of ``gridveil release --json``."""
        return {key: value for key, value in summary(self._release).items() if key != "curator"}

    def to_pandas(self) -> pd.DataFrame:
        """Released demands of each site (MW and MVAr, or kg/s)."""
        return demand_frame(self.network, self._made.case.field, released=self.demand)

    def solve(
        self, *, formulation: Formulation | str = Formulation.AC, solver: Solver | str = Solver.STRUCTURED
    ) -> SolveResult:
        """Solve the optimal flow O(d*) of the released network, as any user of the data can."""
        case = replace(released_case(self._case, self.demand), name=self._title)
        return solve_case(case, formulation, solver, secret=False)

    def to_pandapower(self) -> Any:
        """The released network as a pandapower net."""
        return to_pandapower(self.network, self.demand, self._title)

    def to_pypsa(self) -> Any:
        """The released network as a PyPSA network."""
        return to_pypsa(self.network, self.demand, self._title)

    def save(
        self,
        folder: str | PathLike[str],
        *,
        simulation: bool = False,
        publisher: str | None = None,
        contact: str | None = None,
        licence: str | None = None,
        title: str | None = None,
    ) -> list[str]:
        """Write public/ and curator/ to an empty or new folder, and return the files.

        A simulation goes to simulation/ instead of public/, unless ``simulation`` insists. The card states ``publisher``,
        ``contact``, ``licence`` and, as ``title``, the name of the network: that of a built-in case, none of a file by default.
        """
        built_in = self._source is not None and not Path(self._source).exists()
        publication = Publication(
            publisher=publisher,
            contact=contact,
            licence=licence,
            network=title or (self._source if built_in else None),
        )
        target = Path(folder)
        with destination(target):
            publish(
                self._release,
                self._case,
                target,
                simulation_as_public=simulation,
                card_page=lambda facts: or_warn(lambda: card_page(facts), "the page of the card"),
                publication=publication,
            )
        if not self._case.field.parts:  # the page compares operating points of one network
            or_warn(lambda: self._write_report(target / CURATOR), "the curator's report")
        return list_files(target)

    def _write_report(self, folder: Path) -> Path:
        places = None if self._source is None else read_places(self._source)
        return write_curator_page(self._release, folder, ledger=self._ledger, places=places)

    @property
    def _title(self) -> str:
        return SIMULATION_TITLE if self.simulation else TITLE

    def _facts(self) -> dict[str, object]:
        fields, release = self.summary(), self._made
        field = release.case.field
        return {
            "status": fields["status"],
            "promise": f"ε = {release.draw.epsilon:g} at α = {release.draw.noisy.mechanism.alpha * field.base:g} {field.unit}",
            "optimal cost": f"{self.cost:.8g} {release.cost_unit}",
            "cost target": f"{release.target.value:.8g} ± {release.target.beta:.4g} ({release.target.source.value})",
            "squared distance to the noisy demands": fields["delta"],
            "certificate": f"{self.certificate.band} ({self.certificate.relaxation})",
            "optimisations": fields["optimisations"],
            "seconds": fields["seconds"],
        }

    def __repr__(self) -> str:
        kind = "ReleaseResult" if not self.simulation else "ReleaseResult, SIMULATION, NOT PRIVATE"
        return facts_text(kind, {"case": self._made.case.name} | self._facts())

    def _repr_html_(self) -> str:
        note = SIMULATION_NOTICE if self.simulation else ""
        return facts_html(f"Release of {self._made.case.name}", self._facts(), note)


def or_warn(make: Callable[[], Made], what: str) -> Made | None:
    """Create a page; a verified and written release does not fail because of it."""
    try:
        return make()
    except Exception as error:
        # Only the kind of error: its words may hold a demand.
        reason = f"{what} could not be made ({type(error).__name__}); the release itself is complete and verified"
        warnings.warn(reason, stacklevel=3)
        return None
