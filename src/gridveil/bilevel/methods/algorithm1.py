"""Algorithm 1 of the paper: binary search on δ, alternating O↑ and O. Everything is measured in the squared norm."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gridveil.bilevel.result import BilevelResult, Ending, StepKind
from gridveil.bilevel.run import Run
from gridveil.core.band import CostTarget
from gridveil.solvers.ipopt import Engine

Vector = NDArray[np.float64]

ETA = 1e-3  # the paper's convergence parameter, on δ
CALL_LIMIT = 3000  # the paper's limit on calls to O↑
FAILURE_LIMIT = 12  # doublings in a row that may fail before the search for a bracket ends
BALL_SLACK = (
    1e-3  # relative: farther inside its ball than this (more than rounding), O↑ gains nothing from a larger one
)
PROBES = (0.5, 0.75, 0.25, 0.9)  # where in the bracket to look, should the middle not converge


def solve_bilevel(
    engine: Engine, noisy: Vector, target: CostTarget, *, eta: float = ETA, call_limit: int = CALL_LIMIT
) -> BilevelResult:
    """(BL): find d* near d̃ with O(d*) in the band. A solve that fails never moves the bracket."""
    run = Run(engine, noisy, target)
    return run.finish(run.start_from_highpoint() or double_and_bisect(run, eta, call_limit))


def double_and_bisect(run: Run, eta: float, call_limit: int) -> Ending:
    """Double the radius until O↑ reaches the band (Lemma 1 says it does, if O is monotone), then bisect."""
    radius = max(2 * run.lower, eta)
    failures = 0
    while run.calls < call_limit and failures < FAILURE_LIMIT:
        joint, follower = run.push(StepKind.DOUBLING, radius)
        if run.best is not None:
            return _bisect(run, eta, call_limit)
        if follower is None or follower.cost > run.band.upper:
            failures += 1
        else:
            failures = 0
            run.lower = radius
            if joint.delta < (1 - BALL_SLACK) * radius:
                return Ending.NO_BRACKET
        radius *= 2
    return Ending.NO_BRACKET


def _bisect(run: Run, eta: float, call_limit: int) -> Ending:
    """The loop of Algorithm 1: O↑ in the middle of the bracket moves its upper end in, or its lower end out (Lemma 2)."""
    while run.upper - run.lower > eta:
        for share in PROBES:
            if run.calls >= call_limit:
                return Ending.CALL_LIMIT
            radius = run.lower + share * (run.upper - run.lower)
            _, follower = run.push(StepKind.BISECTION, radius)
            if follower is None or follower.cost > run.band.upper:
                continue
            if follower.cost < run.band.lower:
                run.lower = radius
            break
        else:
            return Ending.BRACKET_STUCK
    return Ending.BRACKET_CLOSED
