"""Certificate of a release: global lower bounds on its optimal cost and on the distance of any release.

Both come from the relaxation that the sector gives its model. Where there is none, the certificate is local only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gridveil.bilevel.result import BilevelResult
from gridveil.core.band import CostTarget
from gridveil.core.threads import Ahead
from gridveil.sectors.model import Model

Vector = NDArray[np.float64]

LOCAL, GLOBAL = "local", "global"
NO_RELAXATION = "none: local only"
NOTHING = 1e-6  # of the distance of the release: what a bound may leave out


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """``band`` is global when ``cost_lower_bound`` proves O(d*) ≥ f̃ − β; its upper side is proved by the feasible point.

    ``distance_lower_bound`` holds for every release of the same noisy demands and band (squared, per unit);
    ``gap`` = (δ* − δ_LB)/δ*. ``local_distance_bound`` is the high-point relaxation's own value. None: no such bound.
    """

    band: str
    relaxation: str
    cost_lower_bound: float | None
    distance_lower_bound: float | None
    local_distance_bound: float | None
    gap: float | None


def certify(
    model: Model,
    noisy: Vector,
    target: CostTarget,
    result: BilevelResult,
    distance_ahead: Ahead[float | None] | None = None,
) -> Certificate:
    """Bound cost and distance of a verified result. ``noisy`` is the program's d̃.

    ``distance_ahead``: the bound on the distance, where that was begun before.
    """
    local_bound = result.highpoint.delta if result.highpoint else None
    relaxation = model.relaxation
    if relaxation is None or result.d is None:
        return Certificate(
            band=LOCAL,
            relaxation=NO_RELAXATION,
            cost_lower_bound=None,
            distance_lower_bound=None,
            local_distance_bound=local_bound,
            gap=None,
        )
    released = result.d
    begun = distance_ahead or Ahead(lambda: distance_bound(model, noisy, target, result))
    try:
        cost = relaxation.cost_bound(released).value
    finally:
        begun.wait()
    distance = begun.answer()
    proved = cost is not None and cost >= target.lower
    return Certificate(
        band=GLOBAL if proved else LOCAL,
        relaxation=relaxation.name,
        cost_lower_bound=cost,
        distance_lower_bound=distance,
        local_distance_bound=local_bound,
        gap=_gap(result.delta, distance),
    )


def distance_bound(model: Model, noisy: Vector, target: CostTarget, result: BilevelResult) -> float | None:
    """Bound the squared distance of any release from below.

    No bound exceeds the distance of the high point, so where that is next to nothing, zero says it all."""
    program = model.program
    reached = result.highpoint.delta if result.highpoint else None
    if model.relaxation is None or (reached is not None and reached <= NOTHING * result.delta):
        return 0.0
    return model.relaxation.distance_bound(noisy, target, program.d_lower, program.d_upper, reached=reached).value


def _gap(delta: float, bound: float | None) -> float | None:
    if bound is None:
        return None
    return 0.0 if delta == 0 else max(delta - bound, 0.0) / delta
