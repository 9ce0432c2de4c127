"""A time series of values on one network: one draw for all of it, then every hour repaired by itself over all cores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from gridveil.bilevel.bulk import run_all
from gridveil.bilevel.cost_estimate import LinearCost, linear_cost
from gridveil.bilevel.repair import ReleasedData
from gridveil.core.band import CostTarget
from gridveil.core.choices import BatchEngine
from gridveil.core.errors import NoReleaseError
from gridveil.core.parallel import Failure, failure_of, run_many
from gridveil.privacy.mechanisms.basis import Basis
from gridveil.privacy.noisy import Draw, NoisyData, SeriesDraw
from gridveil.privacy.series_curator import SeriesCurator
from gridveil.sectors.series_table import SeriesCase, SeriesLayout
from gridveil.service.account import Account, Spending
from gridveil.service.draw import cost_share
from gridveil.service.guards import Confirm, ask, confirm_nothing, refuse_wrong_units
from gridveil.service.prepare import Prepared, PublicCase, prepare
from gridveil.service.publication import UNSTATED, Publication
from gridveil.service.release import refuse_undeclared_sites, refuse_wrong_account, repaired
from gridveil.service.series_basis import plan_series
from gridveil.service.series_draw import bind_series, draw_series, draw_sums
from gridveil.service.series_settings import SeriesSettings
from gridveil.service.settings import ReleaseSettings
from gridveil.solvers.backend import Backend
from gridveil.solvers.batch.backends import engine_beside
from gridveil.solvers.batch.engine import Engine
from gridveil.solvers.registry import PRELOAD

VERIFIED = "verified"
READER_HOURS = 24
"""Most hours of a series that are checked by several solvers and starts."""

Keep = Callable[[SeriesDraw], None]
Result = TypeVar("Result")
Repaired = tuple[CostTarget, ReleasedData]
Job = tuple[Draw, ReleaseSettings, bool]
"""A draw, how it is repaired, and whether it is checked as readers would."""
Repairs = Callable[[list[Job]], Iterable[tuple[int, Repaired | Failure]]]


@dataclass(frozen=True, eq=False, kw_only=True)
class HourlyRelease:
    """What came of one hour: released values (per unit, one per participant) and their target, or why there are none."""

    hour: int
    status: str
    target: CostTarget | None = None
    released: ReleasedData | None = None

    @property
    def verified(self) -> bool:
        """Whether there are released values, their optimal cost verified in the band."""
        return self.released is not None


@dataclass(frozen=True, eq=False, kw_only=True)
class SeriesRelease:
    """A series of releases: public data, the draw, and what was computed from them. Everything here may be published."""

    case: PublicCase
    layout: SeriesLayout
    settings: SeriesSettings
    basis: Basis
    draw: SeriesDraw
    rows: tuple[HourlyRelease, ...]
    spending: Spending | None
    prepared: Prepared
    publication: Publication = UNSTATED
    """What the publisher states."""

    @property
    def cost_unit(self) -> str:
        """Unit of the cost."""
        return self.prepared.model.program.cost_unit

    @property
    def values(self) -> NDArray[Any]:
        """d* of every hour, per unit, shape (hours, participants); NaN for an hour that is not released."""
        table = np.full_like(self.draw.values, np.nan)
        for row in self.rows:
            if row.released is not None:
                table[row.hour] = row.released.values
        return table


def release_series(
    series: SeriesCase,
    settings: SeriesSettings,
    account: Account,
    *,
    workers: int,
    prepared: Prepared | None = None,
    reuse: SeriesDraw | None = None,
    keep: Keep = lambda draw: None,
    announce: Callable[[], str | None] = lambda: None,
    advance: Callable[[], None] = lambda: None,
    confirm: Confirm = confirm_nothing,
    batch: BatchEngine = BatchEngine.STRUCTURED,
) -> SeriesRelease:
    """Release every hour of a series; one row per hour, in order.

    All draws are charged at once, before the first. ``prepared`` is the public side of the same network, where it has been
    built already. ``reuse`` takes earlier draws, which cost nothing again; ``keep`` gets
    the draws as soon as they are made, ``announce`` is called just before the charge and gives the id of the draw, and
    ``advance`` is called after each repair. ``confirm`` is asked as for one release. ``batch`` solves the problems of all
    hours together, in this process. An hour that fails, which the truth has no part in, is a row with its reason.
    """
    public, chosen = PublicCase.of(series.case), settings.release
    engine = engine_beside(batch, chosen.solver)  # what it lacks is said before anything is charged
    refuse_wrong_account(chosen, account)
    refuse_undeclared_sites(public, chosen)
    curator, build = SeriesCurator(series.case, series.hours), partial(_prepare, public, chosen)
    prepared = prepared or build("here")
    refuse_wrong_units(prepared, chosen)
    settings, basis = plan_series(settings, series.layout, prepared)
    draw = reuse
    if draw is None:
        purpose = f"series of {series.case.name}, protects one {settings.protects.value}"
        draw = draw_series(
            curator,
            settings,
            basis,
            cost_share(prepared, chosen),
            account,
            purpose=purpose,
            announce=announce,
            approve=lambda price: ask(public, chosen, (price,), account, confirm),
        )
        keep(draw)
    bind_series(draw, account)
    # The share is that of the charge: β, which it was chosen by, may be another one by now.
    if draw.share and draw.totals is None:
        jobs = [("network", draw.hour(hour).noisy) for hour in range(len(curator))]
        linear = [
            cost if isinstance(cost, LinearCost) else None
            for cost in _in_order(run_many(build, _linear, jobs, workers=workers, preload=PRELOAD))
        ]
        draw = draw_sums(curator, linear, settings, draw, account)
        keep(draw)
        bind_series(draw, account)
    return SeriesRelease(
        case=public,
        layout=series.layout,
        settings=settings,
        basis=basis,
        draw=draw,
        rows=_repaired_hours(_repairs(build, prepared, workers, engine), draw, chosen, advance),
        spending=account.spending(),
        prepared=prepared,
    )


def refuse_empty(release: SeriesRelease) -> None:
    """Refuse to publish a series without a single verified hour."""
    if not any(row.verified for row in release.rows):
        raise NoReleaseError(
            f"no hour of the series could be released; the first: {release.rows[0].status}. The draws are kept: repeat the "
            "command with another beta at no cost"
        )


def _repairs(build: Callable[[str], Prepared], prepared: Prepared, workers: int, engine: Engine | None) -> Repairs:
    """What repairs many draws: worker processes, or batches by an engine in this one."""
    if engine is None:
        return lambda jobs: run_many(
            build, _finish, [("network", job) for job in jobs], workers=workers, preload=PRELOAD
        )

    def together(jobs: list[Job]) -> Iterator[tuple[int, Repaired | Failure]]:
        work = [partial(_finish_with, prepared, job) for job in jobs]
        for position, outcome in run_all(work, prepared.backend, prepared.model, engine):
            yield position, outcome.result or failure_of(outcome.error or RuntimeError())

    return together


def _finish_with(prepared: Prepared, job: Job, backend: Backend) -> Repaired:
    return _finish(replace(prepared, backend=backend), job)


def _repaired_hours(
    repairs: Repairs, draw: SeriesDraw, settings: ReleaseSettings, advance: Callable[[], None]
) -> tuple[HourlyRelease, ...]:
    """Repair hours with equal draws once: with a public basis, many are. A sample of them is checked as readers would."""
    first, which = _distinct(draw)
    sample = readers_sample(draw.values[first].real.sum(axis=1))
    jobs = [(draw.hour(hour), settings, position in sample) for position, hour in enumerate(first)]
    found: dict[int, Repaired | Failure] = {}
    for position, result in repairs(jobs):
        found[position] = result
        advance()
    return tuple(_row(hour, found[position]) for hour, position in enumerate(which))


def readers_sample(sizes: NDArray[np.float64]) -> frozenset[int]:
    """Positions of the hours that are checked as readers would solve them: evenly from the smallest to the largest.

    ``sizes`` are the noisy demands in all, so the choice tells nothing that the noisy values do not.
    """
    ranks = np.linspace(0, len(sizes) - 1, min(len(sizes), READER_HOURS)).round().astype(int)
    return frozenset(np.argsort(sizes, kind="stable")[ranks].tolist())


def repairs_needed(basis: Basis) -> int:
    """How many hours are repaired: those of one block and equal shape are alike."""
    return len(np.unique(np.stack([basis.labels, basis.shape]), axis=1).T)


def _distinct(draw: SeriesDraw) -> tuple[Sequence[int], Sequence[int]]:
    """The first hour of each distinct draw, and which of them every hour equals."""
    if draw.totals is not None:
        hours = range(len(draw.values))
        return hours, hours
    _, first, which = np.unique(draw.values, axis=0, return_index=True, return_inverse=True)
    return first.tolist(), which.ravel().tolist()


def _prepare(public: PublicCase, settings: ReleaseSettings, _: str) -> Prepared:
    return prepare(public, solver=settings.solver.value, bounds=settings.demand_bounds)


def _linear(prepared: Prepared, noisy: NoisyData) -> LinearCost | None:
    return linear_cost(prepared.model, prepared.solves, noisy)


def _finish(prepared: Prepared, job: Job) -> Repaired:
    draw, settings, for_readers = job
    found, released = repaired(prepared, draw, settings, for_readers=for_readers)
    return found.target, released


def _in_order(found: Iterable[tuple[int, Result]]) -> list[Result]:
    results = dict(found)
    return [results[index] for index in range(len(results))]


def _row(hour: int, result: Repaired | Failure) -> HourlyRelease:
    if isinstance(result, Failure):
        return HourlyRelease(hour=hour, status=result.reason)
    target, released = result
    return HourlyRelease(hour=hour, status=VERIFIED, target=target, released=released)
