"""Does the whole release keep its promise? Many releases of two neighbouring data sets, told apart as well as possible.

The releases go through the same function that the command calls, with the user's settings. What an attacker sees of each
becomes a few numbers; a half-line of one of them that is much likelier for one data set than for the other contradicts
the claim. The half-line is chosen on every second run and judged on the others, so that choosing costs nothing.

A fault may show in no single number: half the noise on values and half the noise on the sum each spend less than the
claim, and together twice of it. So the value and the target are also judged together, by the direction that separates
them best on the first half of the runs. With 2 500 runs from each side a pipeline that spends ε = 2 where it claims 1 is
caught with probability above 0.9 (`bench/audit_power.py`, at the level of draws); a right one fails once in a thousand
audits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaincinv

from gridveil.core.errors import GridveilError, NoReleaseError
from gridveil.core.quantity import parse_distance
from gridveil.privacy.neighbours import Neighbours, neighbours, part_neighbours
from gridveil.privacy.noisy import Draw
from gridveil.sectors.case import Case
from gridveil.service import release as service
from gridveil.service.account import NoAccount
from gridveil.service.prepare import Prepared, PublicCase, prepare
from gridveil.service.secrets import with_secrets
from gridveil.service.settings import ReleaseSettings

RUNS = 2500
SMALLEST_P_VALUE = 1e-3
CONFIDENCE = 0.95
QUANTILES = np.linspace(0.02, 0.98, 49)
VALUE, TARGET = 0, 2  # columns of what an attacker sees
FEWEST = 10  # runs with a release, below which no direction is looked for

Vector = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Statistic:
    """One number that an attacker sees: a lower bound on the ε it shows (95 %), and how likely that is under the claim."""

    name: str
    epsilon_lower_bound: float
    p_value: float


@dataclass(frozen=True, kw_only=True)
class PipelineAudit:
    """What releases of two neighbouring data sets show."""

    epsilon: float
    runs: int
    failures: tuple[int, int]
    statistics: tuple[Statistic, ...]
    same_draw_same_release: bool
    """Whether two data sets with the same draws gave the same released values, to the last bit."""

    @property
    def passed(self) -> bool:
        """Whether nothing contradicts the claim."""
        smallest = min(statistic.p_value for statistic in self.statistics)
        return self.same_draw_same_release and smallest * len(self.statistics) >= SMALLEST_P_VALUE


def audit_pipeline(
    case: Case,
    settings: ReleaseSettings,
    *,
    runs: int = RUNS,
    site: int = 0,
    advance: Callable[[], None] = lambda: None,
) -> PipelineAudit:
    """Release ``runs`` times from each of two neighbours. The values of ``case`` must not be secret: nothing is charged."""
    case = with_secrets(case, settings.secrets)
    if case.field.parts:
        pair: Neighbours = part_neighbours(case)
    else:
        pair = neighbours(case, site, float(parse_distance(settings.alpha, case.field)))
    prepared = prepare(PublicCase.of(case), solver=settings.solver.value, bounds=settings.demand_bounds)
    low, high = (_observations(one, pair, settings, prepared, runs, advance) for one in (pair.low, pair.high))
    names = (
        "value of the participant",
        "total of all values",
        "cost target",
        "optimal cost",
        "whether there is a release",
        "value and target together",
    )
    epsilon = float(settings.exact_epsilon)
    failures = (int(np.sum(low[:, -1] == 0)), int(np.sum(high[:, -1] == 0)))
    low, high = (np.column_stack([side, both]) for side, both in zip((low, high), together(low, high), strict=True))
    return PipelineAudit(
        epsilon=epsilon,
        runs=2 * runs,
        failures=failures,
        statistics=tuple(
            Statistic(name=name, **contrast(low[:, column], high[:, column], epsilon))
            for column, name in enumerate(names)
        ),
        same_draw_same_release=_same_release(pair, settings),
    )


def _observations(
    case: Case,
    pair: Neighbours,
    settings: ReleaseSettings,
    prepared: Prepared,
    runs: int,
    advance: Callable[[], None],
) -> Vector:
    """What an attacker sees of each release: one row of numbers; −inf where there was none."""
    seen = np.full((runs, 5), -np.inf)
    seen[:, -1] = 0.0
    for row in seen:
        try:
            made = service.make_release(case, settings, NoAccount(simulation=False), prepared=prepared).public
            row[:] = (
                pair.likelihood(made.values),
                float(np.sum(made.values.real)),
                made.target.value,
                made.released.result.cost,
                1.0,
            )
        except NoReleaseError:
            pass
        advance()
    return seen


def _same_release(pair: Neighbours, settings: ReleaseSettings) -> bool:
    """Use one draw for both neighbours: everything after the mechanism must come out the same."""
    draws: list[Draw] = []
    with suppress(NoReleaseError):
        service.make_release(pair.low, settings, NoAccount(simulation=False), keep=draws.append)
    ends = []
    for case in (pair.low, pair.high):
        try:
            made = service.make_release(case, settings, NoAccount(simulation=False), reuse=draws[-1]).public
            ends.append((made.values.tobytes(), made.target.value, made.released.result.cost))
        except GridveilError as error:
            ends.append((b"", math.inf, float(error.exit_code)))
    return ends[0] == ends[1]


def together(low: Vector, high: Vector) -> tuple[Vector, Vector]:
    """Value and cost target as one number: along the direction that best separates the even runs (Fisher's discriminant).

    −inf where there was no release; zero if nothing separates them.
    """
    seen = [side[:, [VALUE, TARGET]] for side in (low, high)]
    known = [rows[::2][np.all(np.isfinite(rows[::2]), axis=1)] for rows in seen]
    if min(len(rows) for rows in known) <= FEWEST:
        return np.zeros(len(low)), np.zeros(len(high))
    spread = sum(np.cov(rows.T) for rows in known)
    direction = np.linalg.pinv(spread) @ (known[1].mean(axis=0) - known[0].mean(axis=0))
    first, second = (
        np.where(np.all(np.isfinite(rows), axis=1), np.nan_to_num(rows, neginf=0.0) @ direction, -np.inf)
        for rows in seen
    )
    return first, second


def contrast(low: Vector, high: Vector, epsilon: float) -> dict[str, float]:
    """Choose the most telling half-line on the even runs; judge it on the odd ones."""
    best, chosen = math.inf, (1.0, -math.inf)
    for more, less in ((low, high), (high, low)):
        for sign in (1.0, -1.0):
            finite = (sign * more)[np.isfinite(more)][::2]
            for end in np.unique(np.quantile(finite, QUANTILES)) if len(finite) else ():
                hits = [(sign * side >= end) for side in (more, less)]
                guess = p_value(hits[0][::2], hits[1][::2], epsilon)
                if guess < best:
                    best = guess
                    judged = hits[0][1::2], hits[1][1::2]
                    chosen = p_value(*judged, epsilon), lower_bound(*judged)
    return {"p_value": chosen[0], "epsilon_lower_bound": max(chosen[1], 0.0)}


def p_value(more: NDArray[np.bool_], less: NDArray[np.bool_], epsilon: float) -> float:
    """How likely so many more hits are if no event is more than e^ε times likelier: a binomial tail given all hits."""
    hits, total = int(more.sum()), int(more.sum() + less.sum())
    if hits == 0:
        return 1.0
    return float(betainc(hits, total - hits + 1, 1 / (1 + math.exp(-epsilon))))


def lower_bound(more: NDArray[np.bool_], less: NDArray[np.bool_], confidence: float = CONFIDENCE) -> float:
    """Lower bound on ln(Pr[more]/Pr[less]): Clopper and Pearson on both, each at half of the allowed error."""
    error = (1 - confidence) / 2
    hits, misses = int(more.sum()), int((~more).sum())
    lower = float(betaincinv(hits, misses + 1, error)) if hits else 0.0
    hits, misses = int(less.sum()), int((~less).sum())
    upper = float(betaincinv(hits + 1, misses, 1 - error)) if misses else 1.0
    return math.log(lower / upper) if lower > 0 else -math.inf
