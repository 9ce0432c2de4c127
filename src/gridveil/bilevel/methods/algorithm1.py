"""Algorithm 1 of the paper: binary search on δ, alternating O↑ and O. Everything is measured in the squared norm."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from gridveil.bilevel.methods.anchor import confirm_patiently, search_from_anchors
from gridveil.bilevel.methods.settings import BisectionSettings
from gridveil.bilevel.result import BilevelResult, Ending, StepKind
from gridveil.bilevel.run import MethodRun, run_method
from gridveil.bilevel.together.offer import Asked, ask_together
from gridveil.core.band import CostTarget
from gridveil.core.methods import Method
from gridveil.solvers.backend import Backend

Vector = NDArray[np.float64]

DEFAULTS = BisectionSettings()


def solve_bilevel(
    backend: Backend, noisy: Vector, target: CostTarget, settings: BisectionSettings = DEFAULTS
) -> BilevelResult:
    """(BL): find d* near d̃ with O(d*) in the band. A solve that fails never moves the bracket."""
    together = ask_together(backend, Asked(Method.BISECTION, noisy, target)) if settings is DEFAULTS else None
    return together or run_method(backend, noisy, target, lambda run: _search(run, settings))


def _search(run: MethodRun, settings: BisectionSettings) -> Ending:
    ending = run.start_from_highpoint() or double_and_bisect(
        run, settings, lambda: run.upper - run.lower <= settings.eta
    )
    if run.backend.program.typical is None:
        return ending
    refused = bool(run.candidates)
    if confirm_patiently(run):
        return ending
    return Ending.ANCHORED if search_from_anchors(run) else Ending.NOT_VERIFIED if refused else ending


def double_and_bisect(run: MethodRun, settings: BisectionSettings, closed: Callable[[], bool]) -> Ending:
    """Double the radius until O↑ reaches the band (Lemma 1 says it does, if O is monotone), then bisect until ``closed``."""
    radius = max(2 * run.lower, settings.eta)
    failures = 0
    while run.calls < settings.call_limit and failures < settings.failure_limit and not closed():
        joint, follower = run.push(StepKind.DOUBLING, radius)
        if run.best is not None:
            return _bisect(run, settings, closed)
        if follower is None or follower.cost > run.band.upper:
            failures += 1
        else:
            failures = 0
            run.lower = radius
            if joint.delta < (1 - settings.ball_slack) * radius:
                return Ending.NO_BRACKET
        radius *= 2
    return Ending.NO_BRACKET


def _bisect(run: MethodRun, settings: BisectionSettings, closed: Callable[[], bool]) -> Ending:
    """The loop of Algorithm 1: O↑ in the middle of the bracket moves its upper end in, or its lower end out (Lemma 2)."""
    while not closed():
        for share in settings.probes:
            if run.calls >= settings.call_limit:
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
