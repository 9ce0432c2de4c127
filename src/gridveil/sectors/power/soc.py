"""Bounds from the second-order-cone relaxation: global lower bounds on O(d) and on the distance of any release.

Both hold whatever a local solver found, for negative loads, any polynomial or convex piecewise-linear cost, parallel lines,
transformers and phase shifters. `soc_program` says why the numbers are safe.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridveil.core.band import CostTarget
from gridveil.core.errors import InputError
from gridveil.programs.conic import Affine, BoundStatus, ConicProgram, SocBound
from gridveil.programs.sparse_rows import SparseRows
from gridveil.sectors.power.network import Grid
from gridveil.sectors.power.soc_costs import ConvexCosts, relaxed_powers
from gridveil.sectors.power.soc_model import (
    Block,
    Voltage,
    assemble,
    bus_pairs,
    constraint_between,
    constraint_cost_level,
    constraint_network,
    cost_scale,
    generation_box,
    variable_voltage,
)

Floats = NDArray[np.float64]

__all__ = ["BoundStatus", "SocBound", "soc_distance_bound", "soc_lower_bound"]


def soc_lower_bound(grid: Grid, demand: NDArray[Any]) -> SocBound:
    """Bound the AC-OPF optimum from below, in $/h; ``demand`` is P + jQ per unit, one for each site of grid.load_bus."""
    program, scale = cost_program(grid, demand)
    return program.lower_bound(scale=scale)


@dataclass(frozen=True, eq=False, kw_only=True)
class CostModel:
    """The relaxed AC-OPF over (w, α, ω, η, powers, level), and what it was made of."""

    program: ConicProgram
    scale: float
    """The size of marginal costs that levels are measured in."""
    cost: ConvexCosts
    weight: float = 1.0
    """What a $/h weighs in the objective."""


def cost_program(grid: Grid, demand: NDArray[Any]) -> tuple[ConicProgram, float]:
    """Build the relaxed AC-OPF over (w, α, ω, η, powers, level), and the size of marginal costs that its levels are measured in."""
    model = cost_model(grid, demand)
    return model.program, model.scale


def cost_model(grid: Grid, demand: NDArray[Any]) -> CostModel:
    """Set up the relaxed AC-OPF for these demands."""
    check_sites(grid, demand)
    p_low, p_high = generation_box(grid, demand.real, demand.real)
    powers = relaxed_powers(grid, p_low, p_high)
    cost = powers.convex
    scale = cost_scale(cost, powers.low, powers.high)
    pairs = bus_pairs(grid)
    program, (w, loss, sine, tilt, power, level) = assemble(
        [
            *variable_voltage(grid, pairs),
            Block(lower=powers.low, upper=powers.high, quadratic=2 * cost.quadratic, linear=cost.linear),
            Block(lower=cost.level_lower / scale, upper=cost.level_upper / scale, linear=scale),
        ]
    )
    program.constant = cost.constant
    nothing = Affine(SparseRows.empty(len(demand), len(program.linear)), np.zeros(len(demand)))
    load = (nothing.plus(demand.real), nothing.plus(demand.imag))
    constraint_network(program, grid, pairs, Voltage(w, loss, sine, tilt), power, load)
    constraint_cost_level(program, cost, power, level, scale)
    return CostModel(program=program, scale=scale, cost=cost)


def soc_distance_bound(
    grid: Grid, noisy: NDArray[Any], target: CostTarget, d_lower: Floats, d_upper: Floats
) -> SocBound:
    """Bound δ = ‖d − d̃‖² (per unit, squared) from below for every d whose optimal cost lies in the band.

    ``noisy`` is P + jQ per unit for each site of grid.load_bus; the limits on d are those of the program, P of all sites and
    then Q. HPR is relaxed: some flow serves d at a cost of at most f̃ + β, which is convex, and of at least f̃ − β, for which
    the cost is replaced by its chords between p_min and p_max (left out if a generator has no finite limits).
    """
    check_sites(grid, noisy)
    if d_lower.shape != (2 * len(noisy),) or d_upper.shape != (2 * len(noisy),):
        raise InputError("the limits on d need P of each served load site, then Q of each; give two numbers per site")
    bound = distance_program(grid, noisy, target, d_lower, d_upper).lower_bound(scale=1.0)
    return bound if bound.value is None else replace(bound, value=max(bound.value, 0.0))


def distance_program(
    grid: Grid, noisy: NDArray[Any], target: CostTarget, d_lower: Floats, d_upper: Floats
) -> ConicProgram:
    """Build the relaxed HPR over (w, α, ω, η, powers, level, square, d − d̃)."""
    n, away = len(noisy), np.concatenate([noisy.real, noisy.imag])
    p_low, p_high = generation_box(grid, d_lower[:n], d_upper[:n])
    powers = relaxed_powers(grid, p_low, p_high)
    cost = powers.convex
    scale = cost_scale(cost, powers.low, powers.high)
    curved = np.flatnonzero(cost.quadratic > 0)
    reach = np.maximum(np.abs(powers.low), np.abs(powers.high))[curved]
    pairs = bus_pairs(grid)
    program, (w, loss, sine, tilt, power, level, square, move) = assemble(
        [
            *variable_voltage(grid, pairs),
            Block(lower=powers.low, upper=powers.high),
            Block(lower=cost.level_lower / scale, upper=cost.level_upper / scale),
            Block(lower=np.zeros(len(curved)), upper=np.where(np.isfinite(reach), 1.0, np.inf)),
            Block(lower=d_lower - away, upper=d_upper - away, quadratic=2.0),
        ]
    )
    unit = np.where(np.isfinite(reach) & (reach > 0), reach, 1.0)
    p_load, q_load = (move.pick(np.arange(n) + start).plus(away[start : start + n]) for start in (0, n))
    constraint_network(program, grid, pairs, Voltage(w, loss, sine, tilt), power, (p_load, q_load))
    constraint_between(program, move, d_lower - away, d_upper - away)
    constraint_cost_level(program, cost, power, level, scale)
    constraint_square(program, power.pick(curved).times(1 / unit), square)
    spent = power.times(cost.linear / scale).total() + level.total()
    spent += square.times(cost.quadratic[curved] * unit**2 / scale).total()
    program.add_nonnegative(spent.times(-1.0).plus((target.upper - cost.constant) / scale))
    constraint_cost_floor(program, cost, power, target.lower, scale)
    return program


def weighed_distance_model(grid: Grid, noisy: NDArray[Any], target: CostTarget, weight: float) -> CostModel:
    """Build the relaxed HPR over (w, α, ω, η, powers, level, d − d̃) without limits on d, its band moved to the objective.

    A positive ``weight``, per $/h, is that of what the cost exceeds f̃ + β by; a negative one is minus that of what the chords
    of the costs fall short of f̃ − β by. For every weight the optimum lies below that of `distance_program`.
    """
    n = len(noisy)
    free, above, below = np.full(2 * n, np.inf), max(weight, 0.0), max(-weight, 0.0)
    powers = relaxed_powers(grid, *generation_box(grid, -free[:n], free[:n]))
    cost = powers.convex
    scale = cost_scale(cost, powers.low, powers.high)
    pairs = bus_pairs(grid)
    linear = above * cost.linear - (below * cost.secant_slope if below else 0.0)
    program, (w, loss, sine, tilt, power, level, move) = assemble(
        [
            *variable_voltage(grid, pairs),
            Block(lower=powers.low, upper=powers.high, quadratic=2 * above * cost.quadratic, linear=linear),
            Block(lower=cost.level_lower / scale, upper=cost.level_upper / scale, linear=above * scale),
            Block(lower=-free, upper=free, quadratic=2.0),
        ]
    )
    program.constant = above * (cost.constant - target.upper)
    if below:
        program.constant += below * (target.lower - float(np.sum(cost.secant_intercept)))
    p_load, q_load = (move.pick(np.arange(n) + start).plus(part) for start, part in ((0, noisy.real), (n, noisy.imag)))
    constraint_network(program, grid, pairs, Voltage(w, loss, sine, tilt), power, (p_load, q_load))
    constraint_cost_level(program, cost, power, level, scale)
    return CostModel(program=program, scale=scale, cost=cost, weight=above)


def constraint_square(program: ConicProgram, p: Affine, square: Affine) -> None:
    """Each square ≥ p², as ‖(2p, 1 − square)‖ ≤ 1 + square."""
    program.add_cones(square.plus(1.0), p.times(2.0), square.times(-1.0).plus(1.0))


def constraint_cost_floor(program: ConicProgram, cost: ConvexCosts, power: Affine, lower: float, scale: float) -> None:
    """The chords of all costs add up to the lower end of the band at least."""
    if np.all(np.isfinite(cost.secant_intercept)):
        most = power.times(cost.secant_slope).plus(cost.secant_intercept).total()
        program.add_nonnegative(most.plus(-lower).times(1 / scale))


def check_sites(grid: Grid, values: NDArray[Any]) -> None:
    """Refuse values that are not one finite number for each served site."""
    if values.shape != grid.load_bus.shape or not np.all(np.isfinite(values)):
        raise InputError(
            "a bound needs one finite P + jQ per served load site; leave out the sites that are not served"
        )
