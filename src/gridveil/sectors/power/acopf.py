"""AC optimal power flow: Model 1 of the paper, equation by equation, in polar voltages and over whole arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gridveil.core.lazy import lazy_module
from gridveil.programs import Follower, ParametricProgram
from gridveil.programs.families import Rows, Variable, assemble, constant, equal_to_zero, limits, pick, sum_at, symbols
from gridveil.sectors.power.costs import cost_levels
from gridveil.sectors.power.dcopf import dc_opf
from gridveil.sectors.power.network import Grid, PowerNetwork
from gridveil.sectors.power.opf_parts import (
    constraint_angle_difference,
    constraint_cost_level,
    expression_dc_line_power,
    objective_generation_cost,
    variable_angle,
    variable_cost_level,
    variable_dc_line,
    variable_generation,
    variable_susceptance,
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


@dataclass(frozen=True, eq=False)
class Admittances:
    """Conductances and susceptances of all branches: own (ii, jj) and mutual (ij, ji), numbers or expressions."""

    g: tuple[Any, Any, Any, Any]
    b: tuple[Any, Any, Any, Any]
    """In the order ii, ij, ji, jj, as those of g."""


def ac_opf(network: PowerNetwork) -> ParametricProgram:
    """O(d) with d = (P of the served load sites; Q of the same), all in per unit; cost in $/h.

    The expressions are written when a solver asks for them: the structured one works from arrays.
    """
    grid = network.grid
    variables = ac_variables(grid)
    more = {"cost_unit": "$/h", "more_starts": (lambda d: start_from_dc(network, d),), "fine_below": 1.0}
    return ParametricProgram.deferred(
        name=AC_OPF,
        n_d=2 * len(grid.load_bus),
        write=lambda: _written(grid, variables, more),
        **limits(variables),
        **more,
    )


def ac_variables(grid: Grid) -> list[Variable]:
    """Angles, magnitudes, active and reactive power of generators, DC lines, susceptances and levels of costs."""
    generator, line = grid.generator, grid.dc_line
    lower = np.concatenate([generator.p_min, generator.q_min, line.p_min])
    upper = np.concatenate([generator.p_max, generator.q_max, line.p_max])
    return [
        variable_angle(grid),
        variable_magnitude(grid),
        variable_generation(generator.p_min, generator.p_max),
        variable_generation(generator.q_min, generator.q_max),
        variable_dc_line(grid),
        variable_susceptance(grid),
        variable_cost_level(grid.cost, lower, upper),
    ]


def _written(grid: Grid, variables: list[Variable], more: dict[str, Any]) -> ParametricProgram:
    n_load = len(grid.load_bus)
    x, (angle, magnitude, p_gen, q_gen, carried, susceptance, level) = symbols(variables)
    d = ca.MX.sym("d", 2 * n_load)
    p_load, q_load = ca.vertsplit(d, n_load)

    flows = expression_ohms_law(grid, admittances(grid), angle, magnitude)
    rows = [
        constraint_power_balance(
            grid,
            magnitude,
            flows,
            (p_gen, q_gen),
            (p_load, q_load),
            expression_elements(grid, magnitude, carried, susceptance),
        ),
        constraint_angle_difference(grid, angle),
        constraint_thermal_limit(grid, flows),
        constraint_current_limit(grid, flows, magnitude),
        constraint_cost_level(grid.cost, ca.vertcat(p_gen, q_gen, carried), level),
    ]
    cost = objective_generation_cost(grid.cost, ca.vertcat(p_gen, q_gen, carried), level)
    return assemble(AC_OPF, x, d, variables, rows, cost, proxy=ca.sum1(p_load), **more)


def start_from_dc(network: PowerNetwork, d: Vector) -> Vector:
    """Angles and active power of the DC optimum at the active part of d (wherever its solver ended), the rest as at first."""
    grid = network.grid
    generator = grid.generator
    rough = Follower(dc_opf(network)).solve(d[: len(grid.load_bus)]).x
    sizes = [grid.n_bus, len(generator.bus), len(grid.dc_line.from_bus)]
    angle, p_gen, carried, _ = np.split(rough, np.cumsum(sizes))
    q_gen = variable_generation(generator.q_min, generator.q_max).start
    susceptance = variable_susceptance(grid).start
    level = cost_levels(grid.cost, np.concatenate([p_gen, q_gen, carried]))
    return np.concatenate([angle, variable_magnitude(grid).start, p_gen, q_gen, carried, susceptance, level])


def variable_magnitude(grid: Grid) -> Variable:
    """|V|, with its limits (3)."""
    lower, upper = np.maximum(grid.bus.v_min, 0.0), grid.bus.v_max
    return Variable(lower, upper, np.clip(1.0, lower, upper))


def admittances(grid: Grid) -> Admittances:
    """The branches of a network whose impedances are public."""
    all_four = (grid.y_ff, grid.y_ft, grid.y_tf, grid.y_tt)
    g_ii, g_ij, g_ji, g_jj = (constant(y.real) for y in all_four)
    b_ii, b_ij, b_ji, b_jj = (constant(y.imag) for y in all_four)
    return Admittances((g_ii, g_ij, g_ji, g_jj), (b_ii, b_ij, b_ji, b_jj))


def expression_ohms_law(grid: Grid, y: Admittances, angle: ca.MX, magnitude: ca.MX) -> Flows:
    """(8): S_ij = conj(Y_ii)|V_i|² + conj(Y_ij) V_i conj(V_j), for both ends of each branch."""
    v_i, v_j = pick(magnitude, grid.from_bus), pick(magnitude, grid.to_bus)
    theta = pick(angle, grid.from_bus) - pick(angle, grid.to_bus)
    (g_ii, g_ij, g_ji, g_jj), (b_ii, b_ij, b_ji, b_jj) = y.g, y.b
    cos, sin = v_i * v_j * ca.cos(theta), v_i * v_j * ca.sin(theta)
    return Flows(
        p_from=g_ii * v_i**2 + g_ij * cos + b_ij * sin,
        q_from=-b_ii * v_i**2 - b_ij * cos + g_ij * sin,
        p_to=g_jj * v_j**2 + g_ji * cos - b_ji * sin,
        q_to=-b_jj * v_j**2 - b_ji * cos - g_ji * sin,
    )


def expression_elements(grid: Grid, magnitude: ca.MX, carried: ca.MX, susceptance: ca.MX) -> tuple[ca.MX, ca.MX]:
    """Active power that DC lines feed at each bus, and reactive power b·|V|² of its compensators."""
    at_bus = sum_at(grid.compensator.bus, grid.n_bus)
    return expression_dc_line_power(grid, carried), (at_bus @ susceptance) * magnitude**2


def constraint_power_balance(
    grid: Grid,
    magnitude: ca.MX,
    flows: Flows,
    generation: tuple[ca.MX, ca.MX],
    load: tuple[ca.MX, ca.MX],
    elements: tuple[ca.MX, ca.MX],
) -> Rows:
    """(7): what is generated at a bus or fed by its other elements, less loads and shunts, leaves through its branches."""
    at_from, at_to = sum_at(grid.from_bus, grid.n_bus), sum_at(grid.to_bus, grid.n_bus)
    at_generator, at_load = sum_at(grid.generator.bus, grid.n_bus), sum_at(grid.load_bus, grid.n_bus)
    conductance, susceptance = constant(grid.bus.shunt.real), constant(grid.bus.shunt.imag)
    active_out = at_from @ flows.p_from + at_to @ flows.p_to + conductance * magnitude**2
    reactive_out = at_from @ flows.q_from + at_to @ flows.q_to - susceptance * magnitude**2
    active = at_generator @ generation[0] + elements[0] - at_load @ load[0] - active_out
    reactive = at_generator @ generation[1] + elements[1] - at_load @ load[1] - reactive_out
    return equal_to_zero(ca.vertcat(active, reactive))


def constraint_thermal_limit(grid: Grid, flows: Flows) -> Rows:
    """(6): |S|² ≤ rate² at both ends of each branch that has a limit."""
    limited = np.flatnonzero(np.isfinite(grid.rate))
    at_from = pick(flows.p_from, limited) ** 2 + pick(flows.q_from, limited) ** 2
    at_to = pick(flows.p_to, limited) ** 2 + pick(flows.q_to, limited) ** 2
    squared = np.tile(grid.rate[limited] ** 2, 2)
    return Rows(ca.vertcat(at_from, at_to), np.full(2 * len(limited), -np.inf), squared)


def constraint_current_limit(grid: Grid, flows: Flows, magnitude: ca.MX) -> Rows:
    """|S|² ≤ current²·|V|² at both ends of each branch with a limit on its current."""
    limited = np.flatnonzero(np.isfinite(grid.current))
    at_from = pick(flows.p_from, limited) ** 2 + pick(flows.q_from, limited) ** 2
    at_to = pick(flows.p_to, limited) ** 2 + pick(flows.q_to, limited) ** 2
    ends = np.concatenate([grid.from_bus[limited], grid.to_bus[limited]])
    allowed = constant(np.tile(grid.current[limited] ** 2, 2)) * pick(magnitude, ends) ** 2
    return Rows(ca.vertcat(at_from, at_to) - allowed, np.full(2 * len(limited), -np.inf), np.zeros(2 * len(limited)))
