"""Which engine solves a network's problems."""

from __future__ import annotations

import numpy as np

from gridveil.bilevel.engine import Engine
from gridveil.bilevel.method import Solver
from gridveil.bilevel.structured_engine import StructuredEngine
from gridveil.networks.case import Network
from gridveil.networks.model import Model
from gridveil.networks.power import PowerNetwork


def engine_for(network: Network, model: Model, solver: Solver, *, verbose: bool = False) -> Engine:
    """Give the structured engine for AC power flow with costs up to degree two, if it is wanted; else Ipopt's."""
    if solver is Solver.IPOPT or not isinstance(network, PowerNetwork) or not model.layout.with_reactive:
        return Engine(model.program, verbose=verbose)
    if np.any(network.generator.cost.polynomial[3:] != 0):
        return Engine(model.program, verbose=verbose)
    return StructuredEngine(model.program, network, verbose=verbose)
