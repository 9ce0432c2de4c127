"""The method auto: the true optimum on closed forms, and never farther than Algorithm 1 where it counts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from closed_forms import Known, band, capacities, nearest_by_brute_force, one_dimensional, supply
from conftest import nesta, solve_true
from gridveil.bilevel.methods.algorithm1 import solve_bilevel
from gridveil.bilevel.methods.auto import solve_auto
from gridveil.bilevel.methods.settings import AutoSettings, BisectionSettings
from gridveil.bilevel.result import Ending, StepKind
from gridveil.core.band import Tolerance
from gridveil.core.choices import CostTargetMode
from gridveil.privacy.mechanisms.simulation import NoiseSites, simulate_laplace
from gridveil.programs import Status
from gridveil.sectors.registry import build_model, load_case
from gridveil.solvers.backend import Effort
from gridveil.solvers.ipopt import IpoptBackend
from gridveil.solvers.registry import backend_for
from gridveil.solvers.solves import Solves
from gridveil.study.trial import noise_stream

WORST = 1.001


@pytest.mark.parametrize(
    ("known", "truth", "noisy"),
    [
        (one_dimensional(), [2.0], [1.2]),
        (one_dimensional(), [2.0], [3.1]),
        (supply([1.0, 2.0], [1.0, 4.0]), [1.0, 1.5], [0.4, 1.1]),
        (supply([1.0, 2.0], [1.0, 4.0]), [1.0, 1.5], [2.0, 1.7]),
        (supply([1.0, 2.0], [1.0, 4.0]), [1.0, 1.5], [-1.0, -0.5]),  # O is flat at the start: no prices
        (capacities(), [3.0, 2.0], [3.9, 2.6]),
        (capacities(), [3.0, 2.0], [2.0, 1.4]),
        (capacities(), [3.0, 2.0], [6.0, 6.0]),  # more capacity than demand: flat again
    ],
)
def test_true_bilevel_optimum(known: Known, truth, noisy):
    truth, noisy = np.array(truth), np.array(noisy)
    target = band(known.optimum(truth), 0.02 * known.optimum(truth))
    result = solve_auto(IpoptBackend(known.program), noisy, target)
    assert result.verified, result.ending
    assert target.contains(known.optimum(result.d))
    best = nearest_by_brute_force(known, noisy, target, reach=8.0, points=2001)
    step = 16.0 / 2000
    assert result.delta <= WORST * (np.sqrt(best) + np.sqrt(2) * step) ** 2 + 1e-6


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_never_farther_than_algorithm_1_on_random_programs(data):
    n = data.draw(st.integers(1, 4))
    positive = st.lists(st.floats(0.5, 4.0), min_size=n, max_size=n)
    known = supply(data.draw(positive), data.draw(positive))
    truth = np.array(data.draw(st.lists(st.floats(0.5, 3.0), min_size=n, max_size=n)))
    noisy = truth + np.array(data.draw(st.lists(st.floats(-2.0, 2.0), min_size=n, max_size=n)))
    target = band(known.optimum(truth), 0.02 * known.optimum(truth))
    backend = IpoptBackend(known.program)
    auto, paper = solve_auto(backend, noisy, target), solve_bilevel(backend, noisy, target, BisectionSettings(eta=1e-6))
    assert auto.verified and paper.verified
    assert target.contains(known.optimum(auto.d))
    assert auto.delta <= WORST * paper.delta + 1e-6


@pytest.mark.nesta
@pytest.mark.parametrize(
    ("name", "alpha"), [("case14_ieee", 0.1), ("case30_fsr", 0.1), ("case57_ieee", 0.1), ("case14_ieee", 1.0)]
)
def test_never_farther_than_algorithm_1_on_networks(name, alpha):
    case = load_case(str(nesta(name)))
    model = build_model(case.network)
    backend = IpoptBackend(model.program)
    cost = solve_true(case, model, backend).cost
    target = Tolerance.parse("1%").around(cost, CostTargetMode.PUBLIC)
    needed = 0
    for seed in range(6):
        noisy = model.layout.to_program(simulate_laplace(case.values, epsilon=1.0, alpha=alpha, seed=seed).values)
        auto, paper = (
            solve_auto(backend, noisy, target),
            solve_bilevel(backend, noisy, target, BisectionSettings(eta=1e-5)),
        )
        assert auto.verified and paper.verified
        assert auto.delta <= WORST * paper.delta + 1e-9
        if paper.optimisations > 1:
            needed += 1
            assert auto.optimisations <= paper.optimisations
    assert needed or alpha > 0.1


@pytest.mark.nesta
@pytest.mark.parametrize(
    ("name", "alpha", "beta", "seed"),
    [("case39_epri", 1.0, "1%", 47), ("case1460wp_eir", 0.1, "0.1%", 15), ("case1394sop_eir", 0.1, "0.1%", 26)],
)
def test_never_farther_than_algorithm_1_where_the_follower_jumps(name, alpha, beta, seed):
    """A point away from the edge of the band; no point by cuts; a cut from a refused point past a nearer one."""
    case = load_case(str(nesta(name)))
    model = build_model(case.network)
    backend = backend_for(model, "structured")
    target = Tolerance.parse(beta).around(solve_true(case, model, backend).cost, CostTargetMode.PUBLIC)
    noise = simulate_laplace(
        case.values, epsilon=1.0, alpha=alpha, seed=noise_stream(name, seed), sites=NoiseSites.POSITIVE
    )
    noisy = model.layout.to_program(noise.values)
    auto, paper = solve_auto(backend, noisy, target), solve_bilevel(backend, noisy, target)
    assert auto.verified and paper.verified and auto.delta <= WORST * paper.delta


def test_cuts_alone_reach_the_band_of_a_convex_follower():
    """Where O is convex a cut lands in the band, and no push is needed but the one that checks."""
    known = supply([1.0, 2.0], [1.0, 4.0])
    result = solve_auto(IpoptBackend(known.program), np.array([0.9, 1.2]), band(10.0, 0.1))
    kinds = [step.kind for step in result.history]
    assert kinds[:2] == [StepKind.HIGHPOINT, StepKind.CUT] and result.ending is Ending.POLISHED
    assert kinds.count(StepKind.ROOT) == 1 and kinds.count(StepKind.DOUBLING) == 0
    assert any(step.kind is StepKind.CUT and band(10.0, 0.1).contains(step.cost) for step in result.history)


def test_without_cuts_the_root_search_still_finds_the_optimum():
    """Every price cut fails: the answer is Algorithm 1's."""

    class NoCuts(IpoptBackend):
        def cut(self, noisy, band, half_space, *, start, effort=Effort.NEAR):
            answer = super().cut(noisy, band, half_space, start=start, effort=effort)
            return replace(answer, status=Status.FAILED)

    known, noisy, target = supply([1.0, 2.0], [1.0, 4.0]), np.array([0.2, 0.3]), band(10.0, 0.1)
    auto, paper = (
        solve_auto(NoCuts(known.program), noisy, target),
        solve_bilevel(IpoptBackend(known.program), noisy, target),
    )
    assert auto.verified and auto.delta == pytest.approx(paper.delta, rel=2e-3)


def test_nothing_outside_the_band_is_returned():
    program = replace(one_dimensional().program, d_upper=np.array([1.0]))
    result = solve_auto(IpoptBackend(program), np.array([0.5]), band(10.0, 0.1))
    assert result.ending is Ending.NO_BRACKET and result.d is None
    assert (
        solve_auto(IpoptBackend(one_dimensional().program), np.array([1.0]), band(-5.0, 1.0)).ending
        is Ending.NO_HIGHPOINT
    )


def test_a_lower_optimum_that_a_fresh_solve_finds_is_cut_from_there(monkeypatch):
    """Fresh solves find a tenth of β less than the follower does: one more cut, no new search."""
    known = supply([1.0, 2.0], [1.0, 4.0])
    optimum = known.optimum(np.array([1.0, 1.5]))
    target = band(optimum, 0.02 * optimum)

    verify = Solves.verify

    def surprised(self, joint, known, band, fresh):
        answer = verify(self, joint, known, band, fresh)
        return replace(answer, cost=answer.cost - 0.1 * band.beta)

    monkeypatch.setattr(Solves, "verify", surprised)
    result = solve_auto(IpoptBackend(known.program), np.array([0.4, 1.1]), target)
    kinds = [step.kind for step in result.history]
    first = kinds.index(StepKind.VERIFICATION)
    assert result.verified and kinds[first:][:3] == [StepKind.VERIFICATION, StepKind.CUT, StepKind.VERIFICATION], kinds
    assert not target.contains(result.history[first].cost) and target.contains(result.cost)
    assert StepKind.DOUBLING not in kinds


def test_a_refused_point_of_a_network_is_cut_again_and_verified(monkeypatch):
    """A first fresh solve that finds an optimum below the band is what the next cut starts from."""
    case = load_case(str(nesta("case39_epri")))
    model = build_model(case.network)
    backend = backend_for(model, "structured")
    target = Tolerance.parse("1%").around(solve_true(case, model, backend).cost, CostTargetMode.PUBLIC)
    noise = simulate_laplace(
        case.values, epsilon=1.0, alpha=1.0, seed=noise_stream("case39_epri", 2), sites=NoiseSites.POSITIVE
    )
    verify, verified = Solves.verify, []

    def lower_at_first(self, joint, known, band, cold):
        fresh = verify(self, joint, known, band, cold)
        verified.append(joint)
        return replace(fresh, cost=fresh.cost - target.beta) if len(verified) == 1 else fresh

    monkeypatch.setattr(Solves, "verify", lower_at_first)
    result = solve_auto(backend, model.layout.to_program(noise.values), target)
    kinds = [step.kind for step in result.history]
    at = kinds.index(StepKind.VERIFICATION)
    assert not target.contains(result.history[at].cost)
    assert kinds[at + 1] is StepKind.CUT
    assert result.verified and StepKind.DOUBLING not in kinds
    assert verified[1].delta > verified[0].delta


def test_a_cut_that_would_only_be_repeated_is_not_solved_again():
    """Fewer optimisations, and no release of case118 moves by more than such a cut promises."""
    case = load_case("case118_ieee")
    model = build_model(case.network)
    backend = backend_for(model, "structured")
    target = Tolerance.parse("1%").around(solve_true(case, model, backend).cost, CostTargetMode.PUBLIC)
    noisy = [
        model.layout.to_program(simulate_laplace(case.values, epsilon=1.0, alpha=0.1, seed=seed).values)
        for seed in range(8)
    ]
    found = [solve_auto(backend, values, target) for values in noisy]
    repeated = [solve_auto(backend, values, target, AutoSettings(same_cut=0.0)) for values in noisy]
    assert sum(a.optimisations for a in found) <= sum(b.optimisations for b in repeated) - 3
    for once, again in zip(found, repeated, strict=True):
        assert once.delta == pytest.approx(again.delta, rel=1e-4, abs=1e-12)
