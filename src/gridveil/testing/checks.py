"""Assertions for any backend, each by independent means."""

from __future__ import annotations

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from gridveil.core.band import CostTarget
from gridveil.programs import ParametricProgram
from gridveil.solvers.backend import Answer, Backend

Vector = NDArray[np.float64]


def check_answer(backend: Backend, answer: Answer, noisy: Vector, *, priced: bool) -> None:
    """Check the shapes of an answer's parts and their consistency."""
    program = backend.program
    assert answer.converged, f"{answer.status.value}: {answer.detail}"
    assert answer.x.shape == (program.n_x,) and answer.d.shape == (program.n_d,)
    assert np.array_equal(answer.start.x, answer.x) and np.array_equal(answer.start.d, answer.d)
    assert answer.start.maker == answer.solver != ""
    assert (answer.prices is not None) == priced, "prices belong to a dispatch and to nothing else"
    assert answer.prices is None or answer.prices.shape == (program.n_d,)
    assert np.isclose(answer.delta, np.sum((answer.d - noisy) ** 2), rtol=1e-9, atol=1e-12)
    assert np.isclose(answer.proxy, _value(program, program.proxy, answer), rtol=1e-9, atol=1e-9)


def check_feasible(program: ParametricProgram, answer: Answer, tolerance: float = 1e-5) -> None:
    """Check that x satisfies the program at d, relative to each limit where that exceeds 1, and has the stated cost."""
    rows = np.asarray(ca.Function("rows", [program.x, program.d], [program.g])(answer.x, answer.d)).ravel()
    for value, lower, upper in (
        (rows, program.g_lower, program.g_upper),
        (answer.x, program.x_lower, program.x_upper),
        (answer.d, program.d_lower, program.d_upper),
    ):
        assert np.all(value >= lower - tolerance * np.maximum(1.0, np.abs(np.nan_to_num(lower, neginf=0.0))))
        assert np.all(value <= upper + tolerance * np.maximum(1.0, np.abs(np.nan_to_num(upper, posinf=0.0))))
    cost = _value(program, program.cost, answer)
    assert abs(cost - answer.cost) <= tolerance * max(1.0, abs(cost)), f"f(x) is {cost}, not {answer.cost}"


def check_in_band(answer: Answer, band: CostTarget, tolerance: float = 1e-6) -> None:
    """Check that f(x) lies in the band."""
    slack = tolerance * max(abs(band.value), band.beta)
    assert band.lower - slack <= answer.cost <= band.upper + slack, f"{answer.cost} is not in the band"


def check_prices(backend: Backend, d: Vector, *, step: float, tolerance: float) -> None:
    """Check prices against central differences of O, relative to the largest price."""
    prices = backend.dispatch(d).prices
    assert prices is not None
    differences = np.empty(len(d))
    for k in range(len(d)):
        ends = [backend.dispatch(d + side * step * (np.arange(len(d)) == k)) for side in (1, -1)]
        assert all(end.converged for end in ends)
        differences[k] = (ends[0].cost - ends[1].cost) / (2 * step)
    worst = float(np.max(np.abs(prices - differences)))
    assert worst <= tolerance * float(np.max(np.abs(differences))), f"prices are off by {worst}"


def _value(program: ParametricProgram, expression: ca.MX, answer: Answer) -> float:
    return float(ca.Function("value", [program.x, program.d], [expression])(answer.x, answer.d))
