"""What a release is worth beyond its cost, as a table of the curator's report: the release beside noise alone."""

from __future__ import annotations

from dataclasses import dataclass

from gridveil.core.text import number, percent
from gridveil.report.views import CellValue
from gridveil.service.fidelity import HIGHPOINT, NOISY, RELEASED, Difference
from gridveil.service.release import Release

NAMES = {RELEASED: "released", HIGHPOINT: "high point (first step)", NOISY: "noise alone"}
HEADINGS = (
    "demands", "has an optimal flow", "cost", "losses", "prices", "order of prices", "full lines in common",
    "demand of zones", "generation of zones", "loading after outages",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class FidelityView:
    """Rows of a table, one for each kind of demands, what they are compared by, and remarks."""

    headings: tuple[str, ...]
    rows: list[list[CellValue]]
    zones_are: str
    outages: str
    notes: tuple[str, ...]


def fidelity_view(release: Release) -> FidelityView | None:
    """The comparison with the truth; None where the sector has none."""
    found = release.fidelity
    if found is None:
        return None
    order = sorted(zip(found.names, found.differences, strict=True), key=lambda pair: list(NAMES).index(pair[0]))
    return FidelityView(
        headings=HEADINGS,
        rows=[_row(NAMES[name], difference) for name, difference in order],
        zones_are=found.zones_are,
        outages=", ".join(found.outages),
        notes=found.notes,
    )


def _row(name: str, found: Difference) -> list[CellValue]:
    shares = (
        found.cost_error, found.losses_error, found.price_error, found.price_rank_correlation, found.congestion,
        found.zone_demand_error, found.zone_generation_error, found.severity_error,
    )  # fmt: skip
    words = [percent, percent, percent, number, percent, percent, percent, percent]
    cells: list[CellValue] = [
        None if share is None else (share, say(share)) for share, say in zip(shares, words, strict=True)
    ]
    return [name, "yes" if found.feasible else "no", *cells]
