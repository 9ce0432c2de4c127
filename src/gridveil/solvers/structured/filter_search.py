"""The filter line search (Wächter and Biegler 2006): a trial point must improve infeasibility θ or barrier function φ."""

from typing import NamedTuple

import numpy as np

from gridveil.programs.kernel import compiled
from gridveil.solvers.structured.evaluate import barrier, evaluate, infeasibility, widen_slacks
from gridveil.solvers.structured.layout import Filter, Iterate, Problem, Values, Workspace, copy_iterate
from gridveil.solvers.structured.newton import direction
from gridveil.solvers.structured.optimality import barrier_slope, longest_steps, move_primal
from gridveil.solvers.structured.settings import (
    BACKTRACK,
    DELTA,
    ETA_PHI,
    GAMMA_ALPHA,
    GAMMA_PHI,
    GAMMA_THETA,
    KAPPA_SOC,
    P_MAX,
    REFINEMENTS,
    ROUNDING,
    S_PHI,
    S_THETA,
    THETA_MAX,
    THETA_MIN,
)


class Search(NamedTuple):
    """What a line search is given beside point and direction."""

    mu: float
    shift: float
    """δ_w of the factors at hand, which second-order corrections use again."""
    fraction: float
    """τ, the share of each distance to a bound that a step may use up."""


class Origin(NamedTuple):
    """The filter's view of the point that a search starts from."""

    theta: float
    phi: float
    slope: float
    """Directional derivative of φ."""


class SearchResult(NamedTuple):
    """Accepted primal step length (0: none found), and dual step length that belongs to the direction used."""

    primal: float
    dual: float


@compiled
def new_filter(capacity: int, start_infeasibility: float) -> Filter:
    """Make an empty filter for a run that starts at the given infeasibility.

    θ_min, below which steps have to lower the barrier function, does not depend on the start as it does in the paper: from a
    cold start, whose infeasibility can be 1e6, that would be all steps, and good ones that only balance the network would
    be refused.
    """
    return Filter(
        theta=np.empty(capacity),
        phi=np.empty(capacity),
        n_pairs=np.zeros(1, np.int64),
        theta_max=THETA_MAX * max(1.0, start_infeasibility),
    )


@compiled
def clear(known: Filter) -> None:
    """Forget all pairs: they belong to another barrier parameter."""
    known.n_pairs[0] = 0


@compiled
def _passes(known: Filter, theta: float, phi: float) -> bool:
    if not np.isfinite(theta + phi) or theta > known.theta_max:
        return False
    passes = True
    for k in range(known.n_pairs[0]):
        passes &= theta < known.theta[k] or phi < known.phi[k]
    return passes


@compiled
def _augment(known: Filter, origin: Origin) -> None:
    """Add the pair of a point with its margin, dropping the pairs it dominates."""
    theta, phi = (1.0 - GAMMA_THETA) * origin.theta, origin.phi - GAMMA_PHI * origin.theta
    kept = 0
    for k in range(known.n_pairs[0]):
        if not (known.theta[k] >= theta and known.phi[k] >= phi):
            known.theta[kept], known.phi[kept] = known.theta[k], known.phi[k]
            kept += 1
    known.theta[kept], known.phi[kept] = theta, phi
    known.n_pairs[0] = kept + 1


@compiled
def _accepts(known: Filter, origin: Origin, length: float, theta: float, phi: float) -> bool:
    """Whether a trial with the given θ and φ is accepted; unless it lowers φ as Armijo asks, the filter remembers it."""
    if not _passes(known, theta, phi):
        return False
    forgiven = ROUNDING * abs(origin.phi)
    slope = origin.slope
    switching = slope < 0.0 and length * (-slope) ** S_PHI > DELTA * origin.theta**S_THETA
    if switching and origin.theta <= THETA_MIN:
        return bool(phi - origin.phi <= ETA_PHI * length * slope + forgiven)
    if theta <= (1.0 - GAMMA_THETA) * origin.theta or phi - origin.phi <= forgiven - GAMMA_PHI * origin.theta:
        _augment(known, origin)
        return True
    return False


@compiled
def _shortest_length(origin: Origin) -> float:
    least = GAMMA_THETA
    slope = origin.slope
    if slope < 0.0:
        least = min(least, GAMMA_PHI * origin.theta / -slope)
        if origin.theta <= THETA_MIN:
            least = min(least, DELTA * origin.theta**S_THETA / (-slope) ** S_PHI)
    return GAMMA_ALPHA * least


@compiled
def search(problem: Problem, point: Iterate, work: Workspace, given: Search) -> SearchResult:
    """Find an acceptable point along ``work.step``; on success ``work.trial`` and ``work.trial_values`` hold it.

    ``work.step`` becomes the corrected direction if a second-order correction was needed.
    """
    local, step = problem.local, work.step
    origin = Origin(
        theta=infeasibility(work.values),
        phi=barrier(local, point, given.mu),
        slope=barrier_slope(local, point, step, given.mu),
    )
    length, dual = longest_steps(local, point, step, given.fraction)
    shortest = _shortest_length(origin)
    first = True
    while length > shortest or first:
        theta, phi = _visit(problem, point, work, step, length, given.mu)
        if _accepts(work.filter, origin, length, theta, phi):
            return SearchResult(length, dual)
        if first and theta >= origin.theta and np.isfinite(theta):
            found = _correct(problem, point, work, given, origin, length)
            if found.primal > 0.0:
                copy_iterate(work.corrected, step)
                return found
        first = False
        length *= BACKTRACK
    return SearchResult(0.0, 0.0)


@compiled
def _visit(
    problem: Problem, point: Iterate, work: Workspace, step: Iterate, length: float, mu: float
) -> tuple[float, float]:
    """Evaluate a trial point: its infeasibility and barrier function."""
    trial, values = work.trial, work.trial_values
    move_primal(point, step, length, trial)
    evaluate(problem.grid, problem.local, trial, values)
    widen_slacks(problem.local, point.limit, mu, trial.slack, values.limit)
    return infeasibility(values), barrier(problem.local, trial, mu)


@compiled
def _correct(
    problem: Problem, point: Iterate, work: Workspace, given: Search, origin: Origin, length: float
) -> SearchResult:
    """Second-order corrections: repeat the step with the constraint values met at the rejected point added."""
    values, met, corrected = work.values, work.trial_values, work.corrected
    aim = Values(trig=values.trig, balance=values.balance.copy(), limit=values.limit.copy())
    before = infeasibility(met)
    for _ in range(P_MAX):
        aim.balance[:] = length * aim.balance + met.balance
        aim.limit[:] = length * aim.limit + met.limit
        direction(problem, point, aim, work.system, given.shift, REFINEMENTS, corrected)
        length, dual = longest_steps(problem.local, point, corrected, given.fraction)
        theta, phi = _visit(problem, point, work, corrected, length, given.mu)
        if _accepts(work.filter, origin, length, theta, phi):
            return SearchResult(length, dual)
        if not theta < KAPPA_SOC * before:
            break
        before = theta
    return SearchResult(0.0, 0.0)
