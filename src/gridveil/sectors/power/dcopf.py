"""DC optimal power flow on the same network: PowerModels' plain form (lossless, taps and shifts ignored, |V| = 1)."""

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
    objective_generation_cost,
    variable_angle,
    variable_cost_level,
    variable_generation,
)

if TYPE_CHECKING:
    import casadi as ca
else:
    ca = lazy_module("casadi")


def dc_opf(network: PowerNetwork) -> ParametricProgram:
    """O(d) with d = active power of the served load sites, per unit; cost in $/h."""
    grid = network.grid
    generator = grid.generator
    variables = [
        variable_angle(grid),
        variable_generation(generator.p_min, generator.p_max),
        variable_cost_level(generator.cost, generator),
    ]
    x, (angle, p_gen, level) = symbols(variables)
    d = ca.MX.sym("d", len(grid.load_bus))

    flow = expression_dc_flow(grid, angle)
    rows = [
        constraint_active_balance(grid, flow, p_gen, d),
        constraint_angle_difference(grid, angle),
        constraint_flow_limit(grid, flow),
        constraint_cost_level(generator.cost, p_gen, level),
    ]
    return assemble(
        "DC-OPF", x, d, variables, rows, objective_generation_cost(generator.cost, p_gen, level), cost_unit="$/h"
    )


def expression_dc_flow(grid: Grid, angle: ca.MX) -> ca.MX:
    """Active power from the from to the to end of each branch: susceptance times angle difference."""
    return constant(grid.reactance_susceptance) * (pick(angle, grid.from_bus) - pick(angle, grid.to_bus))


def constraint_active_balance(grid: Grid, flow: ca.MX, generation: ca.MX, load: ca.MX) -> Rows:
    """What is generated at a bus, less loads and shunt conductance, leaves through its branches."""
    at_from, at_to = sum_at(grid.from_bus, grid.n_bus), sum_at(grid.to_bus, grid.n_bus)
    at_generator, at_load = sum_at(grid.generator.bus, grid.n_bus), sum_at(grid.load_bus, grid.n_bus)
    return equal_to_zero(
        at_generator @ generation - at_load @ load - constant(grid.bus.shunt.real) - (at_from - at_to) @ flow
    )


def constraint_flow_limit(grid: Grid, flow: ca.MX) -> Rows:
    """|flow| ≤ rate on each branch that has a limit."""
    limited = np.flatnonzero(np.isfinite(grid.rate))
    return Rows(pick(flow, limited), -grid.rate[limited], grid.rate[limited])
