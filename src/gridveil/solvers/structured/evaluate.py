"""Constraint values, infeasibility and barrier function at a primal point."""

from math import cos as cosine
from math import inf, log
from math import sin as sine

import numpy as np
from numpy.typing import NDArray

from gridveil.programs.kernel import compiled
from gridveil.solvers.structured.branch_flows import flow_value
from gridveil.solvers.structured.layout import GridData, Iterate, LocalData, Values
from gridveil.solvers.structured.settings import LARGEST_PRODUCT, WIDEST_PRODUCT

Floats = NDArray[np.float64]


@compiled
def evaluate(grid: GridData, local: LocalData, point: Iterate, values: Values) -> None:
    """Fill ``values`` at the primal part of ``point``."""
    x, slack = point.x, point.slack
    balance, limit = values.balance, values.limit
    for i in range(len(x)):
        v2 = x[i, 1] * x[i, 1]
        balance[i, 0] = local.fixed_draw[i, 0] + grid.shunt[i, 0] * v2
        balance[i, 1] = local.fixed_draw[i, 1] + grid.shunt[i, 1] * v2
    for k in range(len(point.u)):
        balance[local.bus[k], local.row[k]] -= local.sign[k] * point.u[k]
    for t in range(len(local.tied)):
        first, second, value = local.tied_bus[t, 0], local.tied_bus[t, 1], point.u[local.tied[t]]
        if local.tied_block[t] >= 0:
            balance[first, 0] -= local.tied_gain[t, 0] * value
            balance[second, 0] -= local.tied_gain[t, 1] * value
        else:
            balance[first, 1] -= value * x[first, 1] * x[first, 1]
    n_branch = len(grid.branch_from)
    for b in range(n_branch):
        i, j = grid.branch_from[b], grid.branch_to[b]
        angle = x[i, 0] - x[j, 0]
        vf, vt = x[i, 1], x[j, 1]
        cos, sin = cosine(angle), sine(angle)
        values.trig[b, 0], values.trig[b, 1] = cos, sin
        flow, product = grid.flow[b], vf * vt
        p_from = flow_value(flow, 0, vf, product, cos, sin)
        q_from = flow_value(flow, 1, vf, product, cos, sin)
        p_to = flow_value(flow, 2, vt, product, cos, sin)
        q_to = flow_value(flow, 3, vt, product, cos, sin)
        balance[i, 0] += p_from
        balance[i, 1] += q_from
        balance[j, 0] += p_to
        balance[j, 1] += q_to
        scale, square, current = grid.flow_scale[b], grid.rate_squared[b], grid.current_squared[b]
        limit[b] = scale * (p_from * p_from + q_from * q_from - square - current * vf * vf)
        limit[n_branch + b] = scale * (p_to * p_to + q_to * q_to - square - current * vt * vt)
        limit[2 * n_branch + b] = angle - grid.angle_high[b]
        limit[3 * n_branch + b] = grid.angle_low[b] - angle
    n_bus, n_rows = len(x), len(local.row_low)
    for i in range(n_bus):
        limit[4 * n_branch + i] = x[i, 1] - grid.v_high[i]
        limit[4 * n_branch + n_bus + i] = grid.v_low[i] - x[i, 1]
    dense = 4 * n_branch + 2 * n_bus
    for r in range(n_rows):
        total = 0.0
        for k in range(len(point.u)):
            total += (0.5 * local.row_quadratic[r, k] * point.u[k] + local.row_linear[r, k]) * point.u[k]
        limit[dense + r] = total - local.row_high[r]
        limit[dense + n_rows + r] = local.row_low[r] - total
    for i in range(len(limit)):
        if local.active[i]:
            limit[i] += slack[i]
        else:
            limit[i] = 0.0


@compiled
def widen_slacks(local: LocalData, multiplier: Floats, mu: float, slack: Floats, limit: Floats) -> None:
    """Grow slacks smaller than the room their limits leave, if that takes no product far above ``mu``.

    Barrier and infeasibility both fall.
    """
    for i in range(len(slack)):
        if local.active[i] and limit[i] < 0.0 and multiplier[i] * (slack[i] - limit[i]) <= WIDEST_PRODUCT * mu:
            slack[i] -= limit[i]
            limit[i] = 0.0


@compiled
def infeasibility(values: Values) -> float:
    """Sum of the absolute constraint violations, slacks included."""
    total = 0.0
    for i in range(len(values.balance)):
        total += abs(values.balance[i, 0]) + abs(values.balance[i, 1])
    for i in range(len(values.limit)):
        total += abs(values.limit[i])
    return total


@compiled
def objective(local: LocalData, u: Floats) -> float:
    """Objective at the local variables."""
    total = 0.0
    for k in range(len(u)):
        total += (0.5 * local.quadratic[k] * u[k] + local.linear[k]) * u[k]
    return total


@compiled
def log_product_sum(logs: float, product: float, distance: float) -> tuple[float, float]:
    """Add log(distance) to ``logs`` + log(``product``): one logarithm for many factors."""
    product *= distance
    if product < 1.0 / LARGEST_PRODUCT or product > LARGEST_PRODUCT:
        return logs + log(product), 1.0
    return logs, product


@compiled
def barrier(local: LocalData, point: Iterate, mu: float) -> float:
    """Objective minus μ Σ log(distance to each bound); infinite outside the bounds."""
    logs, product = 0.0, 1.0
    for i in range(len(point.slack)):
        if local.active[i]:
            if point.slack[i] <= 0.0:
                return inf
            logs, product = log_product_sum(logs, product, point.slack[i])
    for k in range(len(point.u)):
        if local.low[k] > -inf:
            if point.u[k] <= local.low[k]:
                return inf
            logs, product = log_product_sum(logs, product, point.u[k] - local.low[k])
        if local.high[k] < inf:
            if point.u[k] >= local.high[k]:
                return inf
            logs, product = log_product_sum(logs, product, local.high[k] - point.u[k])
    return objective(local, point.u) - mu * (logs + log(product))
