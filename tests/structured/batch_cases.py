"""Batches on small public networks, for the tests of the native batch solver."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from structured_cases import program_of

from gridveil.sectors.case import Case
from gridveil.sectors.power.arrays import OpfArrays, structured_arrays
from gridveil.sectors.registry import load_case
from gridveil.solvers.batch.contract import Scenarios
from gridveil.solvers.batch.draws import uniform_rows
from gridveil.solvers.batch.engine_native import NativeEngine, missing_compiler
from gridveil.solvers.batch.network import BatchNetwork, lower_network
from gridveil.solvers.batch.solver import BatchSolver

needs_compiler = pytest.mark.skipif(missing_compiler() is not None, reason=str(missing_compiler()))


def halves(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Demands of a public case: P and Q of all served sites."""
    p, q = np.split(program_of(case)[1], 2)
    return p, q


@cache
def network_of(name: str) -> tuple[OpfArrays, BatchNetwork, np.ndarray, np.ndarray]:
    case = load_case(name)
    arrays = structured_arrays(case.network)
    return arrays, lower_network(arrays), *halves(case)


def batch_solver(network: BatchNetwork, by_bus: bool = False, **options) -> BatchSolver:
    return BatchSolver(network, NativeEngine(threads=1, by_bus=by_bus), **{"tolerance": 1e-7, **options})


def shaken(name: str, count: int, spread: float = 0.1, **more) -> Scenarios:
    """Demands up to ``spread`` away from those of the file, the first as in the file."""
    _, _, p, q = network_of(name)
    factor = 1 + spread * (2 * uniform_rows(3, 0, 0, count, 2 * len(p)) - 1)
    factor[0] = 1.0
    return Scenarios(demand_p=factor[:, : len(p)] * p, demand_q=factor[:, len(p) :] * q, **more)
