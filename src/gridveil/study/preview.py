"""A preview of a release: many releases of demands made up from the public network, one after another.

Quick runs come first: simulated noise, and a cost target that is known. Whole releases follow where the target itself is
uncertain: the exact mechanism, the cost target as the settings ask for it, and its repair. Nothing here has seen a secret.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridveil.bilevel.methods import method_named
from gridveil.core.band import CostTarget
from gridveil.core.choices import CostTargetMode, DemandBounds
from gridveil.core.deadline import time_limit, usual_time_limit
from gridveil.core.errors import NoReleaseError
from gridveil.core.methods import Solver
from gridveil.core.quantity import parse_distance
from gridveil.privacy.curator import Curator, published_values
from gridveil.privacy.mechanisms.simulation import simulate_laplace
from gridveil.sectors.case import Case, Network
from gridveil.sectors.registry import sector_of
from gridveil.service.draw import cost_share
from gridveil.service.prepare import Prepared, PublicCase, prepare
from gridveil.service.settings import ReleaseSettings
from gridveil.service.simulated import SimulatedRelease, made_up_case, simulated_releases

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

QUICK_RUNS, WHOLE_RUNS = 50, 10
MOST_ZONES = 8


@dataclass(frozen=True, kw_only=True)
class PreviewRun:
    """One simulated release. Shares are relative to the simulated demands and their optimal cost; NaN without a release."""

    whole: bool
    """Whether the cost target was found as a release finds it, rather than known."""
    verified: bool
    ending: str
    """Why there is no release, in words."""
    cost: float
    """O(d*) over the optimal cost at the simulated demands, less one."""
    distance_noisy: float
    distance_released: float
    site_error: float
    """Median over sites of how far the released value lies from the simulated one, in the field's unit."""
    zones: tuple[float, ...]
    """Change of each zone's total active demand, as a share of it."""


@dataclass(frozen=True, eq=False, kw_only=True)
class PreviewBase:
    """Made-up demands on a public network, and everything that does not change with ε, α and β."""

    prepared: Prepared
    case: Case
    """The public network with the made-up demands."""
    words: str
    """How they were made up."""
    cost: float

    @cached_property
    def zones(self) -> tuple[list[str], Ints]:
        """Names of the zones, the largest first, and the zone of each site; −1 beyond the first few."""
        labels = _zones_of_sites(self.case.network)
        names, members = np.unique(labels, return_inverse=True)
        totals = np.bincount(members, weights=np.abs(self._values.real), minlength=len(names))
        order = np.argsort(-totals, kind="stable")
        rank = np.empty(len(names), dtype=np.int64)
        rank[order] = np.arange(len(names))
        place = rank[members]
        return [str(names[k]) for k in order[:MOST_ZONES]], np.where(place < MOST_ZONES, place, -1)

    @property
    def _values(self) -> NDArray[Any]:
        return published_values(self.case)

    def run_quickly(self, settings: ReleaseSettings, seed: int) -> PreviewRun:
        """Simulated noise, and a band around the known cost."""
        public, model = self.prepared.public, self.prepared.model
        share = float(1 - cost_share(self.prepared, settings))
        alpha = float(parse_distance(settings.alpha, public.field))
        epsilon = share * float(settings.exact_epsilon)
        noisy = simulate_laplace(self.case.values, epsilon=epsilon, alpha=alpha, seed=seed)
        with time_limit(settings.time_limit or usual_time_limit(sector_of(public.network).size(public.network))):
            found = method_named(settings.method)(
                self.prepared.backend, model.layout.to_program(noisy.values), self._band(settings)
            )
        released = model.layout.to_sites(found.d, noisy.values) if found.verified and found.d is not None else None
        curator = Curator(self.case)
        return PreviewRun(
            whole=False,
            verified=released is not None,
            ending=found.ending.value if released is None else "",
            cost=math.nan if released is None else (found.cost - self.cost) / (abs(self.cost) or 1.0),
            distance_noisy=curator.distance(noisy.values),
            distance_released=math.nan if released is None else curator.distance(released),
            site_error=self._site_error(self._values, released),
            zones=self._zone_changes(self._values, released),
        )

    def whole(self, found: SimulatedRelease) -> PreviewRun:
        """A release of other made-up demands, its cost target found as the settings ask for it."""
        return PreviewRun(
            whole=True,
            verified=found.verified,
            ending="" if found.verified else found.ending.partition(";")[0],
            cost=found.cost_error,
            distance_noisy=found.distance_noisy,
            distance_released=found.distance_released,
            site_error=self._site_error(found.demands, found.values),
            zones=self._zone_changes(found.demands, found.values),
        )

    def _band(self, settings: ReleaseSettings) -> CostTarget:
        scale = self.prepared.cost_scale
        return settings.beta.around(self.cost, CostTargetMode.PUBLIC, 0.0 if scale is None else scale.value)

    def _site_error(self, demands: NDArray[Any], released: NDArray[Any] | None) -> float:
        return math.nan if released is None else float(np.median(np.abs(released - demands))) * self.case.field.base

    def _zone_changes(self, demands: NDArray[Any], released: NDArray[Any] | None) -> tuple[float, ...]:
        names, place = self.zones
        if released is None:
            return (math.nan,) * len(names)
        before, after = (_sum_by(place, values.real, len(names)) for values in (demands, released))
        with np.errstate(divide="ignore", invalid="ignore"):
            return tuple(((after - before) / np.abs(before)).tolist())


def preview_base(
    public: PublicCase, *, solver: Solver = Solver.STRUCTURED, bounds: DemandBounds = DemandBounds.NONE
) -> PreviewBase:
    """Make up demands that the network can serve, and solve them. NoReleaseError where none are found."""
    prepared = prepare(public, solver=solver.value, bounds=bounds)
    prepared.backend.prepare()
    case, words = made_up_case(prepared)
    answer = prepared.solves.afresh(prepared.model.layout.to_program(published_values(case)))
    if not answer.converged:
        raise NoReleaseError("the optimal flow at the simulated demands was not solved, so there is no preview")
    return PreviewBase(prepared=prepared, case=case, words=words, cost=answer.cost)


def preview(base: PreviewBase, settings: ReleaseSettings) -> Iterator[PreviewRun]:
    """Simulate releases, one at a time; whoever reads them may stop at any of them."""
    for seed in range(1, QUICK_RUNS + 1):
        yield base.run_quickly(settings, seed)
    if settings.target.mode in (CostTargetMode.PRIVATE, CostTargetMode.DERIVED):
        yield from map(base.whole, simulated_releases(base.prepared, settings, runs=WHOLE_RUNS))


def _zones_of_sites(network: Network) -> list[str]:
    """The zone, or else the area, of each participant's node; one zone where the network has no parts."""
    sector = sector_of(network)
    nodes = next(iter(sector.public_frames(network).values()))
    place = sector.graph(network).place
    for name in ("zone", "area"):
        if name in nodes and nodes[name].nunique() > 1:
            return [f"{name} {value}" for value in nodes[name].to_numpy()[place]]
    return ["the whole network"] * len(place)


def _sum_by(place: Ints, values: Sequence[float] | Floats, n: int) -> Floats:
    inside = place >= 0
    return np.asarray(np.bincount(place[inside], weights=np.asarray(values)[inside], minlength=n), dtype=float)
