"""The case file as MATPOWER arrays, for tools that take these."""

from __future__ import annotations

from typing import Any

import numpy as np

from gridveil.benchmark.contestant import BenchProblem, NotApplicableError, refuse_elements
from gridveil.sectors.power.parsed import parsed

BUS_ID, GEN_BUS = 0, 0
PIPS_OPTIONS = dict.fromkeys(("PDIPM_FEASTOL", "PDIPM_GRADTOL", "PDIPM_COMPTOL", "PDIPM_COSTTOL"), 1e-6)


def matpower_arrays(problem: BenchProblem) -> dict[str, Any]:
    """Return baseMVA, bus, gen, branch and gencost of the file, whose buses and generators must be in the network's order."""
    refuse_elements(problem.network)
    with parsed(problem.path) as source:
        arrays: dict[str, Any] = source.module.value.to_ppc()
    network = problem.network
    same = np.array_equal(arrays["bus"][:, BUS_ID], network.bus.id) and np.array_equal(
        arrays["gen"][:, GEN_BUS], network.bus.id[network.generator.bus]
    )
    if not same:
        raise NotApplicableError("the file does not translate to MATPOWER arrays bus by bus")
    return arrays
