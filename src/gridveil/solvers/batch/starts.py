"""Where each scenario of a batch starts, if the caller chooses that: what ``structured.strategy`` tries, one run at a time."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class StartKind(IntEnum):
    """How a run begins: the enumeration Attempt of slot.cuh."""

    COLD = 0
    WARM = 1
    """At a known point with its multipliers."""
    SOFTENED = 2
    """Cold, by way of soft balances."""
    HELD = 4
    """Cold, with a held barrier parameter."""
    NEAR = 5
    """At a known point, hardly pushed off its bounds, without multipliers."""
    NEAR_HELD = 6
    AT_POINT = 7
    """At a known point, otherwise as cold."""
    THIN = 8
    """As NEAR, through short steps and for longer: where the interior is thin."""


@dataclass(frozen=True, eq=False)
class Starts:
    """B starts."""

    choice: Floats
    """(B, 6) attempt, distance from bounds and first barrier parameter if the point is feasible; the same if it is not."""
    point: Floats | None = None
    """(B, n_point) as the kernels write points, multipliers of zero where an attempt keeps none."""


def same_start(attempt: StartKind, push: float, mu: Floats) -> Starts:
    """Starts that do not depend on a point; ``mu`` (B,)."""
    one = np.stack([np.full(len(mu), float(attempt)), np.full(len(mu), push), mu], axis=1)
    return Starts(np.concatenate([one, one], axis=1))
