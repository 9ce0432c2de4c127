"""The batch backend for a choice of engine: the GPU's, the native one, or the structured solver one by one."""

from __future__ import annotations

import numpy as np

from gridveil.core.choices import BatchEngine
from gridveil.core.errors import InputError
from gridveil.core.methods import Solver
from gridveil.solvers.batch.contract import BatchAnswer, BatchBackend, BatchStatus, Points, Scenarios
from gridveil.solvers.batch.device_kernels import missing_gpu
from gridveil.solvers.batch.engine import Engine
from gridveil.solvers.batch.engine_gpu import GpuEngine
from gridveil.solvers.batch.engine_hybrid import HybridEngine
from gridveil.solvers.batch.engine_native import NativeEngine, missing_compiler
from gridveil.solvers.batch.leftovers import Leftovers
from gridveil.solvers.batch.network import BatchNetwork
from gridveil.solvers.batch.solver import BatchSolver, Demands


def batch_backend(
    network: BatchNetwork, choice: BatchEngine, *, retries: int, usual: Demands | None = None
) -> BatchBackend:
    """Build the backend; what it cannot do without is an InputError of one line. AUTO takes the fastest that is there.

    ``usual`` demands are those that scenarios lie around, if there are such.
    """
    engine = engine_for(choice)
    if engine is None:
        return OneByOne(network)
    leftovers = Leftovers(network=network, most=retries) if retries else None
    return BatchSolver(network, engine, leftovers=leftovers, usual=usual)


def engine_for(choice: BatchEngine) -> Engine | None:
    """The engine that runs the kernels; None for the structured solver."""
    if choice is BatchEngine.AUTO:
        there = {BatchEngine.GPU: missing_gpu, BatchEngine.NATIVE: missing_compiler}
        choice = next((engine for engine, missing in there.items() if missing() is None), BatchEngine.STRUCTURED)
    if choice is BatchEngine.STRUCTURED:
        return None
    if choice is BatchEngine.NATIVE:
        return NativeEngine()
    return GpuEngine() if missing_compiler() else HybridEngine(GpuEngine(), NativeEngine())


def refuse_other_solver(choice: BatchEngine, solver: Solver) -> None:
    """Refuse batches together with a solver that they would pass over."""
    if choice is not BatchEngine.STRUCTURED and solver != Solver.STRUCTURED:
        raise InputError(
            f"batches by {choice.value} solve as the structured solver does, not by {solver.value}: leave out one of the two"
        )


def engine_beside(choice: BatchEngine, solver: Solver) -> Engine | None:
    """The engine; InputError if it is missing here, or would pass over the solver that is asked for."""
    refuse_other_solver(choice, solver)
    return engine_for(choice)


class OneByOne:
    """Batches by the structured solver alone, for machines with neither a GPU nor a compiler."""

    name = "structured"

    def __init__(self, network: BatchNetwork) -> None:
        self._network = network

    def dispatch(self, scenarios: Scenarios) -> BatchAnswer:
        """O(d) of every scenario."""
        grid, count = self._network.grid, len(scenarios)
        sizes = {"va": grid.n_bus, "vm": grid.n_bus, "price_p": grid.n_bus, "price_q": grid.n_bus}
        sizes |= dict.fromkeys(("pg", "qg"), len(grid.gen_bus))
        sizes |= dict.fromkeys(("flow_from", "flow_to", "angle_above", "angle_below"), len(grid.branch_from))
        nothing = BatchAnswer(
            cost=np.full(count, np.nan),
            status=np.full(count, int(BatchStatus.STALLED), np.int32),
            iterations=np.zeros(count, np.int32),
            factorisations=np.zeros(count, np.int32),
            residuals=np.full((count, 3), np.nan),
            by_cpu=np.zeros(count, bool),
            points=Points(**{name: np.zeros((count, size)) for name, size in sizes.items()}),
        )
        return Leftovers(network=self._network, most=count).solve(scenarios, nothing)
