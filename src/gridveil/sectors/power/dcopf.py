"""DC optimal power flow on the same network: PowerModels' plain form (lossless branches, no taps and shifts, |V| = 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gridveil.core.lazy import lazy_module
from gridveil.programs import ParametricProgram
from gridveil.programs.families import Rows, assemble, constant, equal_to_zero, pick, sum_at, symbols
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
)

if TYPE_CHECKING:
    import casadi as ca
else:
    ca = lazy_module("casadi")


def dc_opf(network: PowerNetwork) -> ParametricProgram:
    """O(d) with d = active power of the served load sites, per unit; cost in $/h."""
    grid = network.grid
    generator, line, cost = grid.generator, grid.dc_line, grid.active_cost
    lower, upper = np.concatenate([generator.p_min, line.p_min]), np.concatenate([generator.p_max, line.p_max])
    variables = [
        variable_angle(grid),
        variable_generation(generator.p_min, generator.p_max),
        variable_dc_line(grid),
        variable_cost_level(cost, lower, upper),
    ]
    x, (angle, p_gen, carried, level) = symbols(variables)
    power = ca.vertcat(p_gen, carried)
    d = ca.MX.sym("d", len(grid.load_bus))

    flow = expression_dc_flow(grid, angle)
    rows = [
        constraint_active_balance(grid, flow, p_gen, carried, d),
        constraint_angle_difference(grid, angle),
        constraint_flow_limit(grid, flow),
        constraint_cost_level(cost, power, level),
    ]
    return assemble("DC-OPF", x, d, variables, rows, objective_generation_cost(cost, power, level), cost_unit="$/h")


def expression_dc_flow(grid: Grid, angle: ca.MX) -> ca.MX:
    """Active power from the from to the to end of each branch: susceptance times angle difference."""
    return constant(grid.reactance_susceptance) * (pick(angle, grid.from_bus) - pick(angle, grid.to_bus))


def constraint_active_balance(grid: Grid, flow: ca.MX, generation: ca.MX, carried: ca.MX, load: ca.MX) -> Rows:
    """What is generated at a bus or comes over DC lines, less loads and shunt conductance, leaves through its branches."""
    at_from, at_to = sum_at(grid.from_bus, grid.n_bus), sum_at(grid.to_bus, grid.n_bus)
    at_generator, at_load = sum_at(grid.generator.bus, grid.n_bus), sum_at(grid.load_bus, grid.n_bus)
    fed = at_generator @ generation + expression_dc_line_power(grid, carried)
    return equal_to_zero(fed - at_load @ load - constant(grid.bus.shunt.real) - (at_from - at_to) @ flow)


def constraint_flow_limit(grid: Grid, flow: ca.MX) -> Rows:
    """|flow| ≤ rate on each branch that has a limit; at |V| = 1 a limit on the current is one on the power as well."""
    rate = np.minimum(grid.rate, grid.current)
    limited = np.flatnonzero(np.isfinite(rate))
    return Rows(pick(flow, limited), -rate[limited], rate[limited])
