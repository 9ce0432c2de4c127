"""Result of a bilevel method: the point, the steps that led to it, and the termination status."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from gridveil.bilevel.monotonicity import Monotonicity
from gridveil.programs import Status
from gridveil.solvers.backend import Answer

Vector = NDArray[np.float64]


class Ending(Enum):
    """How a run ended. Only the first seven carry a point, and only after its cost was verified in the band."""

    NOISY_IN_BAND = "the noisy data satisfy the band as they are"
    HIGHPOINT_IN_BAND = "the high-point relaxation satisfies the band"
    BRACKET_CLOSED = "the bracket closed to eta"
    POLISHED = "price cuts bring no nearer point, and O↑ reaches the band no nearer either"
    CALL_LIMIT = "the limit of calls to O↑ was reached; the best point so far is kept"
    BRACKET_STUCK = "no solve inside the bracket converged; the best point so far is kept"
    TIME_LIMIT = "the time limit was reached; the best point so far is kept"
    ANCHORED = "pushing the proxy led nowhere; found between the high point and public data that cost enough"
    NO_HIGHPOINT = "the high-point relaxation has no solution, or none was found from any start"
    NO_BRACKET = "pushing the proxy never raised the optimal cost into the band"
    OUT_OF_TIME = "the time limit was reached before a point in the band was found and verified"
    NOT_VERIFIED = "a fresh solve did not confirm the cost of the point in the band"


class StepKind(Enum):
    """Which problem a step of the history solved."""

    HIGHPOINT = "highpoint"
    DOUBLING = "doubling"
    BISECTION = "bisection"
    CUT = "price cut"
    POLISH = "polish"
    ROOT = "root search"
    ANCHOR = "public data"
    VERIFICATION = "verification"


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step: the radius δ that was allowed, the point that was found and the follower's answer at it.

    ``cost`` is O(d) (NaN if the follower did not converge), ``joint_cost`` the f(x) of HPR or O↑ itself.
    """

    kind: StepKind
    radius: float
    delta: float
    proxy: float
    joint_cost: float
    cost: float
    joint_status: Status
    follower_status: Status
    seconds: float


@dataclass(frozen=True, eq=False, kw_only=True)
class HighPointResult:
    """d^h of the high-point relaxation, with its distance and its true optimum O(d^h) (NaN if that failed)."""

    d: Vector
    delta: float
    cost: float


@dataclass(frozen=True, eq=False, kw_only=True)
class BilevelResult:
    """d* with O(d*) in the band, or the reason why there is none (then ``d`` is None and ``cost`` NaN)."""

    ending: Ending
    d: Vector | None
    x: Vector | None
    cost: float
    delta: float
    highpoint: HighPointResult | None
    optimisations: int
    """Evaluations of O, as the paper counts them: one for the high point, and one for each call to O↑."""
    history: tuple[Step, ...]
    monotonicity: Monotonicity
    seconds: float
    fresh: Answer | None = None
    """O(d*) from the solver's own start, as the verification found it."""

    @property
    def verified(self) -> bool:
        """Whether there is a point, and a fresh solve confirmed its cost in the band."""
        return self.d is not None
