"""One row of a study: a task, its result, and how it was obtained."""

from __future__ import annotations

from dataclasses import dataclass

FAILED = "FAILED"
"""The ``ending`` of a task that gave no result at all: it raised, ran out of time, or its worker died."""


@dataclass(frozen=True, kw_only=True)
class TaskOutcome:
    """One task and its result. A study is a simulation: a row holds distances to the true demands.

    Costs are in the program's unit; δ is squared, per unit; distances are ‖· − d°‖/‖d°‖ over all demand sites; times are
    in seconds. A number that does not exist is None.
    """

    network: str
    """The network's label in the study."""
    kind: str
    """``power`` or ``gas``."""
    buses: int
    """Buses, or junctions of a gas network."""
    sites: int
    """Demand sites."""
    alpha: float
    """Per unit of the network's base."""
    beta: float
    """Share of the true cost."""
    epsilon: float
    seed: int
    method: str
    solver: str
    verified: bool
    ending: str
    """Name of the ``Ending``, or FAILED."""
    reason: str
    """Why the task is not verified; empty if it is."""
    true_cost: float | None
    """O(d°), the centre of the band."""
    cost: float | None
    """O(d*), as verified."""
    highpoint_cost: float | None
    """O(d^h) of the high-point relaxation."""
    delta: float | None
    """‖d* − d̃‖²."""
    highpoint_delta: float | None
    noisy_distance: float | None
    highpoint_distance: float | None
    released_distance: float | None
    optimisations: int
    """Evaluations of O, as the paper counts them."""
    seconds: float
    """Time of the release alone, from d̃ to d* verified."""
    true_seconds: float
    """Time of one cold solve of O(d°)."""
    monotone: bool
    rank_correlation: float | None
    worst_violation: float | None
    history: str
    """JSON list of steps: kind, radius, delta, proxy, joint_cost, cost, joint_status, follower_status, seconds."""
    versions: str
    """JSON: versions of gridveil, python, numpy, casadi, numba."""
    finished: str
    """ISO time, UTC."""
    worker: str
    kept_error: float | None = None
    """Largest error of a kept total, as a share of it; of the released demands."""
    noisy_kept_error: float | None = None
    noisy_feasible: float | None = None
    """1 where an optimum was found for the noisy demands as they are, else 0; None where nobody looked."""
    released_cost_error: float | None = None
    """Of the optimal cost, relative to O(d°)."""
    released_losses_error: float | None = None
    """Of active losses, relative."""
    released_price_error: float | None = None
    """Of the quantiles of nodal prices: root mean square over their mean size."""
    released_price_rank: float | None = None
    """Spearman's ρ of nodal prices."""
    released_congestion: float | None = None
    """Jaccard index of full lines."""
    released_zone_error: float | None = None
    """Of zonal demands: root mean square over their mean size."""
    released_severity_error: float | None = None
    """Of the worst loading after an outage: mean absolute difference."""
    noisy_cost_error: float | None = None
    noisy_losses_error: float | None = None
    noisy_price_error: float | None = None
    noisy_price_rank: float | None = None
    noisy_congestion: float | None = None
    noisy_zone_error: float | None = None
    noisy_severity_error: float | None = None
    highpoint_cost_error: float | None = None
    highpoint_losses_error: float | None = None
    highpoint_price_error: float | None = None
    highpoint_price_rank: float | None = None
    highpoint_congestion: float | None = None
    highpoint_zone_error: float | None = None
    highpoint_severity_error: float | None = None
