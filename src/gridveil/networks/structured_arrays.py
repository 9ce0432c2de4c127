"""A power network in the form of the structured solver."""

from __future__ import annotations

import numpy as np

from gridveil.errors import InputError
from gridveil.networks.power import PowerNetwork
from gridveil.programs.interior import narrowed
from gridveil.structured import OpfArrays

ACTIVE_SHARE = 0.01


def structured_arrays(network: PowerNetwork, interior: float = 0.0) -> OpfArrays:
    """Give the energised grid's arrays, with every range of limits narrowed by ``interior`` (relative where they exceed 1).

    Active power gives way a hundred times less: what generators are held back by shows in the cost.
    """
    grid = network.grid
    generator, cost = grid.generator, grid.generator.cost
    if np.any(cost.polynomial[3:] != 0):
        raise InputError("the structured solver knows costs up to degree two; choose --solver ipopt")
    angle_min, angle_max = narrowed(grid.angle_min, grid.angle_max, interior)
    v_min, v_max = narrowed(np.maximum(grid.bus.v_min, 0.0), grid.bus.v_max, interior)
    p_min, p_max = narrowed(generator.p_min, generator.p_max, interior * ACTIVE_SHARE)
    q_min, q_max = narrowed(generator.q_min, generator.q_max, interior)
    return OpfArrays(
        branch_from=grid.from_bus,
        branch_to=grid.to_bus,
        y_ff=grid.y_ff,
        y_ft=grid.y_ft,
        y_tf=grid.y_tf,
        y_tt=grid.y_tt,
        rate=grid.rate * (1 - interior),
        angle_min=angle_min,
        angle_max=angle_max,
        shunt_g=grid.bus.shunt.real.copy(),
        shunt_b=grid.bus.shunt.imag.copy(),
        v_min=v_min,
        v_max=v_max,
        reference=grid.reference,
        gen_bus=generator.bus,
        p_min=p_min,
        p_max=p_max,
        q_min=q_min,
        q_max=q_max,
        cost_0=cost.polynomial[0],
        cost_1=cost.polynomial[1],
        cost_2=cost.polynomial[2],
        line_gen=cost.line_generator,
        line_slope=cost.line_slope,
        line_intercept=cost.line_intercept,
        load_bus=grid.load_bus,
    )
