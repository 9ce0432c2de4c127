"""What a case holds, in words and counts that reveal no demand."""

from __future__ import annotations

import numpy as np

from gridveil.formats.builtin import SHIPPED, pglib_names
from gridveil.networks.case import Case
from gridveil.networks.power import islands

PUBLIC = ["topology", "branch parameters and limits", "voltage limits", "generator limits and costs", "sites of loads"]
SECRET = ["active and reactive power of each load"]


def describe_case(case: Case) -> dict[str, object]:
    """Give counts and notes of a case as plain values."""
    network, grid = case.network, case.network.grid
    return {
        "case": case.name,
        "kind": "power",
        "format": case.file_format,
        "base_mva": network.base_mva,
        "buses": len(network.bus.id),
        "buses_energised": grid.n_bus,
        "islands": len(np.unique(islands(grid.n_bus, grid.from_bus, grid.to_bus))),
        "reference_buses": [int(bus) for bus in grid.bus.id[grid.reference]],
        "branches": len(network.branch.rate),
        "branches_in_service": int(network.branch_on.sum()),
        "branches_with_limit": int(np.isfinite(grid.rate).sum()),
        "generators": len(network.generator.bus),
        "generators_in_service": int(network.generator_on.sum()),
        "generators_with_cost": _generators_with_cost(case),
        "load_sites": len(case.demand),
        "load_sites_served": int(network.served.sum()),
        "secret": SECRET,
        "public": PUBLIC,
        "notes": list(case.notes),
    }


def list_names() -> list[str]:
    """List the names that stand for built-in cases."""
    return [*SHIPPED, *pglib_names()]


def _generators_with_cost(case: Case) -> int:
    cost = case.network.generator.cost
    return int(np.union1d(np.flatnonzero(np.any(cost.polynomial != 0, axis=0)), cost.piecewise).size)
