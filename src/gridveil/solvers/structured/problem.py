"""What the structured solver is asked and what it answers: plain arrays in per unit, no files, no compiled code."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]
Ints = NDArray[np.int64]

COST, SQUARED_DISTANCE, MINUS_DEMAND = "cost", "squared distance", "minus total demand"
"""Names of the objectives."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Dispatch:
    """O(d): the cheapest dispatch that serves the demand."""

    demand_p: Floats
    demand_q: Floats


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Cut:
    """The linear row  Σ weight_p · d_P + weight_q · d_Q ≥ least."""

    weight_p: Floats
    weight_q: Floats
    least: float


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class DemandRows:
    """Rows  low ≤ Σ weight_p · d_P + weight_q · d_Q ≤ high, as totals that are kept; shapes (k, D) and (k,)."""

    weight_p: Floats
    weight_q: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class DemandBox:
    """Bounds on the demands of each site; infinite where there are none."""

    p_low: Floats
    p_high: Floats
    q_low: Floats
    q_high: Floats


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Nearest:
    """The high-point relaxation: demands nearest to a target that can be served at a cost within the band.

    With ``cut``, one linear row on the demands as well. A band with infinite ends is none.
    """

    target_p: Floats
    target_q: Floats
    cost_low: float
    cost_high: float
    cut: Cut | None = None
    box: DemandBox | None = None
    kept: DemandRows | None = None


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Push:
    """O↑(δ): the largest total active demand, served within the cost band, at squared distance ≤ δ from a target."""

    target_p: Floats
    target_q: Floats
    cost_low: float
    cost_high: float
    delta: float
    box: DemandBox | None = None
    kept: DemandRows | None = None


Task = Dispatch | Nearest | Push


def kept_name(row: int) -> str:
    """Name of a row of ``kept`` among the dense rows."""
    return f"kept {row}"


def has_band(task: Nearest | Push) -> bool:
    """Whether the cost is limited at all: without a band the nearest demands are those that can be served at any cost."""
    return bool(np.isfinite(task.cost_low) or np.isfinite(task.cost_high))


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class WarmStart:
    """A final iterate in elimination order, its multipliers in units of the task's objective, to start from again.

    ``u`` and ``u_bound`` cover all local variables, of which ``free`` were variable; ``rows`` are the multipliers (above,
    below) of the dense rows by name.
    """

    x: Floats
    price: Floats
    limit: Floats
    u: Floats
    u_bound: Floats
    free: NDArray[np.bool_]
    rows: dict[str, tuple[float, float]]
    target: Floats
    objective: str
    """Name of the objective that the multipliers belong to."""
    cost_weight: float
    """What a unit of cost weighs in that objective; the other multipliers follow it, so they convert to a dispatch."""
    priced: bool
    """Whether that weight is large enough for the multipliers to say something about prices."""

    def at(self, other: WarmStart) -> WarmStart:
        """These multipliers at the primal point of another start."""
        return replace(self, x=other.x, u=other.u, free=other.free, target=other.target)


class SolveStatus(StrEnum):
    """How a solve ended; only CONVERGED is a result."""

    CONVERGED = "converged"
    ITERATION_LIMIT = "iteration limit reached"
    SINGULAR = "no regular Newton system found"
    NO_STEP = "no acceptable step found"
    STALLED = "steps too short to get anywhere"
    INFEASIBLE = "power cannot be balanced near any point found"
    DIVERGED = "iterates are no longer numbers"
    CHECK_FAILED = "independent optimality check failed"
    NOT_TRIED = "no multipliers to begin with"


@dataclass(frozen=True, eq=False, kw_only=True)
class Residuals:
    """Scaled violations of the optimality conditions, found by code that the solver does not share."""

    primal: float
    dual: float
    complementarity: float

    @property
    def largest(self) -> float:
        """The largest of the three."""
        return max(self.primal, self.dual, self.complementarity)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Multipliers:
    """Multipliers in units of the task's objective; those of inequalities are not negative."""

    price_p: Floats
    price_q: Floats
    """Per bus: change of the optimum per unit drawn more."""
    flow_from: Floats
    flow_to: Floats
    """Per branch, of |S|² ≤ rate² or of |S|² ≤ current² |V|²."""
    angle_above: Floats
    angle_below: Floats
    rows: dict[str, float]
    """Of the dense rows ("cost", "ball", "cut", "kept 0", …): above minus below."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Solution:
    """The answer to a task, in the order of OpfArrays; a result only if ``status`` is CONVERGED."""

    status: SolveStatus
    objective: float
    """Cost, squared distance, or minus the total active demand, according to the task."""
    cost: float
    """Generation cost; under a band, the level over piecewise-linear costs, which may stand above their lines."""
    va: Floats
    vm: Floats
    pg: Floats
    qg: Floats
    dc: Floats
    """Power that each DC line draws at its from end."""
    susceptance: Floats
    """Of each compensator."""
    demand_p: Floats
    demand_q: Floats
    site_price_p: Floats
    site_price_q: Floats
    """∂O/∂P and ∂O/∂Q per load site for a Dispatch; the multipliers of the balances for the other tasks."""
    multipliers: Multipliers
    residuals: Residuals
    iterations: int
    factorisations: int
    seconds: float
    warm: WarmStart
    log: str = ""
    """One line per iteration, if the solver is verbose. Its errors depend on the task's demands: as secret as they are."""

    @property
    def converged(self) -> bool:
        """Whether this is a result."""
        return self.status is SolveStatus.CONVERGED
