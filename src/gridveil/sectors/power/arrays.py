"""A power network as plain arrays, the input of the structured solver."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gridveil.core.errors import InputError
from gridveil.programs.interior import narrowed
from gridveil.sectors.power.network import PowerNetwork

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]
Ints = NDArray[np.int64]

ACTIVE_SHARE = 0.01


@dataclass(frozen=True, eq=False, kw_only=True)
class OpfArrays:
    """A network for the AC optimal power flow: N buses, L branches, G generators, D load sites, per unit and radians."""

    branch_from: Ints
    branch_to: Ints
    y_ff: Complexes
    y_ft: Complexes
    y_tf: Complexes
    y_tt: Complexes
    rate: Floats
    """Limit on |S| at either end, inf where there is none."""
    angle_min: Floats
    angle_max: Floats
    shunt_g: Floats
    shunt_b: Floats
    v_min: Floats
    v_max: Floats
    reference: Ints
    """Buses whose angle is zero; one more is chosen for each island that has none."""
    gen_bus: Ints
    p_min: Floats
    p_max: Floats
    q_min: Floats
    q_max: Floats
    cost_0: Floats
    cost_1: Floats
    cost_2: Floats
    """Cost of generator k in $/h: cost_0 + cost_1 p + cost_2 p², plus the largest of its lines if it has any."""
    line_gen: Ints
    line_slope: Floats
    line_intercept: Floats
    load_bus: Ints

    def __post_init__(self) -> None:
        """Refuse what the solver cannot represent."""
        if np.any(self.branch_from == self.branch_to):
            branch = int(np.flatnonzero(self.branch_from == self.branch_to)[0])
            raise InputError(f"branch {branch} joins a bus to itself: remove it or give its ends two buses")
        if not (np.all(np.isfinite(self.v_min)) and np.all(np.isfinite(self.v_max))):
            raise InputError("every bus needs finite voltage limits: set v_min and v_max")
        if np.any(self.cost_2[self.line_gen] != 0):
            raise InputError("a generator has a quadratic and a piecewise-linear cost: keep one of the two")

    @property
    def n_bus(self) -> int:
        """Number of buses."""
        return len(self.v_min)


def structured_arrays(network: PowerNetwork, interior: float = 0.0) -> OpfArrays:
    """Build the energised grid's arrays, with limits tightened by ``interior`` (relative where they exceed 1).

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
