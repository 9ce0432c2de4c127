"""Two baselines of the paper as methods. Both see the noisy data, the band and public data, and nothing else."""

from __future__ import annotations

from gridveil.bilevel.result import BilevelResult, Ending, HighPointResult, StepKind
from gridveil.bilevel.run import EvaluatedPoint, MethodRun


def high_point(backend, noisy, target) -> BilevelResult:
    """d^h of the high-point relaxation, where O(d^h) lies in the band; else no release."""
    run = MethodRun(backend, noisy, target)
    return run.conclude(lambda: run.start_from_highpoint() or Ending.NO_BRACKET)


def noise_only(backend, noisy, target) -> BilevelResult:
    """d̃ itself, where O(d̃) lies in the band; else no release."""
    run = MethodRun(backend, noisy, target)
    return run.conclude(lambda: _look_at_noisy(run))


def _look_at_noisy(run: MethodRun) -> Ending:
    answer = run.backend.dispatch(run.noisy)
    at_noisy = answer.moved(run.noisy, 0.0)
    follower = run.evaluate(StepKind.HIGHPOINT, 0.0, at_noisy, run.clock, known=answer)
    if follower is None or not run.band.contains(follower.cost):
        return Ending.NO_BRACKET
    run.highpoint = HighPointResult(d=run.noisy, delta=0.0, cost=follower.cost)
    run.candidates.append(EvaluatedPoint(at_noisy, follower))
    return Ending.NOISY_IN_BAND
