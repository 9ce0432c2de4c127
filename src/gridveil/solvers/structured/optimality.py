"""How far an iterate is from optimality, how far it may step, and how its multipliers are kept near the central path."""

from math import inf
from typing import NamedTuple

import numpy as np

from gridveil.programs.kernel import compiled
from gridveil.solvers.structured.layout import Iterate, LocalData, System, Values
from gridveil.solvers.structured.settings import KAPPA_SIGMA, PRICE_SCALE, SIGMA_MIN, SIGMA_POWER


class Error(NamedTuple):
    """Largest violations of the optimality conditions, that of the duals scaled by the highest price."""

    dual: float
    primal: float
    least_product: float
    largest_product: float
    mean_product: float
    """The barrier parameter that the iterate stands for."""
    merit: float
    """Mean squares of all violations together: what the free mode wants to see fall."""


@compiled
def barrier_error(error: Error, mu: float) -> float:
    """Largest scaled violation of the optimality conditions of the barrier problem."""
    return max(error.dual, error.primal, abs(error.largest_product - mu), abs(error.least_product - mu))


@compiled
def measure(local: LocalData, point: Iterate, values: Values, system: System) -> Error:
    """Measure an iterate whose system has been assembled."""
    dual, dual_square, primal, primal_square = 0.0, 0.0, 0.0, 0.0
    least, largest, products, product_square, highest = inf, 0.0, 0.0, 0.0, 0.0
    n_products = 0
    n_bus, n_local = len(point.x), len(point.u)
    for i in range(n_bus):
        for c in range(2):
            slope = system.gradient_x[i, c]
            dual, dual_square = max(dual, abs(slope)), dual_square + slope * slope
            primal = max(primal, abs(values.balance[i, c]))
            primal_square += values.balance[i, c] * values.balance[i, c]
            highest = max(highest, abs(point.price[i, c]))
    for k in range(n_local):
        slope = system.gradient_u[k]
        if local.low[k] > -inf:
            product = point.u_bound[k, 0] * (point.u[k] - local.low[k])
            slope -= point.u_bound[k, 0]
            least, largest = min(least, product), max(largest, product)
            products, product_square = products + product, product_square + product * product
            n_products += 1
        if local.high[k] < inf:
            product = point.u_bound[k, 1] * (local.high[k] - point.u[k])
            slope += point.u_bound[k, 1]
            least, largest = min(least, product), max(largest, product)
            products, product_square = products + product, product_square + product * product
            n_products += 1
        dual, dual_square = max(dual, abs(slope)), dual_square + slope * slope
    for i in range(len(point.slack)):
        if local.active[i]:
            product = point.limit[i] * point.slack[i]
            least, largest = min(least, product), max(largest, product)
            products, product_square = products + product, product_square + product * product
            n_products += 1
            primal = max(primal, abs(values.limit[i]))
            primal_square += values.limit[i] * values.limit[i]
    scale = max(1.0, highest / PRICE_SCALE)
    merit = dual_square / (2 * n_bus + n_local) + primal_square / (2 * n_bus) + product_square / n_products
    return Error(dual / scale, primal, least, largest, products / n_products, merit)


@compiled
def longest_steps(local: LocalData, point: Iterate, step: Iterate, fraction: float) -> tuple[float, float]:
    """Longest primal and dual step lengths, at most 1, that keep ``1 - fraction`` of every distance.

    Limits that do not exist have a slack of 1, a multiplier of 0 and no step: they are in nobody's way.
    """
    primal, dual = 1.0, 1.0
    for i in range(len(point.slack)):
        if primal * step.slack[i] < -fraction * point.slack[i]:
            primal = -fraction * point.slack[i] / step.slack[i]
        if dual * step.limit[i] < -fraction * point.limit[i]:
            dual = -fraction * point.limit[i] / step.limit[i]
    for k in range(len(point.u)):
        below, above = point.u[k] - local.low[k], local.high[k] - point.u[k]
        if primal * step.u[k] < -fraction * below:
            primal = -fraction * below / step.u[k]
        if primal * step.u[k] > fraction * above:
            primal = fraction * above / step.u[k]
        for side in range(2):
            if dual * step.u_bound[k, side] < -fraction * point.u_bound[k, side]:
                dual = -fraction * point.u_bound[k, side] / step.u_bound[k, side]
    return primal, dual


@compiled
def reachable_share(local: LocalData, point: Iterate, predictor: Iterate) -> float:
    """Mehrotra's σ = (μ_aff/μ)³: share of the mean product to aim at, from what a step to products of zero would leave."""
    primal, dual = longest_steps(local, point, predictor, 1.0)
    before, after = 0.0, 0.0
    for i in range(len(point.slack)):
        if local.active[i]:
            before += point.slack[i] * point.limit[i]
            after += (point.slack[i] + primal * predictor.slack[i]) * (point.limit[i] + dual * predictor.limit[i])
    for k in range(len(point.u)):
        move = primal * predictor.u[k]
        if local.low[k] > -inf:
            below, multiplier = point.u[k] - local.low[k], point.u_bound[k, 0]
            before += below * multiplier
            after += (below + move) * (multiplier + dual * predictor.u_bound[k, 0])
        if local.high[k] < inf:
            above, multiplier = local.high[k] - point.u[k], point.u_bound[k, 1]
            before += above * multiplier
            after += (above - move) * (multiplier + dual * predictor.u_bound[k, 1])
    return min(max((after / before) ** SIGMA_POWER, SIGMA_MIN), 1.0)


@compiled
def _near_centre(multiplier: float, distance: float, mu: float) -> float:
    centre = mu / distance
    return min(max(multiplier, centre / KAPPA_SIGMA), KAPPA_SIGMA * centre)


@compiled
def move_multipliers(local: LocalData, point: Iterate, step: Iterate, length: float, mu: float) -> None:
    """Take the dual step; hold each product of multiplier and distance within a wide band around ``mu``."""
    point.price[:] += length * step.price
    for i in range(len(point.slack)):
        if local.active[i]:
            point.limit[i] = _near_centre(point.limit[i] + length * step.limit[i], point.slack[i], mu)
    for k in range(len(point.u)):
        if local.low[k] > -inf:
            moved = point.u_bound[k, 0] + length * step.u_bound[k, 0]
            point.u_bound[k, 0] = _near_centre(moved, point.u[k] - local.low[k], mu)
        if local.high[k] < inf:
            moved = point.u_bound[k, 1] + length * step.u_bound[k, 1]
            point.u_bound[k, 1] = _near_centre(moved, local.high[k] - point.u[k], mu)


@compiled
def move_primal(point: Iterate, step: Iterate, length: float, trial: Iterate) -> None:
    """Fill the primal part of ``trial`` with the point moved along the step."""
    for i in range(len(point.x)):
        trial.x[i, 0] = point.x[i, 0] + length * step.x[i, 0]
        trial.x[i, 1] = point.x[i, 1] + length * step.x[i, 1]
    for k in range(len(point.u)):
        trial.u[k] = point.u[k] + length * step.u[k]
    for i in range(len(point.slack)):
        trial.slack[i] = point.slack[i] + length * step.slack[i]


@compiled
def barrier_slope(local: LocalData, point: Iterate, step: Iterate, mu: float) -> float:
    """Directional derivative of the barrier function along the step."""
    slope = 0.0
    for k in range(len(point.u)):
        gradient = local.quadratic[k] * point.u[k] + local.linear[k]
        gradient += mu / (local.high[k] - point.u[k]) - mu / (point.u[k] - local.low[k])
        slope += gradient * step.u[k]
    for i in range(len(point.slack)):
        if local.active[i]:
            slope -= mu * step.slack[i] / point.slack[i]
    return slope


@compiled
def relative_length(point: Iterate, step: Iterate) -> float:
    """Largest step of a variable relative to the variable."""
    longest = 0.0
    for i in range(len(point.x)):
        for c in range(2):
            longest = max(longest, abs(step.x[i, c]) / (1.0 + abs(point.x[i, c])))
    for k in range(len(point.u)):
        longest = max(longest, abs(step.u[k]) / (1.0 + abs(point.u[k])))
    return longest


@compiled
def is_finite(step: Iterate) -> bool:
    """Whether the Newton direction is a number throughout."""
    return bool(np.isfinite(np.sum(step.x) + np.sum(step.price) + np.sum(step.u) + np.sum(step.slack)))
