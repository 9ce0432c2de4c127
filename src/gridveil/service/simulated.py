"""Simulated releases of one network: the real pipeline on demands made up from public facts, so that nothing is charged.

What a curator may expect of a release before it is drawn: how often it fails, and how far cost and demands move.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridveil.core.choices import CostTargetMode
from gridveil.core.deadline import OutOfTimeError, seconds_left, time_limit
from gridveil.core.errors import GridveilError, NoReleaseError
from gridveil.core.secret import Secret, SecretValues
from gridveil.privacy.curator import Curator, published_values
from gridveil.sectors.case import Case
from gridveil.service.account import NoAccount
from gridveil.service.draw import make_draw
from gridveil.service.prepare import Prepared
from gridveil.service.release import repaired
from gridveil.service.settings import CostTargetSettings, ReleaseSettings

DATA_SETS = 3  # different made-up data sets: runs differ in noise more than in these
LOW, HIGH = 0.1, 0.9
VERIFIED = "verified"


@dataclass(frozen=True, eq=False, kw_only=True)
class SimulatedRelease:
    """What came of one simulated release; numbers are NaN where there was none, and values (per unit) None.

    Distances are ‖· − d‖/‖d‖ to the simulated demands d, ``cost_error`` is O(d*)/O(d) − 1.
    """

    ending: str
    distance_noisy: float
    distance_released: float
    cost_error: float
    negative: int
    """Released values below zero."""
    demands: NDArray[Any]
    values: NDArray[Any] | None
    seconds: float

    @property
    def verified(self) -> bool:
        """Whether there was a release."""
        return self.ending == VERIFIED


@dataclass(frozen=True, kw_only=True)
class Range:
    """Median and two quantiles (10 % and 90 %)."""

    low: float
    median: float
    high: float


@dataclass(frozen=True, kw_only=True)
class ReleaseOdds:
    """What simulated releases tell: how many failed and why, and what the others looked like."""

    runs: int
    verified: int
    failures: Mapping[str, int]
    distance_noisy: Range | None
    distance_released: Range | None
    cost_error: Range | None
    negative: float
    """Mean number of released values below zero."""
    seconds: float

    @property
    def failed(self) -> float:
        """Share of releases that failed."""
        return 1 - self.verified / self.runs if self.runs else math.nan


def made_up_case(prepared: Prepared, seed: int = 0, loading: float | None = None) -> tuple[Case, str]:
    """The same network with values made from public data alone, and in words how. NoReleaseError if none are found."""
    public, field = prepared.public, prepared.public.field
    data, words = prepared.made_up(seed, loading)
    empty = np.zeros(len(field), dtype=complex if field.is_complex else float)
    values = SecretValues(prepared.model.layout.to_sites(data, empty))
    made = Case(
        name=public.name,
        network=public.network,
        secret=Secret(field=field, values=values),
        file_format=public.file_format,
    )
    return made, words


def simulated_releases(
    prepared: Prepared, settings: ReleaseSettings, *, runs: int, seconds: float = math.inf, loading: float | None = None
) -> Iterator[SimulatedRelease]:
    """Yield the outcome of one simulated release after the other, with seeds 1, 2, …, until the time is over.

    A cost that is given or declared public is replaced by the optimum of the simulated demands. Nothing comes where no
    demands can be simulated.
    """
    end = time.perf_counter() + seconds
    try:
        bases = [_Simulated.of(prepared, seed, loading) for seed in range(min(DATA_SETS, runs))]
    except GridveilError:
        return
    for run in range(runs):
        left = end - time.perf_counter()
        if left <= 0:
            return
        base = bases[run % len(bases)]
        with time_limit(left):
            found = base.release(prepared, settings, run + 1)
            if found is None:
                return
        yield found


def odds(found: Sequence[SimulatedRelease]) -> ReleaseOdds | None:
    """Sum up simulated releases; None where there were none."""
    if not found:
        return None
    verified = [one for one in found if one.verified]
    return ReleaseOdds(
        runs=len(found),
        verified=len(verified),
        failures=dict(Counter(one.ending for one in found if not one.verified)),
        distance_noisy=_range([one.distance_noisy for one in found]),
        distance_released=_range([one.distance_released for one in verified]),
        cost_error=_range([one.cost_error for one in verified]),
        negative=float(np.mean([one.negative for one in verified])) if verified else 0.0,
        seconds=sum(one.seconds for one in found),
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class _Simulated:
    """One made-up data set: its curator, and its optimal cost."""

    curator: Curator
    demands: NDArray[Any]
    cost: float

    @classmethod
    def of(cls, prepared: Prepared, seed: int, loading: float | None) -> _Simulated:
        case, _ = made_up_case(prepared, seed, loading)
        demands = published_values(case)
        answer = prepared.solves.afresh(prepared.model.layout.to_program(demands))
        if not answer.converged:
            raise NoReleaseError("the optimal flow of simulated demands was not solved")
        return cls(curator=Curator(case), demands=demands, cost=answer.cost)

    def release(self, prepared: Prepared, settings: ReleaseSettings, seed: int) -> SimulatedRelease | None:
        """Release once; None when the time was over."""
        clock, chosen = time.perf_counter(), replace(settings, seed=seed, target=_simulated_target(settings))
        draw = make_draw(self.curator, prepared, chosen, NoAccount(), "simulation")
        draw = replace(draw, declared_cost=self.cost)
        values, cost, ending = None, math.nan, VERIFIED
        try:
            _, released = repaired(prepared, draw, chosen)
            values, cost = released.values, released.result.cost
        except OutOfTimeError as error:
            if seconds_left() <= 0:
                return None
            ending = str(error)
        except NoReleaseError as error:
            ending = str(error)
        return SimulatedRelease(
            ending=ending,
            distance_noisy=self.curator.distance(draw.noisy.values),
            distance_released=math.nan if values is None else self.curator.distance(values),
            cost_error=cost / self.cost - 1 if self.cost else math.nan,
            negative=0 if values is None or self.curator.field.parts else int(np.sum(values.real < 0)),
            demands=self.demands,
            values=values,
            seconds=time.perf_counter() - clock,
        )


def _simulated_target(settings: ReleaseSettings) -> CostTargetSettings:
    given = settings.target.mode in (CostTargetMode.FORECAST, CostTargetMode.PUBLIC)
    return CostTargetSettings(mode=CostTargetMode.PUBLIC) if given else settings.target


def _range(values: Sequence[float]) -> Range | None:
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return None
    low, middle, high = np.quantile(finite, [LOW, 0.5, HIGH])
    return Range(low=float(low), median=float(middle), high=float(high))
