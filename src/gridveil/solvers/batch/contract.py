"""What a batch is asked and what it answers: arrays with one row per scenario, per unit and radians."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from enum import IntEnum
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gridveil.core.errors import InputError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST_OUTAGES = 2
"""Branches, and generators, that a scenario can switch off."""


class BatchStatus(IntEnum):
    """How a scenario ended. The first eight are the kernels' own."""

    CONVERGED = 0
    ITERATION_LIMIT = 1
    SINGULAR = 2
    NO_STEP = 3
    DIVERGED = 4
    STALLED = 5
    ROUNDED = 6
    """No step improves a point that is feasible and nearly stationary; the check decides what it is worth."""
    UNBALANCED = 7
    """Soft balances buy power: most likely infeasible, which the kernels cannot prove."""
    CHECK_FAILED = 8
    INFEASIBLE = 9
    """Found by the structured solver's restoration: locally infeasible."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Scenarios:
    """B scenarios of one network; what is left out is as in the network."""

    demand_p: Floats
    """(B, D) active power of each load site."""
    demand_q: Floats
    """(B, D) reactive power."""
    branch_out: Ints | None = None
    """(B, at most 2) branches switched off, −1 for none."""
    gen_out: Ints | None = None
    """(B, at most 2) generators switched off, −1 for none."""
    cost_1: Floats | None = None
    """(B, G) linear costs, $/h per unit of power."""
    cost_2: Floats | None = None
    """(B, G) quadratic costs."""
    p_min: Floats | None = None
    p_max: Floats | None = None
    q_min: Floats | None = None
    q_max: Floats | None = None
    """(B, G) limits of generators."""

    def __post_init__(self) -> None:
        """Refuse arrays of different lengths."""
        given = [getattr(self, f.name) for f in fields(self) if getattr(self, f.name) is not None]
        if any(array.ndim != 2 or len(array) != len(self) for array in given):
            raise InputError("the arrays of a batch need two dimensions and one row per scenario")
        for name in ("branch_out", "gen_out"):
            listed = getattr(self, name)
            if listed is not None and listed.shape[1] > MOST_OUTAGES:
                raise InputError(f"a scenario can switch off at most {MOST_OUTAGES} branches and generators")

    def __len__(self) -> int:
        return len(self.demand_p)

    def rows(self, chosen: Any) -> Scenarios:
        """Some of the scenarios."""
        picked: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self)}
        rows: dict[str, Any] = {name: None if array is None else array[chosen] for name, array in picked.items()}
        return Scenarios(**rows)

    @property
    def varied(self) -> bool:
        """Whether generators differ between scenarios."""
        names = ("gen_out", "cost_1", "cost_2", "p_min", "p_max", "q_min", "q_max")
        return any(getattr(self, name) is not None for name in names)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Points:
    """Primal and dual solutions in the network's order, one row per scenario; multipliers in $/h per unit of the limit."""

    va: Floats
    vm: Floats
    pg: Floats
    qg: Floats
    price_p: Floats
    price_q: Floats
    """(B, N) ∂cost/∂draw."""
    flow_from: Floats
    flow_to: Floats
    """(B, L) of |S|² ≤ rate²."""
    angle_above: Floats
    angle_below: Floats
    """(B, L) of the angle across a branch; those of simple bounds follow from the rest."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class JointTasks:
    """B joint tasks of one network and one kind: nearest demands, nearest beyond a cut, or a push within a ball.

    As ``Nearest`` and ``Push`` of the structured solver, with one row per task.
    """

    target_p: Floats
    target_q: Floats
    """(B, D) noisy demands of each load site."""
    cost_low: Floats
    cost_high: Floats
    """(B,) band, $/h; infinite ends are none."""
    weight_p: Floats | None = None
    weight_q: Floats | None = None
    """(B, D) normal of the cut."""
    least: Floats | None = None
    """(B,) Σ weight · demand is at least this."""
    delta: Floats | None = None
    """(B,) of a push: the squared distance allowed."""
    kept: Floats | None = None
    """(B, K, 2 D) weights of active, then reactive demands in each total that is kept."""
    kept_low: Floats | None = None
    kept_high: Floats | None = None
    """(B, K) each total lies between these."""
    low: Floats | None = None
    high: Floats | None = None
    """(2 D,) bounds on active, then reactive demands of all tasks."""

    def __post_init__(self) -> None:
        """Refuse what is neither of the three kinds."""
        cut = [self.weight_p is None, self.weight_q is None, self.least is None]
        if any(cut) != all(cut) or (self.delta is not None and self.least is not None):
            raise InputError("a joint task has a cut (both weights and the least value), a ball, or neither")
        totals = [self.kept is None, self.kept_low is None, self.kept_high is None]
        if any(totals) != all(totals):
            raise InputError("totals that a joint task keeps have weights, and both bounds")

    @property
    def n_kept(self) -> int:
        """K, how many totals each task keeps."""
        return 0 if self.kept is None else self.kept.shape[1]

    def __len__(self) -> int:
        return len(self.target_p)

    def rows(self, chosen: Any) -> JointTasks:
        """Some of the tasks."""
        shared = ("low", "high")
        picked: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self)}
        return JointTasks(**{name: a if a is None or name in shared else a[chosen] for name, a in picked.items()})


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class JointPoints(Points):
    """Solutions of joint tasks; multipliers in units of the task's objective."""

    demand_p: Floats
    demand_q: Floats
    """(B, D) the demands found."""
    row_prices: Floats
    """(B, 2 + K) of the band, of the cut or the ball, and of totals that are kept: above minus below."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class BatchAnswer:
    """One row per scenario. ``cost`` and ``points`` mean something only where ``status`` is CONVERGED."""

    cost: Floats
    status: NDArray[np.int32]
    iterations: NDArray[np.int32]
    factorisations: NDArray[np.int32]
    residuals: Floats
    """(B, 3) of the independent check: primal, dual, complementarity; NaN where none was made."""
    by_cpu: NDArray[np.bool_]
    """Whether the structured solver has had the last word."""
    points: Points | None
    feasible: NDArray[np.bool_] | None = None
    """Whether the start that was chosen for a scenario was feasible; None if none was chosen."""
    raw: Floats | None = None
    """(B, n_point) where each ended, as the kernels write it, to start from again; None unless starts were chosen."""

    @property
    def converged(self) -> NDArray[np.bool_]:
        """Which scenarios are solved, and checked."""
        solved: NDArray[np.bool_] = self.status == int(BatchStatus.CONVERGED)
        return solved

    def rows(self, chosen: slice) -> BatchAnswer:
        """Some of the scenarios."""
        given: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self)}
        some: dict[str, Any] = {
            name: None if array is None or name == "points" else array[chosen] for name, array in given.items()
        }
        if self.points is not None:
            parts: dict[str, Any] = {f.name: getattr(self.points, f.name)[chosen] for f in fields(self.points)}
            some["points"] = replace(self.points, **parts)
        return BatchAnswer(**some)

    def failures(self) -> dict[str, NDArray[Any]]:
        """The scenarios that are not solved: index, status in words, iterations, residuals."""
        at = np.flatnonzero(~self.converged)
        return {
            "scenario": at,
            "status": np.array([BatchStatus(code).name for code in self.status[at]], dtype=str),
            "iterations": self.iterations[at],
            "primal": self.residuals[at, 0],
            "dual": self.residuals[at, 1],
            "complementarity": self.residuals[at, 2],
        }


class BatchBackend(Protocol):
    """Solves batches of dispatches on one network."""

    name: str

    def dispatch(self, scenarios: Scenarios) -> BatchAnswer:
        """O(d) of every scenario, each checked; failures are rows like any other."""
        ...
