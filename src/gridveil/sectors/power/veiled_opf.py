"""AC optimal power flow with demands, costs, ratings and impedances as data: O(d), d in units of each secret's α."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gridveil.core.lazy import lazy_module
from gridveil.core.secret import SecretPart
from gridveil.core.secret_choice import COST, DEMAND, IMPEDANCE, LIMIT
from gridveil.programs import ParametricProgram
from gridveil.programs.families import Rows, assemble, constant, limits, pick, sum_at, symbols
from gridveil.sectors.model import PartLayout
from gridveil.sectors.power.acopf import (
    AC_OPF,
    Admittances,
    Flows,
    ac_variables,
    admittances,
    constraint_current_limit,
    constraint_power_balance,
    constraint_thermal_limit,
    expression_elements,
    expression_ohms_law,
    start_from_dc,
)
from gridveil.sectors.power.network import Grid, PowerNetwork
from gridveil.sectors.power.opf_parts import (
    constraint_angle_difference,
    constraint_cost_level,
    objective_generation_cost,
)
from gridveil.sectors.power.veiled_network import CHARGING, VeiledNetwork, filled

if TYPE_CHECKING:
    import casadi as ca
else:
    ca = lazy_module("casadi")

Vector = NDArray[np.float64]

DIRECTION = {DEMAND: 1.0, COST: 1.0, LIMIT: -1.0, IMPEDANCE: 1.0, CHARGING: 0.0}
"""How the proxy m counts each secret: demands and costs raise the optimal cost, ratings lower it (both are theorems for
global optima); a larger impedance loses more, which is a rule of thumb. Charging has no direction."""


def veiled_opf(network: VeiledNetwork, layout: PartLayout) -> ParametricProgram:
    """O(d) of a network with several secrets, in $/h; the equations are those of ``ac_opf``."""
    grid = network.grid.grid
    variables = ac_variables(grid)
    numbers: dict[str, Any] = {
        "cost_unit": "$/h",
        "d_lower": _bounds(layout, "lower"),
        "d_upper": _bounds(layout, "upper"),
    }
    numbers["more_starts"] = (lambda d: start_from_dc(*network_at(network, layout, d)),)
    return ParametricProgram.deferred(
        name=f"{AC_OPF} with several secrets",
        n_d=len(numbers["d_lower"]),
        write=lambda: _written(network, layout, variables, numbers),
        **limits(variables),
        **numbers,
    )


def _bounds(layout: PartLayout, end: str) -> Vector:
    """Public limits of every entry of d, in units of α."""
    columns = []
    for part in layout.parts:
        bound, n = getattr(part, end), int(layout.served[part.run].sum())
        ends = [bound.real, bound.imag][: part.field.dimension]
        columns += [np.full(n, value / float(part.alpha)) for value in ends]
    return np.concatenate([np.zeros(0), *columns])


def network_at(network: VeiledNetwork, layout: PartLayout, d: Vector) -> tuple[PowerNetwork, Vector]:
    """The network with these data, and P, then Q, of its served loads; participants out of service have no part in it."""
    anything = np.concatenate([np.full(len(part.field), _inside(part)) for part in layout.parts])
    grid, demand = filled(network, layout.to_sites(d, anything))
    loads = demand[grid.served]
    return grid, np.concatenate([loads.real, loads.imag])


def _inside(part: SecretPart) -> complex:
    ends = [value if np.isfinite(value) else 0.0 for value in (part.upper.real, part.upper.imag)]
    return complex(*ends)


def _written(network: VeiledNetwork, layout: PartLayout, variables: list[Any], numbers: dict[str, Any]) -> Any:
    grid, base = network.grid.grid, network.grid.base_mva
    x, (angle, magnitude, p_gen, q_gen, carried, susceptance, level) = symbols(variables)
    d = ca.MX.sym("d", len(numbers["d_lower"]))
    data = _expressions(layout, d)
    power = ca.vertcat(p_gen, q_gen, carried)

    flows = expression_ohms_law(grid, _admittances(network, grid, data), angle, magnitude)
    rows = [
        constraint_power_balance(
            grid,
            magnitude,
            flows,
            (p_gen, q_gen),
            _load(network, data),
            expression_elements(grid, magnitude, carried, susceptance),
        ),
        constraint_angle_difference(grid, angle),
        _thermal_limit(network, grid, flows, data) if LIMIT in data else constraint_thermal_limit(grid, flows),
        constraint_current_limit(grid, flows, magnitude),
        constraint_cost_level(grid.cost, power, level),
    ]
    cost = objective_generation_cost(grid.cost, power, level)
    if COST in data:
        n = int(network.grid.generator_on.sum())
        cost += base * ca.dot(data[COST][0], p_gen[:n])
    proxy = sum(DIRECTION[name] * ca.sum1(parts[0]) / float(_alpha(layout, name)) for name, parts in data.items())
    return assemble(f"{AC_OPF} with several secrets", x, d, variables, rows, cost, proxy=proxy, **numbers)


def _alpha(layout: PartLayout, name: str) -> float:
    return float(next(part.alpha for part in layout.parts if part.field.name == name))


def _expressions(layout: PartLayout, d: ca.MX) -> dict[str, list[ca.MX]]:
    """Real (and imaginary) parts of the served values of each secret, in their own unit."""
    data, start = {}, 0
    for part in layout.parts:
        n = int(layout.served[part.run].sum())
        columns = [d[start + k * n : start + (k + 1) * n] for k in range(part.field.dimension)]
        data[part.field.name] = [float(part.alpha) * column for column in columns]
        start += n * part.field.dimension
    return data


def _load(network: VeiledNetwork, data: dict[str, list[ca.MX]]) -> tuple[Any, Any]:
    if DEMAND in data:
        return data[DEMAND][0], data[DEMAND][1]
    assert network.public_demand is not None, "demands are secret or public"
    served = network.public_demand[network.grid.served]
    return constant(served.real), constant(served.imag)


def _admittances(network: VeiledNetwork, grid: Grid, data: dict[str, list[ca.MX]]) -> Admittances:
    """Of branches behind their taps: y = exp(−ln z), with half of the charging at either end."""
    if IMPEDANCE not in data:
        return admittances(grid)
    size, turn = data[IMPEDANCE]
    g, b = ca.exp(-size) * ca.cos(turn), -ca.exp(-size) * ca.sin(turn)
    on = network.grid.branch_on
    half: Any = constant(np.zeros(int(on.sum())))
    if CHARGING in data:
        charged = np.flatnonzero(network.charged[on])
        half = sum_at(charged, int(on.sum())) @ (ca.exp(data[CHARGING][0]) / 2)
    tap = network.grid.branch.tap[on]
    ratio = constant(1 / np.abs(tap) ** 2)
    real, imaginary = constant(tap.real / np.abs(tap) ** 2), constant(tap.imag / np.abs(tap) ** 2)
    return Admittances(
        g=(g * ratio, -(g * real - b * imaginary), -(g * real + b * imaginary), g),
        b=((b + half) * ratio, -(b * real + g * imaginary), -(b * real - g * imaginary), b + half),
    )


def _thermal_limit(network: VeiledNetwork, grid: Grid, flows: Flows, data: dict[str, list[ca.MX]]) -> Rows:
    """|S|² ≤ rate² at both ends of each branch that has a limit, the rate being data."""
    limited = np.flatnonzero(network.limited[network.grid.branch_on])
    at_from = pick(flows.p_from, limited) ** 2 + pick(flows.q_from, limited) ** 2
    at_to = pick(flows.p_to, limited) ** 2 + pick(flows.q_to, limited) ** 2
    squared = data[LIMIT][0] ** 2
    expression = ca.vertcat(at_from - squared, at_to - squared)
    return Rows(expression, np.full(2 * len(limited), -np.inf), np.zeros(2 * len(limited)))
