"""Post-processing of noisy values: sees d̃, the cost target and public data, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridveil.bilevel.methods import method_named
from gridveil.bilevel.result import BilevelResult, Ending, HighPointResult
from gridveil.bilevel.together.offer import OffersReleases
from gridveil.core.band import CostTarget
from gridveil.core.deadline import OutOfTimeError
from gridveil.core.errors import NoReleaseError
from gridveil.core.methods import Method
from gridveil.privacy.noisy import NoisyData
from gridveil.sectors.model import DataLayout
from gridveil.solvers.backend import Backend
from gridveil.solvers.checks import CheckedCost
from gridveil.solvers.flat_ahead import working_ahead
from gridveil.solvers.solves import Solves

Vector = NDArray[np.float64]

MOST_RUNS = 3  # of the method, while readers find other optima outside the band
BEYOND = 1.5  # how much more a narrower band cuts off than two optima differed by
NARROWEST = 0.1  # of the band: what it keeps at its lower edge, however far above dearer optima lie


@dataclass(frozen=True, eq=False, kw_only=True)
class ReleasedData:
    """d*: one value per participant, per unit, as private as the noisy values they were made from."""

    values: NDArray[Any]
    result: BilevelResult
    highpoint: HighPointResult
    checked: CheckedCost | None = None
    """What readers find at d*, if that was asked for."""


def repair(
    backend: Backend,
    layout: DataLayout,
    noisy: NoisyData,
    target: CostTarget,
    method: str = Method.AUTO,
    *,
    for_readers: bool = False,
) -> ReleasedData:
    """Find d* with O(d*) in the band; participants that take no part in the flow keep their noisy value.

    ``for_readers``: whoever solves O(d*) from public starts must find no cheaper optimum below the band, and, if that can
    be had, no dearer one above it.
    """
    data = _data(layout, noisy)
    if for_readers:
        result, checked = _checked_result(backend, data, target, method)
    else:
        result, checked = method_named(method)(backend, data, target), None
    if result.d is None or result.highpoint is None:
        if result.ending is Ending.OUT_OF_TIME:
            raise OutOfTimeError
        raise NoReleaseError(
            f"no release: {result.ending.value}; try a larger beta on the same draw (--reuse), or a smaller alpha"
        )
    values = np.array(layout.to_sites(result.d, noisy.values))
    values.setflags(write=False)
    # The fresh solve has served; a series keeps thousands of results.
    kept = replace(result, fresh=None)
    return ReleasedData(values=values, result=kept, highpoint=result.highpoint, checked=checked)


def _checked_result(
    backend: Backend, data: Vector, target: CostTarget, method: str
) -> tuple[BilevelResult, CheckedCost | None]:
    """Run the method; where readers find optima outside the band, run it again in a band narrower by as much.

    Of the results whose cheapest optimum lies in the band, one with all optima there is kept, else the first.
    """
    if not isinstance(backend, OffersReleases):  # which counts the threads that ask
        backend = working_ahead(backend)
    solves, band = Solves(backend), target
    kept: tuple[BilevelResult, CheckedCost] | None = None
    refused: CheckedCost | None = None
    below = above = 0.0
    for run in range(MOST_RUNS):
        result = method_named(method)(backend, data, band)
        if result.d is None:
            if run == 0:
                return result, None
            break
        checked = solves.released(result.d, result.x, result.fresh)
        in_reach = checked.holds_in(target) and not checked.outside(target)
        if not checked.holds_in(target):
            refused = checked
        elif kept is None or in_reach:
            kept = _with_cheapest(result, checked), checked
        if in_reach or not checked.costs:
            break
        below = max(below, result.cost - min(checked.costs))
        above = max(above, max(checked.costs) - result.cost)
        narrower = _narrowed(target, below, above)
        if narrower is None or narrower == band:
            break
        band = narrower
    if kept is None:
        raise NoReleaseError(refusal(refused, target))
    return kept


def _with_cheapest(result: BilevelResult, checked: CheckedCost) -> BilevelResult:
    """The result at the cheapest optimum found; its own where the costs differ by rounding alone."""
    if checked.spread == 0:
        return result
    return replace(result, cost=checked.answer.cost, x=checked.answer.x)


def _narrowed(target: CostTarget, below: float, above: float) -> CostTarget | None:
    """The band without as much at its edges as other optima lie below and above; None if that is nothing or all of it.

    Optima that lie farther apart than the band is wide cannot both be moved into it: then only the cheapest matters.
    """
    width = 2 * target.beta
    if below + above >= width:
        above = 0.0
    lower = target.lower + BEYOND * below
    upper = max(target.upper - BEYOND * above, lower + NARROWEST * width)
    if below == above == 0 or upper > target.upper:
        return None
    return replace(target, value=(lower + upper) / 2, beta=(upper - lower) / 2)


def refusal(checked: CheckedCost | None, target: CostTarget) -> str:
    """Why a release is refused whose optimum, as readers find it, lies outside the band."""
    band = f"the band from {target.lower:.8g} to {target.upper:.8g}"
    if checked is None or not checked.answer.converged:
        return f"no release: no solver confirmed from a public start that the optimal cost lies in {band}"
    found = ", ".join(
        f"{check.cost:.8g} ({check.solver}, start: {check.start})" for check in checked.checks if check.cost is not None
    )
    return (
        f"no release: the network has several local optima, and the cheapest that was found lies outside {band}: found were "
        f"{found}; try a larger beta on the same draw (--reuse), or a smaller alpha"
    )


def _data(layout: DataLayout, noisy: NoisyData) -> Vector:
    if not isinstance(noisy, NoisyData):
        raise TypeError("post-processing accepts noisy data only")
    return layout.to_program(noisy.values)
