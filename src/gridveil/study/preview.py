"""A preview of a release: many releases of demands made up from the public network.

Quick runs come first, one after another: simulated noise, and a cost target that is known. Whole releases follow where the target
itself is uncertain: the exact mechanism, the cost target as the settings ask for it, and its repair. Where an engine of batches is
chosen, and rows know network and method, many more quick runs advance together at the end. Nothing here has seen a secret.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridveil.bilevel.bulk import batches_know, run_all
from gridveil.bilevel.methods import method_named
from gridveil.bilevel.together.releases import USUAL
from gridveil.core.band import CostTarget
from gridveil.core.choices import BatchEngine, CostTargetMode, DemandBounds
from gridveil.core.deadline import check_time, time_limit, usual_time_limit
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
from gridveil.solvers.backend import Backend

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

QUICK_RUNS, WHOLE_RUNS = 50, 10
MANY_RUNS = 500  # quick runs that advance together, after these
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

    @cached_property
    def batches_know(self) -> bool:
        """Whether releases of the network can advance together. Kept: every move of a slider asks before its first run."""
        return batches_know(self.prepared.model)

    @property
    def _values(self) -> NDArray[Any]:
        return published_values(self.case)

    def run_quickly(self, settings: ReleaseSettings, seed: int, backend: Backend | None = None) -> PreviewRun:
        """Simulated noise, and a band around the known cost; by the backend of one release among many, where that is given."""
        public, model = self.prepared.public, self.prepared.model
        share = float(1 - cost_share(self.prepared, settings))
        alpha = float(parse_distance(settings.alpha, public.field))
        epsilon = share * float(settings.exact_epsilon)
        noisy = simulate_laplace(self.case.values, epsilon=epsilon, alpha=alpha, seed=seed)
        with time_limit(settings.time_limit or usual_time_limit(sector_of(public.network).size(public.network))):
            found = method_named(settings.method)(
                backend or self.prepared.backend, model.layout.to_program(noisy.values), self._band(settings)
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


def quick_runs(base: PreviewBase, settings: ReleaseSettings, batch: BatchEngine) -> int:
    """How many quick runs a preview has in all: nobody waits for hundreds of them where they would come one by one.

    ``batch`` is an engine that is there.
    """
    chosen = batch is not BatchEngine.STRUCTURED and settings.method in USUAL and not settings.secrets
    return QUICK_RUNS + (MANY_RUNS if chosen and base.batches_know else 0)


def whole_runs(settings: ReleaseSettings) -> int:
    """How many whole releases a preview has: none where the cost target is certain."""
    return WHOLE_RUNS if settings.target.mode in (CostTargetMode.PRIVATE, CostTargetMode.DERIVED) else 0


def preview(
    base: PreviewBase,
    settings: ReleaseSettings,
    batch: BatchEngine = BatchEngine.STRUCTURED,
    *,
    alone: AbstractContextManager[Any] | None = None,
) -> Generator[PreviewRun, None, None]:
    """Simulate releases; whoever reads them may stop at any of them.

    ``batch`` is the engine of those that advance together. ``alone`` is held while the solver of single releases is at work, and
    not while releases advance together.
    """
    alone = alone or nullcontext()
    quick = map(partial(base.run_quickly, settings), range(1, QUICK_RUNS + 1))
    runs = whole_runs(settings)
    whole = map(base.whole, simulated_releases(base.prepared, settings, runs=runs)) if runs else iter(())
    yield from _one_by_one(chain(quick, whole), alone)
    if quick_runs(base, settings, batch) > QUICK_RUNS:
        yield from _together(base, settings, batch, alone)


def _together(
    base: PreviewBase, settings: ReleaseSettings, batch: BatchEngine, alone: AbstractContextManager[Any]
) -> Iterator[PreviewRun]:
    """Quick runs that advance together; those that leave their batch come one by one, with the time limit of a single run."""
    seeds = range(QUICK_RUNS + 1, QUICK_RUNS + MANY_RUNS + 1)
    jobs = [partial(base.run_quickly, settings, seed) for seed in seeds]
    left: list[int] = []
    check_time()  # whole releases that are stopped end without an error
    for _, outcome in run_all(jobs, base.prepared.backend, base.prepared.model, batch, hand_over=left.append):
        yield outcome.get()
    yield from _one_by_one(map(partial(base.run_quickly, settings), [seeds[place] for place in sorted(left)]), alone)


def _one_by_one(runs: Iterator[PreviewRun], alone: AbstractContextManager[Any]) -> Iterator[PreviewRun]:
    while True:
        with alone:
            found = next(runs, None)
        if found is None:
            return
        yield found


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
