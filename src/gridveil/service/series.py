"""A time series of demands on one network: each hour is a release of its own, repaired together over all cores."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from gridveil.bilevel.batch import RepairJob, derive_many, repair_many
from gridveil.bilevel.repair import ReleasedDemand
from gridveil.core.band import CostTarget, TargetSource
from gridveil.core.errors import GridveilError, InputError, NoReleaseError
from gridveil.core.parallel import Failure
from gridveil.core.secret import SecretDemand
from gridveil.privacy.draw import mechanism_for
from gridveil.privacy.ledger import Ledger, exact_text
from gridveil.privacy.noisy import Draw
from gridveil.sectors.case import Case
from gridveil.sectors.model import Model, build_model
from gridveil.service.choices import CostTargetMode
from gridveil.service.pipeline import draw_for
from gridveil.service.settings import ReleaseSettings
from gridveil.service.target import cost_target, true_cost
from gridveil.solvers.choose import engine_for
from gridveil.solvers.ipopt import Engine

VERIFIED = "verified"

Keep = Callable[[int, Draw], None]
Cost = float | None
"""The cost that a target is made from, where there is one."""


@dataclass(frozen=True, eq=False, kw_only=True)
class HourlyRelease:
    """What came of one hour: released demands (per unit, one per site) and their target, or why there are none."""

    hour: int
    status: str
    draw: Draw | None = None
    target: CostTarget | None = None
    released: ReleasedDemand | None = None

    @property
    def verified(self) -> bool:
        """Whether there are released demands, their optimal cost verified in the band."""
        return self.released is not None


def release_series(
    case: Case,
    demands: Sequence[SecretDemand],
    settings: ReleaseSettings,
    ledger: Ledger | None,
    *,
    workers: int,
    keep: Keep = lambda hour, draw: None,
) -> list[HourlyRelease]:
    """Release the network once per hour, each with its own demands, draw and cost target; one row per hour, in order.

    Each draw is charged to the ledger by itself; a cap that does not cover all of them is refused before the first. A
    seeded simulation needs no ledger, and every hour then has a stream of its own. An hour that fails is a row with its
    reason. ``keep`` gets (hour, draw) as soon as the draw is made, so that what was paid for is not lost.
    """
    _check_demands(case, demands)
    series = _Series(case, settings, workers)
    hours = [replace(case, name=f"{case.name}, hour {hour}", demand=demand) for hour, demand in enumerate(demands)]
    costs = [series.true_cost(hour) for hour in hours]
    if settings.seed is None and ledger is not None:
        _check_budget(ledger, case, settings, sum(not isinstance(cost, Failure) for cost in costs))
    rows = series.draw(hours, costs, ledger, keep)
    return series.repair(series.aim(rows, costs))


def hour_seed(seed: int, hour: int) -> int:
    """Give the seed of one hour's own stream."""
    return int(np.random.SeedSequence([seed, hour]).generate_state(1, np.uint64)[0])


@dataclass(frozen=True, eq=False)
class _Series:
    """The steps of a series; each takes rows and gives them back further on, failed ones as they are."""

    case: Case
    settings: ReleaseSettings
    workers: int

    @cached_property
    def model(self) -> Model:
        return build_model(self.case.network, demand_bounds=self.settings.demand_bounds)

    @cached_property
    def engine(self) -> Engine:
        return engine_for(self.case.network, self.model, self.settings.solver)

    def true_cost(self, hour: Case) -> Cost | Failure:
        """O(d°) of an hour where the target needs it: in this process, on the curator's side, before anything is drawn."""
        try:
            return true_cost(hour, self.model, self.engine, self.settings.target.mode)
        except NoReleaseError as error:
            return Failure(str(error))

    def draw(
        self, hours: Sequence[Case], costs: Sequence[Cost | Failure], ledger: Ledger | None, keep: Keep
    ) -> list[HourlyRelease]:
        """Charge and draw each hour. What is refused before the first draw is an error, later it is a failed row."""
        rows: list[HourlyRelease] = []
        for number, (hour, cost) in enumerate(zip(hours, costs, strict=True)):
            try:
                row = self._drawn(number, hour, cost, ledger)
            except InputError as error:
                if not any(row.draw for row in rows):
                    raise
                row = HourlyRelease(hour=number, status=str(error))
            if row.draw is not None:
                keep(number, row.draw)
            rows.append(row)
        return rows

    def _drawn(self, number: int, hour: Case, cost: Cost | Failure, ledger: Ledger | None) -> HourlyRelease:
        if isinstance(cost, Failure):
            return HourlyRelease(hour=number, status=cost.reason)
        settings = self.settings
        if settings.seed is not None:
            settings = replace(settings, seed=hour_seed(settings.seed, number))
        return HourlyRelease(hour=number, status="drawn", draw=draw_for(hour, settings, ledger, cost))

    def aim(self, rows: Sequence[HourlyRelease], costs: Sequence[Cost | Failure]) -> list[HourlyRelease]:
        """Give every hour that was drawn its band."""
        bases = dict(enumerate(costs))
        if self.settings.target.mode is CostTargetMode.DERIVED:
            noisy = {row.hour: row.draw.noisy for row in rows if row.draw}
            derived = derive_many(
                self.case.network,
                list(noisy.values()),
                workers=self.workers,
                solver=self.settings.solver,
                demand_bounds=self.settings.demand_bounds,
            )
            bases |= dict(zip(noisy, derived, strict=True))
        return [self._aimed(row, bases[row.hour]) for row in rows]

    def _aimed(self, row: HourlyRelease, base: Cost | Failure) -> HourlyRelease:
        if row.draw is None:
            return row
        if isinstance(base, Failure):
            return replace(row, status=base.reason)
        settings = self.settings
        try:
            if settings.target.mode is CostTargetMode.DERIVED and base is not None:
                return replace(row, target=settings.beta.around(base, TargetSource.DERIVED))
            return replace(row, target=cost_target(self.engine, self.model.layout, row.draw, settings, base))
        except GridveilError as error:
            return replace(row, status=str(error))

    def repair(self, rows: Sequence[HourlyRelease]) -> list[HourlyRelease]:
        """Find and verify d* of every hour that has a band."""
        jobs = {
            row.hour: RepairJob(row.draw.noisy, row.target, self.settings.method)
            for row in rows
            if row.draw and row.target
        }
        found = repair_many(
            self.case.network,
            list(jobs.values()),
            workers=self.workers,
            solver=self.settings.solver,
            demand_bounds=self.settings.demand_bounds,
        )
        results = dict(zip(jobs, found, strict=True))
        return [_finished(row, results.get(row.hour)) for row in rows]


def _finished(row: HourlyRelease, result: ReleasedDemand | Failure | None) -> HourlyRelease:
    if result is None:
        return row
    if isinstance(result, Failure):
        return replace(row, status=result.reason)
    return replace(row, status=VERIFIED, released=result)


def _check_demands(case: Case, demands: Sequence[SecretDemand]) -> None:
    for hour, demand in enumerate(demands):
        if len(demand) != len(case.demand) or demand.is_complex != case.demand.is_complex:
            raise InputError(
                f"hour {hour}: its demands do not match the load sites of {case.name}; give one value per site"
            )


def _check_budget(ledger: Ledger, case: Case, settings: ReleaseSettings, hours: int) -> None:
    history = ledger.history()
    needed = hours * _price_of_hour(case, settings, history.alpha)
    if history.remaining is not None and needed > history.remaining:
        raise InputError(
            f"{ledger.path}: over budget, nothing was drawn: {hours} hours need ε = {exact_text(needed)}, remaining ε = "
            f"{exact_text(history.remaining)}, at α = {exact_text(history.alpha)}; release fewer hours or ask for less"
        )


def _price_of_hour(case: Case, settings: ReleaseSettings, alpha: Fraction) -> Fraction:
    """What one hour's charges come to at the ledger's reference α (see Charge.at)."""
    mechanism = mechanism_for(case.demand, epsilon=settings.demand_epsilon, alpha=settings.alpha)
    rounding = mechanism.exact_scale * mechanism.epsilon - mechanism.alpha
    demand = (alpha + rounding) / mechanism.exact_scale
    return demand + settings.cost_epsilon * math.ceil(alpha / mechanism.alpha)
