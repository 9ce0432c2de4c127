"""A time series of values on one network: each hour is a release of its own, repaired together over all cores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import numpy as np

from gridveil.bilevel.cost_estimate import LinearCost, linear_cost
from gridveil.bilevel.repair import ReleasedData
from gridveil.core.band import CostTarget
from gridveil.core.choices import CostTargetMode
from gridveil.core.errors import InputError
from gridveil.core.parallel import Failure, run_many
from gridveil.core.quantity import parse_distance
from gridveil.core.secret import SecretValues
from gridveil.core.text import plural
from gridveil.privacy.curator import Curator
from gridveil.privacy.noisy import Draw, NoisyData
from gridveil.sectors.case import Case
from gridveil.service.account import Account, Price
from gridveil.service.draw import cost_share, draw_total, draw_values
from gridveil.service.prepare import Prepared, PublicCase, prepare
from gridveil.service.release import refuse_undeclared_sites, refuse_wrong_account, repaired
from gridveil.service.settings import ReleaseSettings

VERIFIED = "verified"

Keep = Callable[[int, Draw], None]
Result = TypeVar("Result")


@dataclass(frozen=True, eq=False, kw_only=True)
class HourlyRelease:
    """What came of one hour: released values (per unit, one per participant) and their target, or why there are none."""

    hour: int
    status: str
    draw: Draw
    target: CostTarget | None = None
    released: ReleasedData | None = None

    @property
    def verified(self) -> bool:
        """Whether there are released values, their optimal cost verified in the band."""
        return self.released is not None


def release_series(
    case: Case,
    hours: Sequence[SecretValues],
    settings: ReleaseSettings,
    account: Account,
    *,
    workers: int,
    keep: Keep = lambda hour, draw: None,
) -> list[HourlyRelease]:
    """Release the network once per hour, each with its own values, draw and cost target; one row per hour, in order.

    Each draw is charged by itself; a budget that does not cover all of them is refused before the first. A seeded
    simulation gives every hour a stream of its own. An hour that fails, which the truth has no part in, is a row with
    its reason. ``keep`` gets (hour, draw) as soon as a draw is complete.
    """
    if settings.target.mode is CostTargetMode.PUBLIC:
        raise InputError("a series has no declared public costs; use the private, derived or forecast cost target")
    public = PublicCase.of(case)
    refuse_wrong_account(settings, account)
    refuse_undeclared_sites(public, settings)
    curators = [Curator(case.with_values(_matching(case, hour, values))) for hour, values in enumerate(hours)]
    build = partial(_prepare, public, settings)
    prepared = build("here")
    share = cost_share(prepared, settings)
    price = Price(epsilon=settings.exact_epsilon, alpha=parse_distance(settings.alpha, case.field), rounding=None)
    account.check(case.field, *([price] * len(curators)))
    own = [_hour_settings(settings, hour) for hour in range(len(curators))]
    noisy = [
        draw_values(curator, one, share, account, f"release of {case.name}, hour {hour}")
        for hour, (curator, one) in enumerate(zip(curators, own, strict=True))
    ]
    linear = _in_order(run_many(build, _linear, [("network", one) for one in noisy], workers=workers)) if share else []
    draws = []
    for hour, values in enumerate(noisy):
        cost = linear[hour] if linear else None
        total = draw_total(curators[hour], cost, own[hour], share, account) if isinstance(cost, LinearCost) else None
        draws.append(Draw(noisy=values, total=total))
        keep(hour, draws[-1])
    jobs = [("network", (draw, one)) for draw, one in zip(draws, own, strict=True)]
    found = _in_order(run_many(build, _finish, jobs, workers=workers))
    return [_row(hour, draw, result) for hour, (draw, result) in enumerate(zip(draws, found, strict=True))]


def hour_seed(seed: int, hour: int) -> int:
    """The seed of one hour's own stream."""
    return int(np.random.SeedSequence([seed, hour]).generate_state(1, np.uint64)[0])


def _hour_settings(settings: ReleaseSettings, hour: int) -> ReleaseSettings:
    return settings if settings.seed is None else replace(settings, seed=hour_seed(settings.seed, hour))


def _matching(case: Case, hour: int, values: SecretValues) -> SecretValues:
    if len(values) != len(case.field) or values.is_complex != case.field.is_complex:
        raise InputError(
            f"hour {hour}: its values do not match the {plural(case.field.participant)} of {case.name}; give one value for each"
        )
    return values


def _prepare(public: PublicCase, settings: ReleaseSettings, _: str) -> Prepared:
    return prepare(public, solver=settings.solver.value, bounds=settings.demand_bounds)


def _linear(prepared: Prepared, noisy: NoisyData) -> LinearCost | None:
    return linear_cost(prepared.model, prepared.solves, noisy)


def _finish(prepared: Prepared, job: tuple[Draw, ReleaseSettings]) -> tuple[CostTarget, ReleasedData]:
    found, released = repaired(prepared, *job)
    return found.target, released


def _in_order(found: Iterable[tuple[int, Result]]) -> list[Result]:
    results = dict(found)
    return [results[index] for index in range(len(results))]


def _row(hour: int, draw: Draw, result: tuple[CostTarget, ReleasedData] | Failure) -> HourlyRelease:
    if isinstance(result, Failure):
        return HourlyRelease(hour=hour, status=result.reason, draw=draw)
    target, released = result
    return HourlyRelease(hour=hour, status=VERIFIED, draw=draw, target=target, released=released)
