"""A network's program together with how its data vector d is laid out over the load sites."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridveil.networks.acopf import ac_opf
from gridveil.networks.dcopf import dc_opf
from gridveil.networks.formulation import DemandBounds, Formulation
from gridveil.networks.power import PowerNetwork
from gridveil.programs import ParametricProgram

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class DemandLayout:
    """Maps site values (one per load site) to the program's d and back.

    Sites that take no part in the flow are not in d: the program cannot tell anything about them.
    """

    served: NDArray[np.bool_]
    with_reactive: bool

    def to_program(self, sites: NDArray[Any]) -> Vector:
        """Give d: active power of the served sites, then, if the program has it, their reactive power."""
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
    network: PowerNetwork, formulation: Formulation, demand_bounds: DemandBounds = DemandBounds.NONE
) -> Model:
    """Give the optimal power flow of a network in the chosen formulation."""
    with_reactive = formulation is Formulation.AC
    program = ac_opf(network) if with_reactive else dc_opf(network)
    if demand_bounds is DemandBounds.NONNEGATIVE:
        active = np.arange(program.n_d) < network.served.sum()
        program = replace(program, d_lower=np.where(active, 0.0, -np.inf))
    return Model(program, DemandLayout(network.served, with_reactive=with_reactive))
