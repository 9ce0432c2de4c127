"""The interior-point iteration: barrier parameter, Newton direction, line search, convergence test."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridveil.structured.assembly import assemble
from gridveil.structured.evaluate import evaluate, infeasibility
from gridveil.structured.filter_search import Filter, clear, new_filter, search
from gridveil.structured.kernel import compiled
from gridveil.structured.layout import (
    GridData,
    Iterate,
    LocalData,
    allocate_iterate,
    allocate_system,
    allocate_values,
)
from gridveil.structured.newton import direction, factorise_with_inertia, stiffen
from gridveil.structured.optimality import (
    Error,
    barrier_error,
    is_finite,
    longest_steps,
    measure,
    move_multipliers,
    move_primal,
    relative_length,
)
from gridveil.structured.symbolic import Pattern

Floats = NDArray[np.float64]

CONVERGED, ITERATION_LIMIT, SINGULAR_SYSTEM, NO_STEP, DIVERGED = 0, 1, 2, 3, 4

_FREE_REDUCTION = 0.1
_MEMORY = 4
_PROGRESS = 0.9
_FIXED_START = 0.8
_LEAST_MU = 0.1
_SOLVED_FACTOR, _LINEAR_DECREASE, _SUPERLINEAR_POWER = 10.0, 0.2, 1.5
_LEAST_FRACTION = 0.99
_TINY_STEP = 1e-14
# Where no step improves a point any more, rounding is what stops it: it is accepted with a stationarity this many times
# the tolerance, and products this many times.
_ROUNDED_DUAL, _ROUNDED_PRODUCT = 100.0, 10.0
# The stiffness of limits is capped at this multiple of the admittance around them, until a limit needs more.
_STIFFEST = 1e8


class Settings(NamedTuple):
    """Scalars of a run; ``free`` lets the barrier parameter follow the iterate while that makes progress."""

    tolerance: float
    max_iterations: int
    mu: float
    free: bool


class Outcome(NamedTuple):
    """How a run ended."""

    status: int
    iterations: int
    factorisations: int
    mu: float


@compiled
def _hold(error: Error, known: Filter, settings: Settings) -> float:
    """Barrier parameter at which to stop following the iterate."""
    clear(known)
    return max(_LEAST_MU * settings.tolerance, _FIXED_START * error.mean_product)


@compiled
def _next_barrier(
    error: Error, recent: Floats, known: Filter, settings: Settings, mu: float, free: bool, iteration: int
) -> tuple[float, bool]:
    """Barrier parameter of the next step, and whether it follows the iterate (free) or waits for it (held)."""
    least = _LEAST_MU * settings.tolerance
    progress = error.merit <= _PROGRESS * np.max(recent)
    if free and not progress:
        return _hold(error, known, settings), False
    if not free:
        solved = False
        while mu > least and barrier_error(error, mu) <= _SOLVED_FACTOR * mu:
            mu = max(least, min(_LINEAR_DECREASE * mu, mu**_SUPERLINEAR_POWER))
            solved = True
        if solved:
            clear(known)
        if not (solved and settings.free and progress):
            return mu, False
    clear(known)
    recent[iteration % _MEMORY] = error.merit
    return max(least, _FREE_REDUCTION * error.mean_product), True


@compiled
def _is_rounded(error: Error, tolerance: float) -> bool:
    """Whether a point that no step improves is optimal up to rounding: feasible, complementary, nearly stationary."""
    return bool(
        error.primal <= tolerance
        and error.largest_product <= _ROUNDED_PRODUCT * tolerance
        and error.dual <= _ROUNDED_DUAL * tolerance
    )


@compiled
def run(
    grid: GridData, local: LocalData, pattern: Pattern, point: Iterate, settings: Settings, history: Floats
) -> Outcome:
    """Iterate from ``point``, which is overwritten; one row of ``history`` per iteration."""
    n_bus, n_branch, n_limits = len(point.x), len(grid.branch_from), len(point.slack)
    n_local, n_rows = len(point.u), len(local.row_low)
    system = allocate_system(n_bus, n_branch, len(pattern.row), n_local, n_rows)
    values = allocate_values(n_bus, n_branch, n_limits)
    trial_values = allocate_values(n_bus, n_branch, n_limits)
    step = allocate_iterate(n_bus, n_local, n_limits)
    corrected = allocate_iterate(n_bus, n_local, n_limits)
    trial = allocate_iterate(n_bus, n_local, n_limits)
    evaluate(grid, local, point, values)
    known = new_filter(settings.max_iterations + 2, infeasibility(values))
    mu, free = settings.mu, settings.free
    recent = np.full(_MEMORY, np.inf)
    last_shift, factorisations = 0.0, 0
    system.least_softness[:] = 1.0 / _STIFFEST
    for iteration in range(settings.max_iterations + 1):
        assemble(grid, local, pattern, point, values, system)
        error = measure(local, point, values, system)
        row = history[iteration]
        row[0], row[1], row[2], row[3] = error.primal, error.dual, error.mean_product, mu
        if barrier_error(error, 0.0) <= settings.tolerance:
            return Outcome(CONVERGED, iteration, factorisations, mu)
        if not np.isfinite(error.merit):
            return Outcome(DIVERGED, iteration, factorisations, mu)
        if iteration == settings.max_iterations:
            break
        mu, free = _next_barrier(error, recent, known, settings, mu, free, iteration)
        shift, tries = factorise_with_inertia(grid, local, pattern, system, last_shift)
        factorisations += tries
        if shift == np.inf:
            return Outcome(SINGULAR_SYSTEM, iteration, factorisations, mu)
        if shift > 0.0:
            last_shift = shift
        direction(grid, local, pattern, point, values, system, mu, shift, step)
        if not is_finite(step):
            return Outcome(DIVERGED, iteration, factorisations, mu)
        stiffen(local, point, system, step, max(error.primal, settings.tolerance))
        fraction = max(_LEAST_FRACTION, 1.0 - mu)
        if relative_length(point, step) < _TINY_STEP:
            primal, dual = longest_steps(local, point, step, fraction)
            move_primal(point, step, primal, trial)
            evaluate(grid, local, trial, trial_values)
        else:
            found = search(
                grid, local, pattern, point, values, system, known, mu, shift, fraction, step, corrected, trial,
                trial_values,
            )  # fmt: skip
            primal, dual = found.primal, found.dual
        row[4], row[5], row[6], row[7] = shift, primal, dual, tries
        if primal == 0.0:
            if not free:
                status = CONVERGED if _is_rounded(error, settings.tolerance) else NO_STEP
                return Outcome(status, iteration, factorisations, mu)
            # Not even a short step helped: from here the barrier parameter is held.
            mu, free = _hold(error, known, settings), False
            continue
        point.x[:], point.u[:], point.slack[:] = trial.x, trial.u, trial.slack
        values.trig[:], values.balance[:] = trial_values.trig, trial_values.balance
        values.limit[:] = trial_values.limit
        move_multipliers(local, point, step, dual, mu)
    return Outcome(ITERATION_LIMIT, settings.max_iterations, factorisations, mu)
