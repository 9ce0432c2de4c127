"""How much of ε the whole pipeline really spends: an empirical lower bound from many runs on neighbouring demands."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta as beta_distribution

from gridveil.bilevel.repair import repair
from gridveil.core.band import TargetSource, Tolerance
from gridveil.core.errors import NoReleaseError
from gridveil.core.secret import SecretDemand
from gridveil.privacy.curator import solve_true
from gridveil.privacy.mechanisms.exact_sampling import LatticeMechanism
from gridveil.privacy.neighbours import draw_for_audit, neighbours
from gridveil.sectors.case import Case
from gridveil.sectors.gas.boundary import GasBoundary
from gridveil.sectors.load import load_case
from gridveil.sectors.model import build_model
from gridveil.solvers.ipopt import Engine

POWER_NETWORK, GAS_NETWORK = "veil2", "veilgas"
GAS_ALPHA = 0.5  # kg/s
BETA = "40%"  # wide enough that the cost target does not already pin the demand down
CONFIDENCE = 0.95

Vector = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class PipelineAudit:
    """The claim ε, a lower bound on the true ε at 95 % confidence, and what it rests on."""

    epsilon: float
    lower_bound: float
    runs: int
    failures: int

    @property
    def passed(self) -> bool:
        """Whether the runs do not contradict the claim."""
        return self.lower_bound <= self.epsilon


def audit_pipeline(mechanism: LatticeMechanism, runs: int, advance: Callable[[], None] = lambda: None) -> PipelineAudit:
    """Release ``runs`` times from each of two neighbouring demands of a built-in network, and tell them apart.

    ``advance`` is called after each release.
    """
    case = _audited_case(mechanism)
    model = build_model(case.network)
    engine = Engine(model.program)
    target = Tolerance.parse(BETA).around(solve_true(case, model, engine.solve_afresh).cost, TargetSource.FORECAST)

    def outputs(demand: SecretDemand) -> Vector:
        """Released active power of the site; −inf where there was no release, which an attacker sees as well."""
        values = np.full(runs, -np.inf)
        for run in range(runs):
            with suppress(NoReleaseError):
                released = repair(engine, model.layout, draw_for_audit(demand, mechanism), target)
                values[run] = released.values[0].real
            advance()
        return values

    low, high = (outputs(demand) for demand in neighbours(case, 0, float(mechanism.alpha)))
    return PipelineAudit(
        epsilon=float(mechanism.epsilon),
        lower_bound=epsilon_lower_bound(low, high),
        runs=2 * runs,
        failures=int(np.sum(~np.isfinite(low)) + np.sum(~np.isfinite(high))),
    )


def _audited_case(mechanism: LatticeMechanism) -> Case:
    """A small power network for planar noise, a small gas network for scalar noise, where α is of the size of a demand."""
    if mechanism.dimension == 2:
        return load_case(POWER_NETWORK)
    return load_case(GAS_NETWORK, GasBoundary(flow_base=GAS_ALPHA / float(mechanism.alpha)))


def epsilon_lower_bound(first: Vector, second: Vector, confidence: float = CONFIDENCE) -> float:
    """Give a lower bound on ln(Pr[first ∈ E]/Pr[second ∈ E]) over half-lines E, in either order.

    The half-line is chosen on the even runs and judged on the odd ones, so that choosing costs nothing.
    """
    best, bound = -math.inf, -math.inf
    for more, less in ((first, second), (second, first)):
        for sign in (1.0, -1.0):
            for threshold in np.unique(np.quantile((sign * more)[np.isfinite(more)][::2], np.linspace(0.02, 0.98, 49))):
                guess = _bound(sign * more[::2] >= threshold, sign * less[::2] >= threshold, confidence)
                if guess > best:
                    best = guess
                    bound = _bound(sign * more[1::2] >= threshold, sign * less[1::2] >= threshold, confidence)
    return max(bound, 0.0)


def _bound(more: NDArray[np.bool_], less: NDArray[np.bool_], confidence: float) -> float:
    """Clopper–Pearson on both probabilities, each at half of the allowed error."""
    error = (1 - confidence) / 2
    hits, misses = int(more.sum()), int((~more).sum())
    lower = beta_distribution.ppf(error, hits, misses + 1) if hits else 0.0
    hits, misses = int(less.sum()), int((~less).sum())
    upper = beta_distribution.ppf(1 - error, hits + 1, misses) if misses else 1.0
    return math.log(lower / upper) if lower > 0 else -math.inf
