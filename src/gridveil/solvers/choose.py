"""Which engine solves a network's problems."""

from __future__ import annotations

import numpy as np

from gridveil.core.methods import Solver
from gridveil.sectors.case import Network
from gridveil.sectors.model import Model
from gridveil.sectors.power.network import PowerNetwork
from gridveil.solvers.ipopt import Engine
from gridveil.solvers.structured_backend import StructuredEngine


def engine_for(network: Network, model: Model, solver: Solver, *, verbose: bool = False) -> Engine:
    """Give the structured engine for AC power flow with costs up to degree two, if it is wanted; else Ipopt's."""
    if solver is Solver.IPOPT or not isinstance(network, PowerNetwork) or not model.layout.with_reactive:
        return Engine(model.program, verbose=verbose)
    if np.any(network.generator.cost.polynomial[3:] != 0):
        return Engine(model.program, verbose=verbose)
    return StructuredEngine(model.program, network, verbose=verbose)
