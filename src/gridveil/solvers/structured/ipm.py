"""The interior-point iteration: barrier parameter, Newton direction, line search, convergence test."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridveil.programs.kernel import compiled, entry
from gridveil.solvers.structured.assembly import assemble
from gridveil.solvers.structured.evaluate import evaluate, infeasibility
from gridveil.solvers.structured.filter_search import Search, SearchResult, clear, new_filter, search
from gridveil.solvers.structured.layout import (
    Filter,
    History,
    Iterate,
    LocalData,
    Problem,
    Workspace,
    allocate_iterate,
    allocate_system,
    allocate_values,
)
from gridveil.solvers.structured.newton import aim_at, aim_beyond, direction, factorise_with_inertia, stiffen
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
from gridveil.solvers.structured.settings import (
    AHEAD,
    HELD_START,
    KAPPA_EPSILON,
    KAPPA_MU,
    LEAST_MU,
    MEMORY,
    MOST_CORRECTED,
    PROGRESS,
    RECENTRED,
    REFINEMENTS,
    ROUNDED_DUAL,
    ROUNDED_PRODUCT,
    SHORT_STEP,
    SOFTNESS,
    SOFTNESS_RETRY,
    SOFTNESS_STEP,
    TAU_MIN,
    THETA_MU,
    TINY_STEP,
)

Floats = NDArray[np.float64]

CONVERGED, ITERATION_LIMIT, SINGULAR_SYSTEM, NO_STEP, DIVERGED, STALLED = 0, 1, 2, 3, 4, 5
_GOING_ON = -1


class Options(NamedTuple):
    """What distinguishes one run from another."""

    tolerance: float
    max_iterations: int
    mu: float
    """First barrier parameter."""
    free: bool
    """Whether the barrier parameter follows the iterate while that makes progress."""
    patience: int
    """How many short steps running it takes before the run gives up."""
    retries: int
    """How often an iterate from which no step was found is tried again."""


class Barrier(NamedTuple):
    """The barrier parameter, and whether it follows the iterate (free) or waits for it (held)."""

    mu: float
    free: bool


class Outcome(NamedTuple):
    """How a run ended."""

    status: int
    iterations: int
    factorisations: int
    mu: float


@compiled
def _hold(error: Error, known: Filter, options: Options) -> Barrier:
    """Stop following the iterate."""
    clear(known)
    return Barrier(max(LEAST_MU * options.tolerance, HELD_START * error.mean_product), False)


@compiled
def _next_barrier(
    barrier: Barrier, error: Error, recent: Floats, known: Filter, options: Options, iteration: int
) -> Barrier:
    """Barrier parameter of the next step; a free one is that of the iterate, how far below it to aim is found with the step.

    ``recent`` holds the merits of the last free iterates.
    """
    least = LEAST_MU * options.tolerance
    progress = error.merit <= PROGRESS * np.max(recent)
    if barrier.free and not progress:
        return _hold(error, known, options)
    if not barrier.free:
        mu, solved = barrier.mu, False
        while mu > least and barrier_error(error, mu) <= KAPPA_EPSILON * mu:
            mu = max(least, min(KAPPA_MU * mu, mu**THETA_MU))
            solved = True
        if solved:
            clear(known)
        if not (solved and options.free and progress):
            return Barrier(mu, False)
    clear(known)
    recent[iteration % MEMORY] = error.merit
    return Barrier(error.mean_product, True)


@compiled
def _prepare(problem: Problem, point: Iterate, max_iterations: int) -> Workspace:
    """Allocate what a run needs, and evaluate its start."""
    n_bus, n_branch = len(point.x), len(problem.grid.branch_from)
    n_local, n_limits = len(point.u), len(point.slack)
    system = allocate_system(problem)
    system.least_softness[:] = SOFTNESS
    values = allocate_values(n_bus, n_branch, n_limits)
    evaluate(problem.grid, problem.local, point, values)
    return Workspace(
        system=system,
        values=values,
        step=allocate_iterate(n_bus, n_local, n_limits),
        corrected=allocate_iterate(n_bus, n_local, n_limits),
        trial=allocate_iterate(n_bus, n_local, n_limits),
        trial_values=allocate_values(n_bus, n_branch, n_limits),
        filter=new_filter(max_iterations + 2, infeasibility(values)),
    )


@compiled
def _verdict(error: Error, options: Options, iteration: int) -> int:
    """Whether the iterate is the last one."""
    if barrier_error(error, 0.0) <= options.tolerance:
        return CONVERGED
    if not np.isfinite(error.merit):
        return DIVERGED
    return ITERATION_LIMIT if iteration == options.max_iterations else _GOING_ON


@compiled
def _is_rounded(error: Error, tolerance: float) -> bool:
    """Whether a point that no step improves is optimal up to rounding: feasible, complementary, nearly stationary."""
    return bool(
        error.primal <= tolerance
        and error.largest_product <= ROUNDED_PRODUCT * tolerance
        and error.dual <= ROUNDED_DUAL * tolerance
    )


@compiled
def _find_direction(
    problem: Problem, point: Iterate, work: Workspace, barrier: Barrier, shift: float, recentre: bool, least: float
) -> float:
    """Fill the step, and return the barrier parameter that it aims at: the given one, or as far below it as seems possible.

    In free mode a predictor to products of zero shows how far that is, and the corrector then allows for the products
    of steps that Newton's method neglects (Mehrotra 1992). To recentre is to aim above the given one instead, away from limits
    that are in the way of the balances.
    """
    system, values, step, mu = work.system, work.values, work.step, barrier.mu
    if barrier.free:
        aim_at(system, 0.0)
        direction(problem, point, values, system, shift, 0, step)
        mean = mu
        share = RECENTRED if recentre else reachable_share(problem.local, point, step)
        mu = max(least, share * mean)
        aim_beyond(system, step, mu, MOST_CORRECTED * mean)
    else:
        aim_at(system, mu)
    direction(problem, point, values, system, shift, REFINEMENTS, step)
    return mu


@compiled
def _find_lengths(problem: Problem, point: Iterate, work: Workspace, mu: float, shift: float) -> SearchResult:
    """Step lengths (0: none found); the workspace holds the trial point that they lead to."""
    fraction = max(TAU_MIN, 1.0 - mu)
    if relative_length(point, work.step) < TINY_STEP:
        primal, dual = longest_steps(problem.local, point, work.step, fraction)
        move_primal(point, work.step, primal, work.trial)
        evaluate(problem.grid, problem.local, work.trial, work.trial_values)
        return SearchResult(primal, dual)
    return search(problem, point, work, Search(mu, shift, fraction))


@compiled
def _take_step(local: LocalData, point: Iterate, work: Workspace, dual_length: float, mu: float) -> None:
    point.x[:], point.u[:], point.slack[:] = work.trial.x, work.trial.u, work.trial.slack
    work.values.trig[:], work.values.balance[:] = work.trial_values.trig, work.trial_values.balance
    work.values.limit[:] = work.trial_values.limit
    move_multipliers(local, point, work.step, dual_length, mu)


@compiled
def _without_a_step(
    local: LocalData, point: Iterate, work: Workspace, error: Error, tolerance: float, retries_left: int
) -> int:
    """Whether an iterate from which no step was found is the last one.

    If not, it is tried again without what the filter remembers, and with the limits that the step left violated stiffer.
    """
    if _is_rounded(error, tolerance):
        return CONVERGED
    if retries_left == 0:
        return NO_STEP
    clear(work.filter)
    stiffen(local, point, work.system, work.step, error.primal, SOFTNESS_RETRY)
    return _GOING_ON


@entry
def run(problem: Problem, point: Iterate, options: Options, history: History) -> Outcome:
    """Iterate from ``point``, which is overwritten; one entry of ``history`` per iteration."""
    local = problem.local
    work = _prepare(problem, point, options.max_iterations)
    system, known = work.system, work.filter
    barrier = Barrier(options.mu, options.free)
    recent = np.full(MEMORY, np.inf)
    iteration, last_shift, factorisations, short_steps, retries_left = 0, 0.0, 0, 0, options.retries
    while True:
        assemble(problem, point, work.values, system)
        error = measure(local, point, work.values, system)
        history.primal[iteration], history.dual[iteration] = error.primal, error.dual
        history.product[iteration], history.mu[iteration] = error.mean_product, barrier.mu
        status = _verdict(error, options, iteration)
        if status != _GOING_ON:
            break
        barrier = _next_barrier(barrier, error, recent, known, options, iteration)
        shift, tries = factorise_with_inertia(problem, system, last_shift)
        factorisations += tries
        if shift == np.inf:
            status = SINGULAR_SYSTEM
            break
        last_shift = shift if shift > 0.0 else last_shift
        recentre = short_steps > 0 and error.mean_product < AHEAD * error.primal
        least = LEAST_MU * options.tolerance
        mu = _find_direction(problem, point, work, barrier, shift, recentre, least)
        barrier = Barrier(mu, barrier.free)
        if not is_finite(work.step):
            status = DIVERGED
            break
        if shift > 0.0:
            # Limits that got too stiff make an inertia look wrong that is not.
            system.least_softness[:] = SOFTNESS
        else:
            stiffen(local, point, system, work.step, max(error.primal, options.tolerance), SOFTNESS_STEP)
        found = _find_lengths(problem, point, work, mu, shift)
        history.shift[iteration], history.factorisations[iteration] = shift, tries
        history.primal_length[iteration], history.dual_length[iteration] = found.primal, found.dual
        iteration += 1
        if found.primal > 0.0:
            _take_step(local, point, work, found.dual, mu)
            short_steps = short_steps + 1 if found.primal < SHORT_STEP else 0
            if short_steps == options.patience:
                status = STALLED
                break
        elif barrier.free:
            # Not even a short step helped: from here the barrier parameter is held.
            barrier = _hold(error, known, options)
        else:
            status = _without_a_step(local, point, work, error, options.tolerance, retries_left)
            if status != _GOING_ON:
                break
            retries_left -= 1
    return Outcome(status, iteration, factorisations, barrier.mu)
