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
