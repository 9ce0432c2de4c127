"""The interior-point iteration: barrier parameter, Newton direction, line search, convergence test."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridveil.solvers.structured.assembly import assemble
from gridveil.solvers.structured.evaluate import evaluate, infeasibility
from gridveil.solvers.structured.filter_search import Filter, SearchResult, clear, new_filter, search
from gridveil.solvers.structured.kernel import compiled
from gridveil.solvers.structured.layout import (
    GridData,
    Iterate,
    LocalData,
    System,
    Values,
    allocate_iterate,
    allocate_system,
    allocate_values,
)
from gridveil.solvers.structured.newton import (
    REFINEMENTS,
    aim_at,
    aim_beyond,
    direction,
    factorise_with_inertia,
    stiffen,
)
from gridveil.solvers.structured.optimality import (
    Error,
    barrier_error,
    is_finite,
    longest_steps,
    measure,
    move_multipliers,
    move_primal,
    reachable_share,
    relative_length,
)
from gridveil.solvers.structured.symbolic import Pattern

Floats = NDArray[np.float64]

CONVERGED, ITERATION_LIMIT, SINGULAR_SYSTEM, NO_STEP, DIVERGED, STALLED = 0, 1, 2, 3, 4, 5
_GOING_ON = -1

# A corrector may change the product that it aims at by this many mean products. Found by trial: 1 and 100 need a third
# more iterations on PGLib.
_MOST_CORRECTED = 10.0
_MEMORY = 4
_PROGRESS = 0.9
_FIXED_START = 0.8
_LEAST_MU = 0.1
_SOLVED_FACTOR, _LINEAR_DECREASE, _SUPERLINEAR_POWER = 10.0, 0.2, 1.5
_LEAST_FRACTION = 0.99
_TINY_STEP = 1e-14
# A run whose primal steps are all shorter than this gets nowhere.
_SHORT_STEP = 0.1
# After a short step with products below this many times the infeasibility, limits are in the way of the balances: the next
# step aims at products this many times the present ones, away from all limits.
_AHEAD, _RECENTRED = 10.0, 10.0
# Where no step improves a point any more, rounding is what stops it: it is accepted with a stationarity this many times
# the tolerance, and products this many times.
_ROUNDED_DUAL, _ROUNDED_PRODUCT = 100.0, 10.0
# The stiffness of limits is capped at this multiple of the admittance around them, until a limit needs more.
_STIFFEST = 1e8


class Settings(NamedTuple):
    """Scalars of a run; ``free`` lets the barrier parameter follow the iterate while that makes progress.

    ``patience`` is how many short steps running it takes before giving up.
    """

    tolerance: float
    max_iterations: int
    mu: float
    free: bool
    patience: int


class Workspace(NamedTuple):
    """Arrays that one run writes again and again."""

    system: System
    values: Values
    step: Iterate
    corrected: Iterate
    trial: Iterate
    trial_values: Values


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
    """Barrier parameter of the next step, and whether it follows the iterate (free) or waits for it (held).

    A free one is that of the iterate; how far below it the step aims is found with the step.
    """
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
    return error.mean_product, True


@compiled
def _allocate(grid: GridData, local: LocalData, pattern: Pattern, point: Iterate) -> Workspace:
    n_bus, n_branch, n_limits = len(point.x), len(grid.branch_from), len(point.slack)
    n_local, n_rows = len(point.u), len(local.row_low)
    system = allocate_system(n_bus, n_branch, len(pattern.row), n_local, n_rows)
    system.least_softness[:] = 1.0 / _STIFFEST
    return Workspace(
        system,
        allocate_values(n_bus, n_branch, n_limits),
        allocate_iterate(n_bus, n_local, n_limits),
        allocate_iterate(n_bus, n_local, n_limits),
        allocate_iterate(n_bus, n_local, n_limits),
        allocate_values(n_bus, n_branch, n_limits),
    )


@compiled
def _verdict(error: Error, settings: Settings, iteration: int) -> int:
    """Whether the iterate is the last one."""
    if barrier_error(error, 0.0) <= settings.tolerance:
        return CONVERGED
    if not np.isfinite(error.merit):
        return DIVERGED
    return ITERATION_LIMIT if iteration == settings.max_iterations else _GOING_ON


@compiled
def _is_rounded(error: Error, tolerance: float) -> bool:
    """Whether a point that no step improves is optimal up to rounding: feasible, complementary, nearly stationary."""
    return bool(
        error.primal <= tolerance
        and error.largest_product <= _ROUNDED_PRODUCT * tolerance
        and error.dual <= _ROUNDED_DUAL * tolerance
    )


@compiled
def _find_direction(
    grid: GridData,
    local: LocalData,
    pattern: Pattern,
    point: Iterate,
    work: Workspace,
    shift: float,
    mu: float,
    free: bool,
    recentre: bool,
    least: float,
) -> float:
    """Fill the step, and return the barrier parameter that it aims at: ``mu``, or as far below it as seems possible.

    In free mode a predictor to products of zero shows how far that is, and the corrector then allows for the products
    of steps that Newton's method neglects (Mehrotra 1992). To recentre is to aim above ``mu`` instead.
    """
    system, values, step = work.system, work.values, work.step
    if free:
        aim_at(system, 0.0)
        direction(grid, local, pattern, point, values, system, shift, 0, step)
        mean = mu
        share = _RECENTRED if recentre else reachable_share(local, point, step)
        mu = max(least, share * mean)
        aim_beyond(system, step, mu, _MOST_CORRECTED * mean)
    else:
        aim_at(system, mu)
    direction(grid, local, pattern, point, values, system, shift, REFINEMENTS, step)
    return mu


@compiled
def _find_lengths(
    grid: GridData,
    local: LocalData,
    pattern: Pattern,
    point: Iterate,
    work: Workspace,
    known: Filter,
    mu: float,
    shift: float,
) -> SearchResult:
    """Step lengths (0: none found); the workspace holds the trial point that they lead to."""
    fraction = max(_LEAST_FRACTION, 1.0 - mu)
    if relative_length(point, work.step) < _TINY_STEP:
        primal, dual = longest_steps(local, point, work.step, fraction)
        move_primal(point, work.step, primal, work.trial)
        evaluate(grid, local, work.trial, work.trial_values)
        return SearchResult(primal, dual)
    return search(
        grid, local, pattern, point, work.values, work.system, known, mu, shift, fraction, work.step, work.corrected,
        work.trial, work.trial_values,
    )  # fmt: skip


@compiled
def _take_step(local: LocalData, point: Iterate, work: Workspace, dual_length: float, mu: float) -> None:
    point.x[:], point.u[:], point.slack[:] = work.trial.x, work.trial.u, work.trial.slack
    work.values.trig[:], work.values.balance[:] = work.trial_values.trig, work.trial_values.balance
    work.values.limit[:] = work.trial_values.limit
    move_multipliers(local, point, work.step, dual_length, mu)


@compiled
def run(
    grid: GridData, local: LocalData, pattern: Pattern, point: Iterate, settings: Settings, history: Floats
) -> Outcome:
    """Iterate from ``point``, which is overwritten; one row of ``history`` per iteration."""
    work = _allocate(grid, local, pattern, point)
    evaluate(grid, local, point, work.values)
    known = new_filter(settings.max_iterations + 2, infeasibility(work.values))
    mu, free = settings.mu, settings.free
    recent = np.full(_MEMORY, np.inf)
    iteration, last_shift, factorisations, short_steps = 0, 0.0, 0, 0
    while True:
        assemble(grid, local, pattern, point, work.values, work.system)
        error = measure(local, point, work.values, work.system)
        row = history[iteration]
        row[0], row[1], row[2], row[3] = error.primal, error.dual, error.mean_product, mu
        status = _verdict(error, settings, iteration)
        if status != _GOING_ON:
            break
        mu, free = _next_barrier(error, recent, known, settings, mu, free, iteration)
        shift, tries = factorise_with_inertia(grid, local, pattern, work.system, last_shift)
        factorisations += tries
        if shift == np.inf:
            status = SINGULAR_SYSTEM
            break
        last_shift = shift if shift > 0.0 else last_shift
        recentre = short_steps > 0 and error.mean_product < _AHEAD * error.primal
        least = _LEAST_MU * settings.tolerance
        mu = _find_direction(grid, local, pattern, point, work, shift, mu, free, recentre, least)
        if not is_finite(work.step):
            status = DIVERGED
            break
        if shift > 0.0:
            # Limits that got too stiff make an inertia look wrong that is not.
            work.system.least_softness[:] = 1.0 / _STIFFEST
        else:
            stiffen(local, point, work.system, work.step, max(error.primal, settings.tolerance))
        found = _find_lengths(grid, local, pattern, point, work, known, mu, shift)
        row[4], row[5], row[6], row[7] = shift, found.primal, found.dual, tries
        iteration += 1
        if found.primal > 0.0:
            _take_step(local, point, work, found.dual, mu)
            short_steps = short_steps + 1 if found.primal < _SHORT_STEP else 0
            if short_steps == settings.patience:
                status = STALLED
                break
        elif free:
            # Not even a short step helped: from here the barrier parameter is held.
            mu, free = _hold(error, known, settings), False
        else:
            status = CONVERGED if _is_rounded(error, settings.tolerance) else NO_STEP
            break
    return Outcome(status, iteration, factorisations, mu)
