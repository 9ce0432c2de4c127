"""The filter line search (Wächter and Biegler 2006): a trial point must improve infeasibility or barrier function."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridveil.solvers.structured.evaluate import barrier, evaluate, infeasibility, widen_slacks
from gridveil.solvers.structured.kernel import compiled
from gridveil.solvers.structured.layout import GridData, Iterate, LocalData, System, Values, copy_iterate
from gridveil.solvers.structured.newton import REFINEMENTS, direction
from gridveil.solvers.structured.optimality import barrier_slope, longest_steps, move_primal
from gridveil.solvers.structured.symbolic import Pattern

Floats = NDArray[np.float64]

_LESS_INFEASIBLE, _LOWER_BARRIER = 1e-5, 1e-8
_ARMIJO = 1e-8
_SWITCH_SLOPE, _SWITCH_INFEASIBILITY = 2.3, 1.1
_SHORTEST = 0.05
_CORRECTIONS, _CORRECTION_GAIN = 4, 0.99
_ROUNDING = 10 * 2.220446049250313e-16


class Filter(NamedTuple):
    """Pairs (infeasibility, barrier) that later points must not be worse than; ``scalars`` = [count, θ_max, θ_min]."""

    pairs: Floats
    scalars: Floats


class SearchResult(NamedTuple):
    """Accepted primal step length (0: none found), and dual step length that belongs to the direction used."""

    primal: float
    dual: float


@compiled
def new_filter(capacity: int, start_infeasibility: float) -> Filter:
    """Give an empty filter for a run that starts at the given infeasibility.

    Below θ_min steps have to lower the barrier function. Not relative to the start, as in the paper: from a cold start,
    where it can be 1e6, that would be all steps, and good ones that only balance the network would be refused.
    """
    return Filter(np.empty((capacity, 2)), np.array([0.0, 1e4 * max(1.0, start_infeasibility), 1e-4]))


@compiled
def clear(known: Filter) -> None:
    """Forget all pairs: they belong to another barrier parameter."""
    known.scalars[0] = 0.0


@compiled
def _passes(known: Filter, theta: float, phi: float) -> bool:
    if not np.isfinite(theta + phi) or theta > known.scalars[1]:
        return False
    passes = True
    for k in range(int(known.scalars[0])):
        passes &= theta < known.pairs[k, 0] or phi < known.pairs[k, 1]
    return passes


@compiled
def _augment(known: Filter, theta: float, phi: float) -> None:
    """Add a pair with its margin, dropping the pairs it dominates."""
    theta, phi = (1.0 - _LESS_INFEASIBLE) * theta, phi - _LOWER_BARRIER * theta
    kept = 0
    for k in range(int(known.scalars[0])):
        if not (known.pairs[k, 0] >= theta and known.pairs[k, 1] >= phi):
            known.pairs[kept] = known.pairs[k]
            kept += 1
    known.pairs[kept, 0], known.pairs[kept, 1] = theta, phi
    known.scalars[0] = kept + 1


@compiled
def _acceptable(
    known: Filter, theta: float, phi: float, slope: float, length: float, trial_theta: float, trial_phi: float
) -> tuple[bool, bool]:
    """Whether a trial is accepted, and whether as a step that lowers the barrier function (Armijo)."""
    if not _passes(known, trial_theta, trial_phi):
        return False, False
    slack = _ROUNDING * abs(phi)
    switching = slope < 0.0 and length * (-slope) ** _SWITCH_SLOPE > theta**_SWITCH_INFEASIBILITY
    if switching and theta <= known.scalars[2]:
        return trial_phi - phi <= _ARMIJO * length * slope + slack, True
    better = trial_theta <= (1.0 - _LESS_INFEASIBLE) * theta or trial_phi - phi <= slack - _LOWER_BARRIER * theta
    return better, False


@compiled
def _shortest_length(known: Filter, theta: float, slope: float) -> float:
    least = _LESS_INFEASIBLE
    if slope < 0.0:
        least = min(least, _LOWER_BARRIER * theta / -slope)
        if theta <= known.scalars[2]:
            least = min(least, theta**_SWITCH_INFEASIBILITY / (-slope) ** _SWITCH_SLOPE)
    return _SHORTEST * least


@compiled
def search(
    grid: GridData,
    local: LocalData,
    pattern: Pattern,
    point: Iterate,
    values: Values,
    system: System,
    known: Filter,
    mu: float,
    shift: float,
    fraction: float,
    step: Iterate,
    corrected: Iterate,
    trial: Iterate,
    trial_values: Values,
) -> SearchResult:
    """Find an acceptable point along ``step``; on success ``trial`` and ``trial_values`` hold it.

    ``step`` becomes the corrected direction if a second-order correction was needed.
    """
    theta, phi = infeasibility(values), barrier(local, point, mu)
    slope = barrier_slope(local, point, step, mu)
    length, dual = longest_steps(local, point, step, fraction)
    shortest = _shortest_length(known, theta, slope)
    first = True
    while length > shortest or first:
        trial_theta, trial_phi = _visit(grid, local, point, step, length, mu, trial, trial_values)
        accepted, armijo = _acceptable(known, theta, phi, slope, length, trial_theta, trial_phi)
        if accepted:
            if not armijo:
                _augment(known, theta, phi)
            return SearchResult(length, dual)
        if first and trial_theta >= theta and np.isfinite(trial_theta):
            found = _correct(
                grid, local, pattern, point, values, system, known, mu, shift, fraction, slope, length, corrected, trial,
                trial_values,
            )  # fmt: skip
            if found.primal > 0.0:
                copy_iterate(corrected, step)
                return found
        first = False
        length *= 0.5
    return SearchResult(0.0, 0.0)


@compiled
def _visit(
    grid: GridData,
    local: LocalData,
    point: Iterate,
    step: Iterate,
    length: float,
    mu: float,
    trial: Iterate,
    trial_values: Values,
) -> tuple[float, float]:
    """Evaluate a trial point: its infeasibility and barrier function."""
    move_primal(point, step, length, trial)
    evaluate(grid, local, trial, trial_values)
    widen_slacks(local, point.limit, mu, trial.slack, trial_values.limit)
    return infeasibility(trial_values), barrier(local, trial, mu)


@compiled
def _correct(
    grid: GridData,
    local: LocalData,
    pattern: Pattern,
    point: Iterate,
    values: Values,
    system: System,
    known: Filter,
    mu: float,
    shift: float,
    fraction: float,
    slope: float,
    length: float,
    corrected: Iterate,
    trial: Iterate,
    trial_values: Values,
) -> SearchResult:
    """Second-order corrections: repeat the step with the constraint values met at the rejected point added."""
    theta, phi = infeasibility(values), barrier(local, point, mu)
    aim = Values(values.trig, values.balance.copy(), values.limit.copy())
    before = infeasibility(trial_values)
    for _ in range(_CORRECTIONS):
        aim.balance[:] = length * aim.balance + trial_values.balance
        aim.limit[:] = length * aim.limit + trial_values.limit
        direction(grid, local, pattern, point, aim, system, shift, REFINEMENTS, corrected)
        length, dual = longest_steps(local, point, corrected, fraction)
        trial_theta, trial_phi = _visit(grid, local, point, corrected, length, mu, trial, trial_values)
        accepted, armijo = _acceptable(known, theta, phi, slope, length, trial_theta, trial_phi)
        if accepted:
            if not armijo:
                _augment(known, theta, phi)
            return SearchResult(length, dual)
        if not trial_theta < _CORRECTION_GAIN * before:
            break
        before = trial_theta
    return SearchResult(0.0, 0.0)
