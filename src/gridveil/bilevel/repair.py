"""Post-processing of noisy values: sees d̃, the cost target and public data, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridveil.bilevel.methods import method_named
from gridveil.bilevel.result import BilevelResult, Ending, HighPointResult
from gridveil.core.band import CostTarget
from gridveil.core.deadline import OutOfTimeError
from gridveil.core.errors import NoReleaseError
from gridveil.core.methods import Method
from gridveil.privacy.noisy import NoisyData
from gridveil.sectors.model import DataLayout
from gridveil.solvers.backend import Backend


@dataclass(frozen=True, eq=False, kw_only=True)
class ReleasedData:
    """d*: one value per participant, per unit, as private as the noisy values they were made from."""

    values: NDArray[Any]
    result: BilevelResult
    highpoint: HighPointResult


def repair(
    backend: Backend, layout: DataLayout, noisy: NoisyData, target: CostTarget, method: str | Method = Method.AUTO
) -> ReleasedData:
    """Find d* with O(d*) in the band; participants that take no part in the flow keep their noisy value."""
    result = method_named(method)(backend, _data(layout, noisy), target)
    if result.d is None or result.highpoint is None:
        if result.ending is Ending.OUT_OF_TIME:
            raise OutOfTimeError
        raise NoReleaseError(
            f"no release: {result.ending.value}; try a larger beta on the same draw (--reuse), or a smaller alpha"
        )
    values = np.array(layout.to_sites(result.d, noisy.values))
    values.setflags(write=False)
    return ReleasedData(values=values, result=result, highpoint=result.highpoint)


def _data(layout: DataLayout, noisy: NoisyData) -> NDArray[np.float64]:
    if not isinstance(noisy, NoisyData):
        raise TypeError("post-processing accepts noisy data only")
    return layout.to_program(noisy.values)
