"""What only the curator may compute: quantities of the true demands themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from gridveil.core.secret import SecretDemand
from gridveil.privacy.noisy import NoisyDemand
from gridveil.sectors.case import Case
from gridveil.sectors.describe import site_labels
from gridveil.sectors.model import Model

Vector = NDArray[np.float64]
Answer = TypeVar("Answer")
Solve = Callable[[Vector], Answer]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Distances to the true demands, ‖· − d°‖/‖d°‖ over all load sites. Never to be published."""

    distance_noisy: float
    distance_highpoint: float
    distance_released: float


def solve_true(case: Case, model: Model, solve: Solve[Answer]) -> Answer:
    """O(d°): the optimum at the true demands. The result reveals them in part and must stay with the curator."""
    return solve(model.layout.to_program(case.demand.reveal()))


def solve_at(data: SecretDemand, solve: Solve[Answer]) -> Answer:
    """O at the true data of a program of the user's own, where each entry of d is one participant."""
    return solve(data.reveal())


def compare(case: Case, model: Model, noisy: NoisyDemand, highpoint: Vector, released: NDArray[Any]) -> Comparison:
    """Measure how far noisy, high-point and released demands are from the true ones. ``highpoint`` is the program's d."""
    return Comparison(
        distance_noisy=distance_to_truth(case, noisy.values),
        distance_highpoint=distance_to_truth(case, model.layout.to_sites(highpoint, noisy.values)),
        distance_released=distance_to_truth(case, released),
    )


def distance_to_truth(case: Case, sites: NDArray[Any]) -> float:
    """Give ‖sites − d°‖/‖d°‖ over all load sites. Never to be published."""
    truth = case.demand.reveal()
    return float(np.linalg.norm(sites - truth)) / float(np.linalg.norm(truth))


def demand_table(case: Case, noisy: NoisyDemand, released: NDArray[Any]) -> list[tuple[str, complex, complex, complex]]:
    """List (bus or junction, true, noisy, released) per site, per unit. Never to be published."""
    columns = (case.demand.reveal(), noisy.values, released)
    return list(zip(site_labels(case.network), *(column.tolist() for column in columns), strict=True))
