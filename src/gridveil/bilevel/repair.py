"""Post-processing of a network's noisy demands: sees d̃, the cost target and public data, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridveil.bilevel.methods.algorithm1 import solve_bilevel
from gridveil.bilevel.methods.auto import solve_auto
from gridveil.bilevel.result import BilevelResult, HighPointResult
from gridveil.core.band import CostTarget
from gridveil.core.errors import NoReleaseError
from gridveil.core.methods import Method
from gridveil.privacy.noisy import NoisyDemand
from gridveil.sectors.model import DemandLayout
from gridveil.solvers.ipopt import Engine


@dataclass(frozen=True, eq=False, kw_only=True)
class ReleasedDemand:
    """d*: one value per load site, per unit, as private as the noisy demand it was made from."""

    values: NDArray[Any]
    result: BilevelResult
    highpoint: HighPointResult


def derived_cost(engine: Engine, layout: DemandLayout, noisy: NoisyDemand) -> float:
    """A cost target that spends nothing: the optimal cost of the feasible demands nearest to d̃."""
    nearest = engine.nearest_feasible(_data(layout, noisy))
    solution = engine.follow(nearest, None) if nearest.converged else None
    if solution is None or not solution.converged:
        raise NoReleaseError(
            "no cost target could be derived from the noisy demands; give a forecast of the cost instead"
        )
    return solution.cost


def repair(
    engine: Engine, layout: DemandLayout, noisy: NoisyDemand, target: CostTarget, method: Method = Method.AUTO
) -> ReleasedDemand:
    """Find d* with O(d*) in the band; sites that take no part in the flow keep their noisy value."""
    solve = solve_auto if method is Method.AUTO else solve_bilevel
    result = solve(engine, _data(layout, noisy), target)
    if result.d is None or result.highpoint is None:
        raise NoReleaseError(
            f"no release: {result.ending.value}; try a larger beta on the same draw (--reuse), or a smaller alpha"
        )
    values = np.array(layout.to_sites(result.d, noisy.values))
    values.setflags(write=False)
    return ReleasedDemand(values=values, result=result, highpoint=result.highpoint)


def _data(layout: DemandLayout, noisy: NoisyDemand) -> NDArray[np.float64]:
    if not isinstance(noisy, NoisyDemand):
        raise TypeError("post-processing accepts noisy demands only")
    return layout.to_program(noisy.values)
