"""AC optimal power flow: Model 1 of the paper, equation by equation, in polar voltages and over whole arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gridveil.core.lazy import lazy_module
from gridveil.programs import Follower, ParametricProgram
from gridveil.programs.families import Rows, Variable, assemble, constant, equal_to_zero, limits, pick, sum_at, symbols
from gridveil.sectors.power.dcopf import dc_opf
from gridveil.sectors.power.network import Grid, PowerNetwork
from gridveil.sectors.power.opf_parts import (
    constraint_angle_difference,
    constraint_cost_level,
    objective_generation_cost,
    variable_angle,
    variable_cost_level,
    variable_generation,
)

if TYPE_CHECKING:
    import casadi as ca
else:
    ca = lazy_module("casadi")

Vector = NDArray[np.float64]

AC_OPF = "AC-OPF"


@dataclass(frozen=True, eq=False)
class Flows:
    """Active and reactive power entering each branch at its from and to ends."""

    p_from: ca.MX
    q_from: ca.MX
    p_to: ca.MX
    q_to: ca.MX


def ac_opf(network: PowerNetwork) -> ParametricProgram:
    """O(d) with d = (P of the served load sites; Q of the same), all in per unit; cost in $/h.

    The expressions are written when a solver asks for them: the structured one works from arrays.
    """
    grid = network.grid
    generator = grid.generator
    variables = [
        variable_angle(grid),
        variable_magnitude(grid),
        variable_generation(generator.p_min, generator.p_max),
        variable_generation(generator.q_min, generator.q_max),
        variable_cost_level(generator.cost, generator),
    ]
    more = {"cost_unit": "$/h", "more_starts": (lambda d: start_from_dc(network, d),), "fine_below": 1.0}
    return ParametricProgram.deferred(
        name=AC_OPF,
        n_d=2 * len(grid.load_bus),
        write=lambda: _written(grid, variables, more),
        **limits(variables),
        **more,
    )


def _written(grid: Grid, variables: list[Variable], more: dict[str, Any]) -> ParametricProgram:
    generator, n_load = grid.generator, len(grid.load_bus)
    x, (angle, magnitude, p_gen, q_gen, level) = symbols(variables)
    d = ca.MX.sym("d", 2 * n_load)
    p_load, q_load = ca.vertsplit(d, n_load)

    flows = expression_ohms_law(grid, angle, magnitude)
    rows = [
        constraint_power_balance(grid, magnitude, flows, (p_gen, q_gen), (p_load, q_load)),
        constraint_angle_difference(grid, angle),
        constraint_thermal_limit(grid, flows),
        constraint_cost_level(generator.cost, p_gen, level),
    ]
    cost = objective_generation_cost(generator.cost, p_gen, level)
    return assemble(AC_OPF, x, d, variables, rows, cost, proxy=ca.sum1(p_load), **more)


def start_from_dc(network: PowerNetwork, d: Vector) -> Vector:
    """Angles and active power of the DC optimum at the active part of d (wherever its solver ended), |V| and Q as at first."""
    grid = network.grid
    n_bus, n_gen = grid.n_bus, len(grid.generator.bus)
    rough = Follower(dc_opf(network)).solve(d[: len(grid.load_bus)]).x
    magnitude, reactive = (
        variable_magnitude(grid).start,
        variable_generation(grid.generator.q_min, grid.generator.q_max).start,
    )
    return np.concatenate([rough[:n_bus], magnitude, rough[n_bus : n_bus + n_gen], reactive, rough[n_bus + n_gen :]])


def variable_magnitude(grid: Grid) -> Variable:
    """|V|, with its limits (3)."""
    lower, upper = np.maximum(grid.bus.v_min, 0.0), grid.bus.v_max
    return Variable(lower, upper, np.clip(1.0, lower, upper))


def expression_ohms_law(grid: Grid, angle: ca.MX, magnitude: ca.MX) -> Flows:
    """(8): S_ij = conj(Y_ii)|V_i|² + conj(Y_ij) V_i conj(V_j), for both ends of each branch."""
    v_i, v_j = pick(magnitude, grid.from_bus), pick(magnitude, grid.to_bus)
    theta = pick(angle, grid.from_bus) - pick(angle, grid.to_bus)
    g_ii, g_ij, g_ji, g_jj = (constant(y.real) for y in (grid.y_ff, grid.y_ft, grid.y_tf, grid.y_tt))
    b_ii, b_ij, b_ji, b_jj = (constant(y.imag) for y in (grid.y_ff, grid.y_ft, grid.y_tf, grid.y_tt))
    cos, sin = v_i * v_j * ca.cos(theta), v_i * v_j * ca.sin(theta)
    return Flows(
        p_from=g_ii * v_i**2 + g_ij * cos + b_ij * sin,
        q_from=-b_ii * v_i**2 - b_ij * cos + g_ij * sin,
        p_to=g_jj * v_j**2 + g_ji * cos - b_ji * sin,
        q_to=-b_jj * v_j**2 - b_ji * cos - g_ji * sin,
    )


def constraint_power_balance(
    grid: Grid, magnitude: ca.MX, flows: Flows, generation: tuple[ca.MX, ca.MX], load: tuple[ca.MX, ca.MX]
) -> Rows:
    """(7): what is generated at a bus, less loads and shunts, leaves through its branches."""
    at_from, at_to = sum_at(grid.from_bus, grid.n_bus), sum_at(grid.to_bus, grid.n_bus)
    at_generator, at_load = sum_at(grid.generator.bus, grid.n_bus), sum_at(grid.load_bus, grid.n_bus)
    conductance, susceptance = constant(grid.bus.shunt.real), constant(grid.bus.shunt.imag)
    active_out = at_from @ flows.p_from + at_to @ flows.p_to + conductance * magnitude**2
    reactive_out = at_from @ flows.q_from + at_to @ flows.q_to - susceptance * magnitude**2
    active = at_generator @ generation[0] - at_load @ load[0] - active_out
    reactive = at_generator @ generation[1] - at_load @ load[1] - reactive_out
    return equal_to_zero(ca.vertcat(active, reactive))


def constraint_thermal_limit(grid: Grid, flows: Flows) -> Rows:
    """(6): |S|² ≤ rate² at both ends of each branch that has a limit."""
    limited = np.flatnonzero(np.isfinite(grid.rate))
    at_from = pick(flows.p_from, limited) ** 2 + pick(flows.q_from, limited) ** 2
    at_to = pick(flows.p_to, limited) ** 2 + pick(flows.q_to, limited) ** 2
    squared = np.tile(grid.rate[limited] ** 2, 2)
    return Rows(ca.vertcat(at_from, at_to), np.full(2 * len(limited), -np.inf), squared)
