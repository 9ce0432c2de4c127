"""The rows of one pair of buses: flows, balances and cones as coefficients of (α, ω, w_i, w_j)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gridveil.sectors.power.network import Grid
from gridveil.sectors.power.soc_model import BusPairs, largest_flows

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ANGLE_HIGH, ANGLE_LOW, CUT_HIGH, CUT_LOW, PRODUCT, FLOW_FROM, FLOW_TO, LOSS_LIMIT = range(8)
"""Families of cones, in the order of `pair_families`."""


@dataclass(frozen=True, eq=False)
class Family:
    """Cones of one kind, one for each entry of ``pair``: constant + rows·(α, ω, w_i, w_j) is in the cone."""

    pair: Ints
    rows: Floats
    """(cones, dimension, 4)."""
    constant: Floats
    """(cones, dimension)."""


@dataclass(frozen=True, eq=False)
class PairExpressions:
    """wr and wi over pairs, and the power entering each branch at both ends, as coefficients of (α, ω, w_i, w_j)."""

    wr: Floats
    wi: Floats
    p_from: Floats
    q_from: Floats
    p_to: Floats
    q_to: Floats


def pair_expressions(grid: Grid, pairs: BusPairs) -> PairExpressions:
    """V_i·conj(V_j) = τ·(½(w_i/|τ|² + w_j) − z²α + j·zω), and Ohm's law."""
    z, none = pairs.unit, np.zeros(len(pairs.unit))
    real = np.stack([-(z**2), none, 0.5 / np.abs(pairs.ratio) ** 2, none + 0.5], axis=1)
    imaginary = np.stack([none, z, none, none], axis=1)
    tau = pairs.ratio
    wr = _column(tau.real) * real - _column(tau.imag) * imaginary
    wi = _column(tau.imag) * real + _column(tau.real) * imaginary
    cos, sin = wr[pairs.of_branch], wi[pairs.of_branch] * _column(np.where(pairs.along, 1.0, -1.0))
    branch = np.arange(len(pairs.along))
    w_from, w_to = np.zeros((len(branch), 4)), np.zeros((len(branch), 4))
    w_from[branch, np.where(pairs.along, 2, 3)] = 1.0
    w_to[branch, np.where(pairs.along, 3, 2)] = 1.0
    y_ff, y_ft, y_tf, y_tt = (y[:, None] for y in (grid.y_ff, grid.y_ft, grid.y_tf, grid.y_tt))
    return PairExpressions(
        wr=wr,
        wi=wi,
        p_from=y_ff.real * w_from + y_ft.real * cos + y_ft.imag * sin,
        q_from=-y_ff.imag * w_from - y_ft.imag * cos + y_ft.real * sin,
        p_to=y_tt.real * w_to + y_tf.real * cos - y_tf.imag * sin,
        q_to=-y_tt.imag * w_to - y_tf.imag * cos - y_tf.real * sin,
    )


def pair_balances(pairs: BusPairs, flow: PairExpressions) -> Floats:
    """(E, 4, 4): what the branches of a pair take from P_i, Q_i, P_j, Q_j."""
    balance = np.zeros((len(pairs.i), 4, 4))
    from_i, from_j = np.where(pairs.along, 0, 2), np.where(pairs.along, 2, 0)
    np.add.at(balance, (pairs.of_branch, from_i), flow.p_from)
    np.add.at(balance, (pairs.of_branch, from_i + 1), flow.q_from)
    np.add.at(balance, (pairs.of_branch, from_j), flow.p_to)
    np.add.at(balance, (pairs.of_branch, from_j + 1), flow.q_to)
    return balance


def tight_flows(grid: Grid) -> tuple[tuple[Ints, Floats], tuple[Ints, Floats]]:
    """At each end, the branches whose rate the voltage limits do not imply, and the factor that their rows are scaled by."""
    tight = [np.flatnonzero(grid.rate < largest) for largest in largest_flows(grid)]
    at_from, at_to = ((branch, 1 / np.maximum(1.0, grid.rate[branch])) for branch in tight)
    return at_from, at_to


def pair_families(grid: Grid, pairs: BusPairs, flow: PairExpressions, *, limit_losses: bool) -> list[Family]:
    """All cones of all pairs: the constraints of `soc_model`, and on request α ≤ drop²/(2z²), which its box holds alone.

    That limit is true of every operating point: z²α is ½|V_i/τ − V_j|².
    """
    families = [*_angle_families(pairs, flow), *_cut_families(grid, pairs, flow), _product_family(pairs)]
    for (branch, unit), p, q in zip(tight_flows(grid), (flow.p_from, flow.p_to), (flow.q_from, flow.q_to), strict=True):
        rows = np.stack([np.zeros((len(branch), 4)), p[branch], q[branch]], axis=1)
        constant = np.zeros((len(branch), 3))
        constant[:, 0] = grid.rate[branch] * unit
        families.append(Family(pairs.of_branch[branch], rows * unit[:, None, None], constant))
    if limit_losses:
        most = 0.5 * (pairs.drop / pairs.unit) ** 2
        unit = 1 / np.maximum(1.0, most)
        rows = -_column(unit) * np.array([1.0, 0.0, 0.0, 0.0])
        families.append(Family(np.arange(len(most)), rows[:, None], (unit * most)[:, None]))
    return families


def _angle_families(pairs: BusPairs, flow: PairExpressions) -> list[Family]:
    every, none = np.arange(len(pairs.i)), np.zeros((len(pairs.i), 1))
    high = _column(np.sin(pairs.angle_max)) * flow.wr - _column(np.cos(pairs.angle_max)) * flow.wi
    low = _column(np.cos(pairs.angle_min)) * flow.wi - _column(np.sin(pairs.angle_min)) * flow.wr
    return [Family(every, high[:, None], none), Family(every, low[:, None], none)]


def _cut_families(grid: Grid, pairs: BusPairs, flow: PairExpressions) -> list[Family]:
    """The lifted nonlinear cuts, as in `soc_model.constraint_lifted_cuts`."""
    v_min, v_max = np.maximum(grid.bus.v_min, 0.0), grid.bus.v_max
    i_min, i_max, j_min, j_max = v_min[pairs.i], v_max[pairs.i], v_min[pairs.j], v_max[pairs.j]
    sum_i, sum_j = i_min + i_max, j_min + j_max
    middle, half = (pairs.angle_max + pairs.angle_min) / 2, (pairs.angle_max - pairs.angle_min) / 2
    spread = i_max * j_max - i_min * j_min
    families = []
    for v_i, v_j, side in ((i_max, j_max, 1.0), (i_min, j_min, -1.0)):
        rows = _column(np.cos(middle)) * flow.wr + _column(np.sin(middle)) * flow.wi
        rows[:, 2] -= np.cos(half) * v_j / sum_i
        rows[:, 3] -= np.cos(half) * v_i / sum_j
        constant = np.cos(half) * side * v_i * v_j * spread / (sum_i * sum_j)
        families.append(Family(np.arange(len(pairs.i)), rows[:, None], constant[:, None]))
    return families


def _product_family(pairs: BusPairs) -> Family:
    """‖(m − α, 2ω, 2η)‖ ≤ m + α with m = w_i/|τ|² + w_j − z²α and η = ½(w_i/|τ|² − w_j)/z."""
    z, none = pairs.unit, np.zeros(len(pairs.unit))
    square = np.abs(pairs.ratio) ** 2
    m = np.stack([-(z**2), none, 1 / square, none + 1.0], axis=1)
    loss, sine = np.array([1.0, 0.0, 0.0, 0.0]), np.tile([0.0, 2.0, 0.0, 0.0], (len(z), 1))
    tilt = np.stack([none, none, 1 / square / z, -1 / z], axis=1)
    rows = np.stack([m + loss, m - loss, sine, tilt], axis=1)
    return Family(np.arange(len(z)), rows, np.zeros((len(z), 4)))


def _column(values: Floats) -> Floats:
    return values[:, None]
