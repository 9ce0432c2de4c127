"""The same network with power for sale at every bus, so that a balanced point always exists.

Trade is one or two more local variables per balance, so these are further problems of the same engine. *Softened*: the task
itself, its objective plus a large multiple of the squares traded. Where demands can barely be served, the feasible set is as
thin as a hair and its prices are huge; the softened task has an interior all the same, and its solution is a start with
nearly the right multipliers. *Elastic* (restoration): minimise the power bought and sold, staying near the point
that the line search could not leave.
"""

from __future__ import annotations

import numpy as np

from gridveil.solvers.structured.layout import GridData, Iterate, LocalData
from gridveil.solvers.structured.settings import ELASTIC_ROOM, FIRM, HOLD
from gridveil.solvers.structured.warm import cold_start


def elastic_problem(local: LocalData, u_reference: np.ndarray) -> LocalData:
    """Replace the objective by the power bought (first 2N new variables) and sold (last 2N) at all buses."""
    n_bus = len(local.fixed_draw)
    bus, row = np.tile(np.repeat(np.arange(n_bus), 2), 2), np.tile([0, 1], 2 * n_bus)
    n_new, n_rows = 4 * n_bus, len(local.row_low)
    nothing = np.zeros(n_new)
    return local._replace(
        bus=np.concatenate([local.bus, bus]),
        row=np.concatenate([local.row, row]),
        sign=np.concatenate([local.sign, np.repeat([1.0, -1.0], 2 * n_bus)]),
        low=np.concatenate([local.low, nothing]),
        high=np.concatenate([local.high, nothing + np.inf]),
        linear=np.concatenate([-HOLD * u_reference, nothing + 1.0]),
        quadratic=np.concatenate([np.full(len(local.bus), HOLD), nothing]),
        row_linear=np.concatenate([local.row_linear, np.zeros((n_rows, n_new))], axis=1),
        row_quadratic=np.concatenate([local.row_quadratic, np.zeros((n_rows, n_new))], axis=1),
    )


def elastic_start(grid: GridData, elastic: LocalData, stuck: Iterate, balance: np.ndarray, mu: float) -> Iterate:
    """Start where the run got stuck, buying what is missing and selling what is left over."""
    missing = balance.reshape(-1)
    trade = np.concatenate([np.maximum(missing, 0.0), np.maximum(-missing, 0.0)]) + ELASTIC_ROOM
    return cold_start(grid, elastic, stuck.x, np.concatenate([stuck.u, trade]), mu)


def softened_problem(local: LocalData) -> LocalData:
    """Let every balance trade at a quadratic price (2N new variables), and keep objective and rows as they are."""
    n_bus, n_rows = len(local.fixed_draw), len(local.row_low)
    n_new = 2 * n_bus
    nothing = np.zeros(n_new)
    return local._replace(
        bus=np.concatenate([local.bus, np.repeat(np.arange(n_bus), 2)]),
        row=np.concatenate([local.row, np.tile([0, 1], n_bus)]),
        sign=np.concatenate([local.sign, nothing + 1.0]),
        low=np.concatenate([local.low, nothing - np.inf]),
        high=np.concatenate([local.high, nothing + np.inf]),
        linear=np.concatenate([local.linear, nothing]),
        quadratic=np.concatenate([local.quadratic, nothing + FIRM]),
        row_linear=np.concatenate([local.row_linear, np.zeros((n_rows, n_new))], axis=1),
        row_quadratic=np.concatenate([local.row_quadratic, np.zeros((n_rows, n_new))], axis=1),
    )
