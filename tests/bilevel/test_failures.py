"""What can go wrong is named, and nothing outside the band is ever returned."""

from __future__ import annotations

import signal
from dataclasses import replace

import casadi as ca
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from closed_forms import band, one_dimensional, supply
from conftest import Matpower
from gridveil.bilevel.methods.algorithm1 import solve_bilevel
from gridveil.bilevel.methods.settings import BisectionSettings
from gridveil.bilevel.result import Ending
from gridveil.core.band import Tolerance
from gridveil.core.choices import CostTargetMode, Formulation
from gridveil.core.errors import InputError
from gridveil.programs import ParametricProgram, Status
from gridveil.programs.interrupt import InterruptWatch
from gridveil.sectors.registry import build_model
from gridveil.solvers.backend import Effort, Start
from gridveil.solvers.ipopt import IpoptBackend


def test_no_data_reach_the_band():
    """O ≥ 0 everywhere, so a target of −5 ± 1 has no solution, and the high point says so."""
    result = solve_bilevel(IpoptBackend(one_dimensional().program), np.array([1.0]), band(-5.0, 1.0))
    assert result.ending is Ending.NO_HIGHPOINT
    assert not result.verified and result.d is None and np.isnan(result.cost)


def test_bracket_never_found():
    """x may cost anything up to 10, but d is bounded, so O(d) stays at 1 while HPR is content."""
    known = one_dimensional()
    program = replace(known.program, d_upper=np.array([1.0]))
    result = solve_bilevel(IpoptBackend(program), np.array([0.5]), band(10.0, 0.1))
    assert result.ending is Ending.NO_BRACKET
    assert result.d is None


def test_call_limit_keeps_the_best_verified_point():
    known, target = one_dimensional(), band(40.0, 0.04)
    result = solve_bilevel(
        IpoptBackend(known.program), np.array([0.3]), target, BisectionSettings(eta=1e-9, call_limit=45)
    )
    assert result.ending is Ending.CALL_LIMIT
    assert result.verified and target.contains(known.optimum(result.d))


class Flaky(IpoptBackend):
    """A backend whose pushes fail as told, with points that must not be used."""

    def __init__(self, program, fails):
        super().__init__(program)
        self.fails, self.radii = fails, []

    def push(self, noisy, band, delta, *, start, effort=Effort.NEAR):
        self.radii = self.radii if delta in self.radii else [*self.radii, delta]
        self.pushes = len(self.radii)
        solution = super().push(noisy, band, delta, start=start, effort=effort)
        if self.fails(self.pushes):
            status = Status.ACCEPTABLE if self.pushes % 2 else Status.INFEASIBLE
            return replace(solution, status=status, d=solution.d + 100, delta=0.0)
        return solution


@settings(max_examples=20, deadline=None)
@given(pattern=st.lists(st.booleans(), min_size=8, max_size=8), noisy=st.floats(0.2, 1.5))
def test_failed_pushes_never_move_the_bracket(pattern, noisy):
    known, target = one_dimensional(), band(4.0, 0.04)
    backend = Flaky(known.program, lambda k: pattern[k % 8])
    result = solve_bilevel(backend, np.array([noisy]), target)
    assert result.ending in {Ending.BRACKET_CLOSED, Ending.BRACKET_STUCK, Ending.NO_BRACKET}
    if result.verified:
        assert target.contains(known.optimum(result.d))
        best = (np.sqrt(1 + 2 * 3.96) - 1 - noisy) ** 2
        assert result.delta >= best - 1e-4
    if result.ending is Ending.BRACKET_CLOSED:
        assert result.delta <= best + 1e-3 + 1e-4


def test_a_follower_that_always_fails_gives_no_release():
    class Lost(IpoptBackend):
        def dispatch(self, d, *, start=None, effort=None):
            return replace(super().dispatch(d, start=start, effort=effort), status=Status.ITERATION_LIMIT)

    result = solve_bilevel(Lost(one_dimensional().program), np.array([1.0]), band(4.0, 0.04))
    assert result.ending is Ending.NO_BRACKET
    assert result.d is None


def test_a_point_that_a_fresh_solve_puts_outside_is_not_returned():
    """Two local optima: from x in hand the follower stays on the dear one; the fresh solve finds the cheap one."""
    x, d = ca.MX.sym("x"), ca.MX.sym("d")
    double_well = (x**2 - 1) ** 2 + 0.3 * x + 2 + d
    program = ParametricProgram(
        name="two wells", x=x, d=d, cost=double_well, g=d, g_lower=[-np.inf], g_upper=[np.inf], x_lower=[-2], x_upper=[2],
        x_start=[-1.0], more_starts=(),
    )  # fmt: skip

    class Misled(IpoptBackend):
        def nearest(self, noisy, band, *, start=None, effort=None):
            at_the_dear_one = Start(np.array([0.96]), noisy)
            return super().nearest(noisy, band, start=at_the_dear_one, effort=Effort.FULL)

    at_dear_well = 2.3
    result = solve_bilevel(Misled(program), np.array([0.0]), band(at_dear_well, 0.05), BisectionSettings(call_limit=5))
    if result.verified:
        assert result.cost == pytest.approx(at_dear_well, abs=0.05)
        assert result.d[0] == pytest.approx(at_dear_well - 1.695, abs=0.1)  # only the cheap well may count
    else:
        assert result.ending in {Ending.NOT_VERIFIED, Ending.NO_BRACKET}


def congested_triangle(sites_at_2: int) -> Matpower:
    """Equal reactances, line 2–3 at its limit: the price at bus 2 is 2·10 − 40 < 0, so load there lowers the cost."""
    net = Matpower()
    net.add_bus(1, kind=3)
    net.add_bus(2, pd=5)
    net.add_bus(3, pd=90)
    for k in range(sites_at_2 - 1):
        net.add_bus(10 + k, pd=5)
        net.add_branch(2, 10 + k, x=1e-3)
    net.add_gen(1, cost=(10.0, 0.0))
    net.add_gen(3, cost=(40.0, 0.0))
    net.add_branch(1, 3)
    net.add_branch(1, 2)
    net.add_branch(2, 3, rate=10.0)
    return net


def test_counterexample_to_monotonicity(load_text):
    case = load_text(congested_triangle(4).text())
    model = build_model(case.network, Formulation.DC)
    backend = IpoptBackend(model.program)
    truth = model.layout.to_program(case.values.reveal())
    at_truth = backend.dispatch(truth)
    assert np.sum(at_truth.prices < -1) >= 4 and at_truth.prices.sum() < 0
    endings = set()
    failed = 0
    for seed in range(8):
        noisy = truth + np.random.default_rng(seed).laplace(0, 0.1, len(truth))
        target = band(at_truth.cost, 0.005 * at_truth.cost)
        result = solve_bilevel(backend, noisy, target)
        endings.add(result.ending)
        if result.verified:
            assert target.contains(backend.dispatch(result.d).cost)
        failed += not result.monotonicity.holds
    assert failed > 0, endings


def test_supply_is_monotone_by_the_same_measure():
    known = supply([1.0, 2.0], [1.0, 4.0])
    result = solve_bilevel(IpoptBackend(known.program), np.array([0.1, 0.2]), band(20.0, 0.1))
    assert result.monotonicity.holds and result.monotonicity.points > 3


@pytest.mark.parametrize("text", ["", "x", "-1%", "0", "nan", "inf%", "1%%"])
def test_bad_beta(text):
    with pytest.raises(InputError):
        Tolerance.parse(text)


def test_a_share_is_one_of_the_size_of_the_cost_or_of_a_public_cost():
    share = Tolerance.parse("1%")
    with pytest.raises(InputError, match="amount"):
        share.around(0.0, CostTargetMode.PUBLIC)
    assert share.around(-10.0, CostTargetMode.PUBLIC).beta == pytest.approx(0.1)
    assert share.around(0.0, CostTargetMode.PUBLIC, least=5.0).beta == pytest.approx(0.05)
    assert share.around(10.0, CostTargetMode.PUBLIC, least=5.0) == share.around(10.0, CostTargetMode.PUBLIC)
    target = Tolerance.parse("2.5$/h").around(-10.0, CostTargetMode.PUBLIC, least=1e6)
    assert (target.lower, target.upper) == (-12.5, -7.5)


def test_negative_costs_can_be_released():
    """The same program with its cost shifted far below zero has the same answer."""
    known = one_dimensional()
    shifted = replace(known.program, cost=known.program.cost - 100)
    plain = solve_bilevel(IpoptBackend(known.program), np.array([0.3]), band(4.0, 0.04))
    below = solve_bilevel(IpoptBackend(shifted), np.array([0.3]), band(-96.0, 0.04))
    assert below.verified
    assert below.d == pytest.approx(plain.d, abs=2e-3)


def test_an_interrupt_is_not_lost_in_a_failed_solve():
    """CasADi may raise after Ctrl-C has come; a study would take that for a failed task and go on."""
    with pytest.raises(KeyboardInterrupt), InterruptWatch(n_x=1, n_g=1, n_p=1).watching():
        signal.raise_signal(signal.SIGINT)
        raise RuntimeError("a solve that failed")


def test_an_ignored_interrupt_stays_ignored_in_a_solve():
    """A shell ignores Ctrl-C in background jobs: it must not end one that happens to be inside a solve."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with InterruptWatch(n_x=1, n_g=1, n_p=1).watching():
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
