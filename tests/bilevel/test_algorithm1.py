"""Algorithm 1 against brute force, and the paper's theorem and lemmas over random programs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from closed_forms import Known, band, capacities, nearest_by_brute_force, one_dimensional, supply
from gridveil.bilevel.methods.algorithm1 import solve_bilevel
from gridveil.bilevel.methods.settings import BisectionSettings
from gridveil.bilevel.result import Ending, StepKind
from gridveil.solvers.ipopt import IpoptBackend
from gridveil.solvers.solves import Solves

EXAMPLES = settings(max_examples=25, deadline=None)
ETA = 1e-4


def grid_error(delta: float, reach: float, points: int = 801) -> float:
    """How far a grid of this spacing can be off in squared distance."""
    step = 2 * reach / (points - 1)
    return 2 * np.sqrt(2) * step * np.sqrt(delta) + 2 * step**2


@pytest.mark.parametrize(
    ("known", "truth", "noisy"),
    [
        (one_dimensional(), [2.0], [1.2]),
        (one_dimensional(), [2.0], [3.1]),
        (one_dimensional(), [2.0], [2.001]),
        (supply([1.0, 2.0], [1.0, 4.0]), [1.0, 1.5], [0.4, 1.1]),
        (supply([1.0, 2.0], [1.0, 4.0]), [1.0, 1.5], [2.0, 1.7]),
        (supply([1.0, 2.0], [1.0, 4.0]), [1.0, 1.5], [-1.0, -0.5]),
        (capacities(), [3.0, 2.0], [3.9, 2.6]),
        (capacities(), [3.0, 2.0], [2.0, 1.4]),
    ],
)
def test_true_bilevel_optimum(known: Known, truth, noisy):
    truth, noisy = np.array(truth), np.array(noisy)
    target = band(known.optimum(truth), 0.02 * known.optimum(truth))
    result = solve_bilevel(IpoptBackend(known.program), noisy, target, BisectionSettings(eta=ETA))
    assert result.verified, result.ending
    assert target.contains(known.optimum(result.d))
    assert result.cost == pytest.approx(known.optimum(result.d), rel=1e-5)
    assert result.delta == pytest.approx(float(np.sum((result.d - noisy) ** 2)), abs=1e-9)
    best = nearest_by_brute_force(known, noisy, target, reach=3.0)
    assert best - grid_error(best, 3.0) <= result.delta + 1e-6
    assert result.delta <= best + ETA + 1e-6 + 2e-3 * best  # the last term: the margin inside the band's edge


def test_noisy_data_in_the_band_are_returned_exactly():
    known, noisy = one_dimensional(), np.array([2.001])
    result = solve_bilevel(IpoptBackend(known.program), noisy, band(known.optimum(np.array([2.0])), 0.1))
    assert result.ending is Ending.NOISY_IN_BAND
    assert result.delta == 0.0
    assert result.d.tobytes() == noisy.tobytes()


def test_history_and_count():
    """One evaluation for the high point and one per call to O↑; each push respects its radius, doubling before bisection."""
    known = one_dimensional()
    result = solve_bilevel(IpoptBackend(known.program), np.array([0.3]), band(4.0, 0.04), BisectionSettings(eta=1e-3))
    kinds = [step.kind for step in result.history]
    pushes = [step for step in result.history if step.kind in (StepKind.DOUBLING, StepKind.BISECTION)]
    assert kinds[0] is StepKind.HIGHPOINT and kinds[-1] is StepKind.VERIFICATION
    assert result.optimisations == 1 + len(pushes)
    assert kinds.index(StepKind.BISECTION) == 1 + kinds.count(StepKind.DOUBLING)
    assert all(step.delta <= step.radius * (1 + 1e-6) + 1e-7 for step in pushes)
    radii = [step.radius for step in pushes if step.kind is StepKind.DOUBLING]
    assert np.allclose(np.array(radii[1:]) / radii[:-1], 2)
    inside = [step.delta for step in pushes if band(4.0, 0.04).contains(step.cost)]
    below = [step.radius for step in pushes if step.cost < 3.96]
    assert result.delta == min(inside)
    assert min(inside) - max(below) <= 1e-3
    assert result.monotonicity.holds and result.monotonicity.rank_correlation == pytest.approx(1.0)


positive = st.floats(0.5, 4.0)
weights = st.lists(positive, min_size=1, max_size=4)


@EXAMPLES
@given(weights=weights, slopes=weights, data=st.data())
def test_theorem_1_and_both_lemmas(weights, slopes, data):
    known = supply(weights, slopes)
    n = len(weights)
    truth = np.array(data.draw(st.lists(st.floats(0.5, 3.0), min_size=n, max_size=n)))
    noise = np.array(data.draw(st.lists(st.floats(-1.5, 1.5), min_size=n, max_size=n)))
    noisy, cost = truth + noise, known.optimum(truth)
    target = band(cost * (1 + data.draw(st.floats(-0.01, 0.01))), 0.02 * cost)  # β ≥ |f° − f̃|
    backend = IpoptBackend(known.program)
    solves = Solves(backend)
    result = solve_bilevel(backend, noisy, target, BisectionSettings(eta=ETA))

    assert result.verified, result.ending
    assert target.contains(known.optimum(result.d))
    slack = np.sqrt(ETA) + 2e-3
    assert np.linalg.norm(result.d - truth) <= 2 * np.linalg.norm(noisy - truth) + slack  # Theorem 1

    start = solves.highpoint(noisy, target)
    far = float(noise @ noise)
    pushed = solves.push(noisy, target, far + 1e-6, [start])
    assert pushed.converged
    assert known.optimum(pushed.d) >= target.lower - 1e-5 * cost  # Lemma 1
    assert known.optimum(pushed.d) <= target.upper + 1e-5 * cost

    radius = result.delta / 4
    if radius > 1e-3:
        nearer = solves.push(noisy, target, radius, [start])
        if nearer.converged and known.optimum(nearer.d) < target.lower:  # Lemma 2: then no feasible point is as near
            rng = np.random.default_rng(0)
            directions = rng.normal(size=(500, n))
            lengths = np.sqrt(radius) * rng.uniform(0, 1, (500, 1)) ** (1 / n)
            ball = noisy + lengths * directions / np.linalg.norm(directions, axis=1, keepdims=True)
            assert not any(target.contains(known.optimum(d)) for d in ball)


@EXAMPLES
@given(noisy=st.lists(st.floats(-4.0, 6.0), min_size=2, max_size=2), lower=st.floats(0.0, 2.0))
def test_released_data_respect_their_bounds(noisy, lower):
    known = supply([1.0, 1.0], [1.0, 1.0])
    from dataclasses import replace

    program = replace(known.program, d_lower=np.full(2, lower), d_upper=np.full(2, 5.0))
    target = band(known.optimum(np.array([2.0, 2.0])), 0.5)
    result = solve_bilevel(IpoptBackend(program), np.array(noisy), target)
    assert result.verified, result.ending
    assert np.all(result.d >= lower - 1e-6) and np.all(result.d <= 5.0 + 1e-6)
