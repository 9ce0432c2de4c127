"""A network's program together with how its data vector d is laid out over the demand sites."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridveil.core.choices import DemandBounds, Formulation
from gridveil.programs import ParametricProgram
from gridveil.sectors.case import Network
from gridveil.sectors.gas.network import GasNetwork
from gridveil.sectors.gas.ogf import optimal_gas_flow
from gridveil.sectors.power.acopf import ac_opf
from gridveil.sectors.power.dcopf import dc_opf

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class DemandLayout:
    """Maps site values (one per demand site) to the program's d and back.

    Sites that take no part in the flow are not in d: the program cannot tell anything about them.
    """

    served: NDArray[np.bool_]
    with_reactive: bool

    def to_program(self, sites: NDArray[Any]) -> Vector:
        """Give d: active power (or gas) of the served sites, then, if the program has it, their reactive power."""
        values = np.asarray(sites)[self.served]
        return np.concatenate([values.real, values.imag]) if self.with_reactive else np.array(values.real)

    def to_sites(self, d: Vector, others: NDArray[Any]) -> NDArray[Any]:
        """Give site values with d in place; what d does not determine is taken from ``others``."""
        sites = np.array(others)
        n = int(self.served.sum())
        reactive = d[n:] if self.with_reactive else sites.imag[self.served]
        sites[self.served] = d[:n] + 1j * reactive if np.iscomplexobj(sites) else d[:n]
        return sites


@dataclass(frozen=True, eq=False)
class Model:
    """A program and the layout of its data."""

    program: ParametricProgram
    layout: DemandLayout


def build_model(
    network: Network,
    formulation: Formulation = Formulation.AC,
    demand_bounds: DemandBounds = DemandBounds.NONE,
) -> Model:
    """Give the optimal flow of a network; the formulation matters for power only."""
    if isinstance(network, GasNetwork):
        program, served, with_reactive = optimal_gas_flow(network), np.ones(network.n_site, dtype=bool), False
    else:
        with_reactive = formulation is Formulation.AC
        program, served = (ac_opf(network) if with_reactive else dc_opf(network)), network.served
    if demand_bounds is DemandBounds.NONNEGATIVE:
        active = np.arange(program.n_d) < served.sum()
        program = replace(program, d_lower=np.where(active, 0.0, -np.inf))
    return Model(program, DemandLayout(served, with_reactive=with_reactive))
