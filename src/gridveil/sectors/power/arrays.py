"""A power network as plain arrays, the input of the structured solver."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gridveil.core.errors import InputError
from gridveil.programs.interior import narrowed
from gridveil.sectors.power.network import Grid, PowerNetwork

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]
Ints = NDArray[np.int64]

ACTIVE_SHARE = 0.01


@dataclass(frozen=True, eq=False, kw_only=True)
class OpfArrays:
    """A network for the AC optimal power flow, in per unit and radians.

    N buses, L branches, G generators, H DC lines, C compensators, D load sites. The *outputs* are what costs are stated
    for: active power of all generators, reactive power of all generators, power of all DC lines (2 G + H).
    """

    branch_from: Ints
    branch_to: Ints
    y_ff: Complexes
    y_ft: Complexes
    y_tf: Complexes
    y_tt: Complexes
    rate: Floats
    """Limit on |S| at either end, inf where there is none."""
    current: Floats
    """Limit on |I| at either end, inf where there is none: a branch has a limit of one kind at most."""
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
    dc_from: Ints
    dc_to: Ints
    dc_min: Floats
    dc_max: Floats
    """Limits of the power p that a DC line draws at its from end."""
    dc_loss_0: Floats
    dc_loss_1: Floats
    """It delivers (1 − loss_1) p − loss_0 at its to end."""
    svc_bus: Ints
    svc_min: Floats
    svc_max: Floats
    """Limits of the susceptance b of a compensator, which feeds b |V|²."""
    cost_0: Floats
    cost_1: Floats
    cost_2: Floats
    """Cost of output k in $/h: cost_0 + cost_1 p + cost_2 p², plus the largest of its lines if it has any."""
    line_output: Ints
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
        if np.any(np.isfinite(self.rate) & np.isfinite(self.current)):
            raise InputError(
                "a branch has a limit on its power and one on its current: split it into two, with one each"
            )
        if np.any(self.cost_2[self.line_output] != 0):
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
    generator, line, compensator, cost = grid.generator, grid.dc_line, grid.compensator, grid.cost
    if np.any(cost.polynomial[3:] != 0):
        raise InputError("the structured solver knows costs up to degree two; choose --solver ipopt")
    branch, share = _branches_by_limit(grid)
    angle_min, angle_max = narrowed(grid.angle_min, grid.angle_max, interior)
    v_min, v_max = narrowed(np.maximum(grid.bus.v_min, 0.0), grid.bus.v_max, interior)
    p_min, p_max = narrowed(generator.p_min, generator.p_max, interior * ACTIVE_SHARE)
    q_min, q_max = narrowed(generator.q_min, generator.q_max, interior)
    dc_min, dc_max = narrowed(line.p_min, line.p_max, interior * ACTIVE_SHARE)
    svc_min, svc_max = narrowed(compensator.b_min, compensator.b_max, interior)
    twin = np.arange(len(branch)) >= len(grid.rate)
    current = np.where(twin | np.isinf(grid.rate[branch]), grid.current[branch], np.inf)
    return OpfArrays(
        branch_from=grid.from_bus[branch],
        branch_to=grid.to_bus[branch],
        y_ff=share * grid.y_ff[branch],
        y_ft=share * grid.y_ft[branch],
        y_tf=share * grid.y_tf[branch],
        y_tt=share * grid.y_tt[branch],
        rate=np.where(twin, np.inf, share * grid.rate[branch] * (1 - interior)),
        current=share * current * (1 - interior),
        angle_min=np.where(twin, -np.inf, angle_min[branch]),
        angle_max=np.where(twin, np.inf, angle_max[branch]),
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
        dc_from=line.from_bus,
        dc_to=line.to_bus,
        dc_min=dc_min,
        dc_max=dc_max,
        dc_loss_0=line.loss_0,
        dc_loss_1=line.loss_1,
        svc_bus=compensator.bus,
        svc_min=svc_min,
        svc_max=svc_max,
        cost_0=cost.polynomial[0],
        cost_1=cost.polynomial[1],
        cost_2=cost.polynomial[2],
        line_output=cost.line_generator,
        line_slope=cost.line_slope,
        line_intercept=cost.line_intercept,
        load_bus=grid.load_bus,
    )


def _branches_by_limit(grid: Grid) -> tuple[Ints, Floats]:
    """Branch behind each row of the arrays, and the share of its admittance.

    A branch with limits on both power and current becomes two parallel halves, which carry the same, with one limit each.
    """
    both = np.flatnonzero(np.isfinite(grid.rate) & np.isfinite(grid.current))
    branch = np.concatenate([np.arange(len(grid.rate)), both])
    return branch, np.where(np.isin(branch, both), 0.5, 1.0)
