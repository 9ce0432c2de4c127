"""What can be proved about a release: a global lower bound on its optimal cost, and one on the distance of any release.

Both come from the second-order-cone relaxation of the AC power flow. For gas and DC flow there is none: then the
certificate is local only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gridveil.bilevel.result import BilevelResult
from gridveil.core.band import CostTarget
from gridveil.sectors.case import Network
from gridveil.sectors.model import Model
from gridveil.sectors.power.network import PowerNetwork
from gridveil.sectors.power.soc import soc_distance_bound, soc_lower_bound

Vector = NDArray[np.float64]

LOCAL, GLOBAL = "local", "global"
RELAXATION, NO_RELAXATION = "second-order cone", "none: local only"


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


def certify(network: Network, model: Model, noisy: Vector, target: CostTarget, result: BilevelResult) -> Certificate:
    """Bound cost and distance of a verified result. ``noisy`` is the program's d̃."""
    local_bound = result.highpoint.delta if result.highpoint else None
    if not isinstance(network, PowerNetwork) or not model.layout.with_reactive or result.d is None:
        return Certificate(
            band=LOCAL,
            relaxation=NO_RELAXATION,
            cost_lower_bound=None,
            distance_lower_bound=None,
            local_distance_bound=local_bound,
            gap=None,
        )
    program = model.program
    cost = soc_lower_bound(network.grid, _complex(result.d)).value
    distance = soc_distance_bound(network.grid, _complex(noisy), target, program.d_lower, program.d_upper).value
    proved = cost is not None and cost >= target.lower
    return Certificate(
        band=GLOBAL if proved else LOCAL,
        relaxation=RELAXATION,
        cost_lower_bound=cost,
        distance_lower_bound=distance,
        local_distance_bound=local_bound,
        gap=_gap(result.delta, distance),
    )


def _gap(delta: float, bound: float | None) -> float | None:
    if bound is None:
        return None
    return 0.0 if delta == 0 else max(delta - bound, 0.0) / delta


def _complex(d: Vector) -> NDArray[np.complex128]:
    n = len(d) // 2
    return np.array(d[:n] + 1j * d[n:], dtype=np.complex128)
