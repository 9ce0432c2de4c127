"""A released time series, for notebooks."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from gridveil.api.html import facts_html, facts_text
from gridveil.api.released import or_warn
from gridveil.privacy.series_curator import SeriesCurator, SeriesErrors
from gridveil.report.series_page import series_page
from gridveil.service.card import SIMULATION_NOTICE
from gridveil.service.publish import CURATOR, destination
from gridveil.service.series import SeriesRelease
from gridveil.service.series_card import series_card
from gridveil.service.series_publish import hours_frame, publish_series, series_summary

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False, repr=False)
class SeriesResult:
    """A released series. Everything may be published except ``errors``. ``_folder`` is where its draws were stored."""

    _release: SeriesRelease
    _curator: SeriesCurator
    _folder: Path | None = None

    @property
    def simulation(self) -> bool:
        """Whether the noise came from a seed, and so protects nobody."""
        return self._release.draw.simulation

    @property
    def card(self) -> dict[str, object]:
        """The public card: the promise, its parameters, and what is not protected."""
        return series_card(self._release)

    @property
    def errors(self) -> SeriesErrors:
        """How far the released series is from the true one. For the curator alone: never to be published."""
        return self._curator.errors(self._release.values)

    def to_pandas(self) -> pd.DataFrame:
        """Released demands in the form of the table that was given; NaN at hours that are not released."""
        return self._release.layout.frame(self._release.values)

    def hours(self) -> pd.DataFrame:
        """What came of every hour: status, optimal cost, cost target and β."""
        return hours_frame(self._release)

    def summary(self) -> dict[str, object]:
        """The public fields of ``gridveil release --series --json``."""
        return series_summary(self._release)

    def save(self, folder: str | PathLike[str], *, simulation: bool = False) -> list[str]:
        """Write public/ and curator/ to an empty or new folder, or to that of the draws, and return the files.

        A simulation goes to simulation/ instead of public/, unless ``simulation`` insists.
        """
        target = Path(folder)
        begun = target == self._folder and not {path.name for path in target.iterdir()} - {CURATOR}
        with nullcontext() if begun else destination(target):
            return publish_series(
                self._release, self._curator, target, simulation_as_public=simulation, card_page=_page
            )

    def _facts(self) -> dict[str, object]:
        facts = self.summary()
        promise = self.card["promise"]
        assert isinstance(promise, dict)
        return {
            "protects": promise["privacy_unit"],
            "promise": f"ε = {promise['epsilon']:g} at α = {promise['alpha']:g} {promise['unit']}"
            + (f", δ = {promise['delta']:g}" if promise["delta"] else ""),
            "hours verified": f"{facts['hours_verified']} of {facts['hours']}",
            "basis": f"{self._release.basis.name} ({self._release.basis.blocks} numbers per profile)",
        }

    def __repr__(self) -> str:
        kind = "SeriesResult" if not self.simulation else "SeriesResult, SIMULATION, NOT PRIVATE"
        return facts_text(kind, {"case": self._release.case.name} | self._facts())

    def _repr_html_(self) -> str:
        return facts_html(
            f"Series of {self._release.case.name}", self._facts(), SIMULATION_NOTICE if self.simulation else ""
        )


def _page(card: Mapping[str, object]) -> str | None:
    return or_warn(lambda: series_page(card), "the page of the card")
