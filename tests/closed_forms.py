"""Programs whose O(d) is known in closed form, written independently of the solver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import casadi as ca
import numpy as np

from gridveil.core.band import CostTarget
from gridveil.core.choices import CostTargetMode
from gridveil.programs import ParametricProgram


@dataclass(frozen=True, eq=False)
class Known:
    """A program and its O(d) by formula."""

    program: ParametricProgram
    optimum: Callable[[np.ndarray], float]


def band(value: float, beta: float) -> CostTarget:
    return CostTarget(value=value, beta=beta, source=CostTargetMode.PUBLIC)


def one_dimensional() -> Known:
    """min x + x²/2 subject to x ≥ d, x ≥ 0."""
    x, d = ca.MX.sym("x"), ca.MX.sym("d")
    program = ParametricProgram(
        name="one dimension", x=x, d=d, cost=x + x**2 / 2, g=x - d, g_lower=[0], g_upper=[np.inf], x_lower=[0], x_upper=[np.inf],
        x_start=[1],
    )  # fmt: skip
    return Known(program, lambda d: max(d[0], 0.0) + max(d[0], 0.0) ** 2 / 2)


def supply(weights: list[float], slopes: list[float]) -> Known:
    """min Σ q_i x_i²/2 subject to Σ x_i ≥ wᵀd: all marginal costs are equal, so O = s²/(2 Σ 1/q_i) with s = max(wᵀd, 0)."""
    w, q = np.array(weights), np.array(slopes)
    x, d = ca.MX.sym("x", len(q)), ca.MX.sym("d", len(w))
    program = ParametricProgram(
        name="supply", x=x, d=d, cost=ca.dot(ca.DM(q), x**2) / 2, g=ca.sum1(x) - ca.dot(ca.DM(w), d), g_lower=[0], g_upper=[np.inf],
        x_lower=np.zeros(len(q)), x_upper=np.full(len(q), np.inf), x_start=np.ones(len(q)), proxy=ca.dot(ca.DM(w), d),
    )  # fmt: skip
    return Known(program, lambda d: max(float(w @ d), 0.0) ** 2 / (2 * np.sum(1 / q)))


def capacities(demand: float = 10.0, cheap: float = 1.0, dear: float = 3.0) -> Known:
    """Two private plants of capacity d at the cheap price, the rest bought at the dear one: the cost falls with d."""
    x, d = ca.MX.sym("x", 3), ca.MX.sym("d", 2)
    program = ParametricProgram(
        name="capacities", x=x, d=d, cost=cheap * (x[0] + x[1]) + dear * x[2], g=ca.vertcat(ca.sum1(x), d - x[:2]),
        g_lower=[demand, 0, 0], g_upper=[demand, np.inf, np.inf], x_lower=np.zeros(3), x_upper=np.full(3, np.inf),
        x_start=np.ones(3), proxy=-ca.sum1(d),
    )  # fmt: skip

    def optimum(d: np.ndarray) -> float:
        if d.min() < 0:
            return np.inf
        produced = min(d.sum(), demand)
        return cheap * produced + dear * (demand - produced)

    return Known(program, optimum)


def nearest_by_brute_force(
    known: Known, noisy: np.ndarray, target: CostTarget, reach: float, points: int = 801
) -> float:
    """Smallest ‖d − d̃‖² over a fine grid of data whose O lies in the band."""
    axes = [np.linspace(value - reach, value + reach, points) for value in noisy]
    grid = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, len(noisy))
    distances = ((grid - noisy) ** 2).sum(axis=1)
    for k in np.argsort(distances):
        if target.contains(known.optimum(grid[k])):
            return float(distances[k])
    raise AssertionError("the grid holds no point in the band")
