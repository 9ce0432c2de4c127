"""The exact baseline against closed forms and brute force, and what it does when a part of it lies."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from test_failures import congested_triangle

from closed_forms import band
from conftest import Matpower
from gridveil.bilevel.methods.algorithm1 import solve_bilevel
from gridveil.bilevel.methods.settings import BisectionSettings
from gridveil.core.errors import InputError
from gridveil.programs import Follower, Status
from gridveil.sectors.power.case import power_case
from gridveil.sectors.power.dcopf import dc_opf
from gridveil.sectors.power.network import PowerNetwork
from gridveil.sectors.power.read import read_power_file
from gridveil.solvers.ipopt import IpoptBackend
from gridveil.solvers.solves import Solves
from linear_oracle import linear_optimum

pytest.importorskip("pyscipopt")
pytest.importorskip("clarabel")

from gridveil.bilevel import exact_dc_programs
from gridveil.bilevel.exact_dc import ExactStatus, exact_bilevel_dc

SECONDS = 600.0
ETA = 1e-5
CLOSE = 2e-5  # relative on δ: the point is aimed 1e-6 β inside the band


@pytest.fixture(scope="module")
def network_of(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cases")

    def build(net: Matpower) -> PowerNetwork:
        path = folder / "tiny.m"
        path.write_text(net.text())
        return power_case("tiny", read_power_file(path)).network

    return build


def star(costs, loads: int, p=(0.0, 1000.0)) -> Matpower:
    """Generators at bus 1, loads around it, no limit in between: O depends on the total alone."""
    net = Matpower()
    net.add_bus(1, kind=3)
    for cost in costs:
        net.add_gen(1, p=p, cost=cost)
    for k in range(loads):
        net.add_bus(2 + k, pd=10.0)
        net.add_branch(1, 2 + k)
    return net


# Total demand s per unit on 100 MVA; O(s) by hand.
TOTALS = {
    "linear": ([(10.0, 0.0)], lambda s: 1000 * s),
    "quadratic": ([(0.05, 10.0, 7.0)], lambda s: 500 * s**2 + 1000 * s + 7),
    "two quadratic": ([(0.1, 10.0, 0.0)] * 2, lambda s: 500 * s**2 + 1000 * s),
    "piecewise": ([[(0.0, 0.0), (50.0, 500.0), (200.0, 3500.0)]], lambda s: max(1000 * s, 2000 * s - 500)),
}


@pytest.mark.parametrize("kind", TOTALS)
@pytest.mark.parametrize("noisy", [[0.1, 0.35], [0.7, 0.9], [-0.2, 0.4], [0.301, 0.3]])
def test_only_the_total_counts(kind, noisy, network_of):
    costs, optimum = TOTALS[kind]
    noisy, truth = np.array(noisy), 0.6
    target = band(optimum(truth), 0.02 * optimum(truth))
    result = exact_bilevel_dc(network_of(star(costs, 2)), noisy, target, time_limit=SECONDS)
    edges = [
        brentq(lambda s, edge=edge: optimum(s) - edge, 0.0, 2.0, xtol=1e-14) for edge in (target.lower, target.upper)
    ]
    nearest = np.clip(noisy.sum(), *edges)
    expected = (nearest - noisy.sum()) ** 2 / 2
    assert result.status is ExactStatus.OPTIMAL
    assert np.sqrt(result.delta) == pytest.approx(np.sqrt(expected), abs=1e-6, rel=CLOSE)
    assert result.bound <= expected * (1 + 1e-6) + 1e-9
    assert target.contains(optimum(result.d.sum()))
    assert result.convex == (noisy.sum() >= edges[0])


def test_data_in_the_band_are_returned_exactly(network_of):
    noisy = np.array([0.31, 0.3])
    result = exact_bilevel_dc(network_of(star([(10.0, 0.0)], 2)), noisy, band(600.0, 12.0), time_limit=SECONDS)
    assert result.status is ExactStatus.OPTIMAL and result.delta == 0 == result.gap
    assert result.d.tobytes() == noisy.tobytes()


def two_planes(d: np.ndarray) -> np.ndarray:
    """Cost of the congested triangle, d = (d2, d3): line 2-3 carries (d3 − g3 − d2)/3 ≤ 0.1, so g3 ≥ d3 − d2 − 0.3."""
    return np.maximum(1000 * (d[..., 0] + d[..., 1]), 4000 * d[..., 1] - 2000 * d[..., 0] - 900)


@pytest.mark.parametrize(
    ("noisy", "planes"),
    [
        ([0.05, 0.80], "congested"),  # the price at bus 2 is negative: demand there has to fall
        ([0.90, 1.00], "congested"),  # at d̃ no line is congested: the nearest answer lies on the other plane
        ([1.25, 1.20], "free"),
        ([1.30, 1.05], "free"),
    ],
)
def test_prices_that_change_sign(noisy, planes, network_of):
    """O = max of two planes, so δ is the smaller distance from d̃ to {plane ≥ L}; the feet lie inside the domain."""
    noisy, target = np.array(noisy), band(2600.0, 26.0)
    missing_free = target.lower - 1000 * noisy.sum()
    missing_congested = target.lower - (4000 * noisy[1] - 2000 * noisy[0] - 900)
    normals = {"free": np.array([1000.0, 1000.0]), "congested": np.array([-2000.0, 4000.0])}
    feet = {
        name: noisy + missing * normals[name] / (normals[name] @ normals[name])
        for name, missing in (("free", missing_free), ("congested", missing_congested))
    }
    distances = {name: np.sum((foot - noisy) ** 2) for name, foot in feet.items()}
    assert min(distances, key=distances.get) == planes
    assert two_planes(feet[planes]) == pytest.approx(target.lower)
    result = exact_bilevel_dc(network_of(congested_triangle(1)), noisy, target, time_limit=SECONDS)
    assert result.status is ExactStatus.OPTIMAL and not result.convex
    assert result.delta == pytest.approx(distances[planes], rel=CLOSE)
    assert result.d == pytest.approx(feet[planes], abs=1e-5)
    assert target.contains(two_planes(result.d))


def curved_triangle() -> Matpower:
    """The congested triangle with quadratic costs."""
    net = congested_triangle(1)
    net.gencost = [[2, 0, 0, 3, 0.02, 10.0, 0.0], [2, 0, 0, 3, 0.1, 40.0, 5.0]]
    return net


def curved_optimum(d2: np.ndarray, d3: np.ndarray) -> np.ndarray:
    """O of the curved triangle: one unknown g3, its stationary point clipped to its limits; inf outside the domain."""
    low = np.maximum(0.0, d3 - d2 - 0.3)
    high = np.minimum(np.minimum(d3 - d2 + 0.3, d2 + d3), 10.0)
    total = d2 + d3
    g3 = np.clip((2 * 200 * total + 1000 - 4000) / (2 * (200 + 1000)), low, np.maximum(low, high))
    g1 = total - g3
    cost = 200 * g1**2 + 1000 * g1 + 1000 * g3**2 + 4000 * g3 + 5
    return np.where((low <= high) & (g1 <= 10.0), cost, np.inf)


@settings(max_examples=12, deadline=None)
@given(
    noisy=st.tuples(st.floats(-0.3, 1.6), st.floats(0.0, 1.6)), truth=st.tuples(st.floats(0.0, 1.0), st.floats(0.7, 1.2))
)  # fmt: skip
def test_brute_force_over_a_grid(network_of, noisy, truth):
    noisy, at_truth = np.array(noisy), float(curved_optimum(*np.array(truth)))
    target = band(at_truth, 0.01 * at_truth)
    result = exact_bilevel_dc(network_of(curved_triangle()), noisy, target, time_limit=SECONDS)
    reach, points = 1.5, 2401
    shift = np.linspace(-reach, reach, points)
    u2, u3 = np.meshgrid(shift, shift, indexing="ij")
    costs = curved_optimum(noisy[0] + u2, noisy[1] + u3)
    brute = float(np.min((u2**2 + u3**2)[(costs >= target.lower) & (costs <= target.upper)]))
    step = shift[1] - shift[0]
    assert result.status is ExactStatus.OPTIMAL, result
    assert target.contains(float(curved_optimum(*result.d)))
    assert result.bound <= brute + 1e-9
    assert np.sqrt(brute) - 2 * step <= np.sqrt(result.delta) <= np.sqrt(brute) + 1e-6


def random_net(rng: np.random.Generator, linear: bool) -> Matpower:
    """A ring with a chord, tight lines and mixed costs."""
    net, n = Matpower(), int(rng.integers(3, 6))
    for bus in range(1, n + 1):
        net.add_bus(bus, kind=3 if bus == 1 else 1, pd=float(rng.uniform(20, 90)))
    for k in range(3):
        slope = float(rng.uniform(5, 60))
        curve = (0.0 if linear else float(rng.uniform(0, 0.2)), slope, 0.0)
        steps = [(0.0, 0.0), (60.0, 60 * slope), (400.0, 60 * slope + 340 * 1.7 * slope)]
        net.add_gen(int(rng.integers(1, n + 1)), p=(0.0, 300.0), cost=steps if k == 2 else curve)
    for i in range(n):
        net.add_branch(i + 1, (i + 1) % n + 1, x=float(rng.uniform(0.05, 0.3)), rate=float(rng.uniform(60, 120)))
    net.add_branch(1, 3, x=0.1, rate=60.0)
    return net


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), linear=st.booleans())
@example(seed=35, linear=False)  # with no slack in the rows' reach, rounding cut the answer off
@example(seed=93, linear=False)  # with levels in $/h, their multipliers drowned in SCIP's tolerance
def test_never_farther_than_algorithm_1_nor_than_any_sample(network_of, seed, linear):
    rng = np.random.default_rng(seed)
    network = network_of(random_net(rng, linear))
    backend = IpoptBackend(dc_opf(network))
    truth = rng.uniform(0.2, 0.9, backend.program.n_d)
    at_truth = Solves(backend).afresh(truth)
    if not at_truth.converged:
        return
    noisy = truth + rng.laplace(0, 0.2, len(truth))
    target = band(at_truth.cost, 0.01 * at_truth.cost)
    exact = exact_bilevel_dc(network, noisy, target, time_limit=SECONDS)
    assert exact.status is ExactStatus.OPTIMAL, exact
    assert target.contains(Follower(backend.program).solve(exact.d).cost)
    assert exact.delta == pytest.approx(np.sum((exact.d - noisy) ** 2))
    if linear:
        nearly = replace(target, beta=target.beta + 1e-7 * at_truth.cost)
        assert nearly.contains(linear_optimum(backend.program, exact.d))
    assert exact.delta <= np.sum((truth - noisy) ** 2) + 1e-9
    paper = solve_bilevel(backend, noisy, target, BisectionSettings(eta=ETA))
    if paper.verified:
        assert exact.delta <= paper.delta + ETA
        assert exact.bound <= paper.delta + 1e-9
    for _ in range(40 if exact.delta > 0 else 0):
        direction = rng.normal(size=len(truth))
        d = noisy + np.sqrt(exact.delta) * rng.uniform(0.5, 0.999) * direction / np.linalg.norm(direction)
        nearer = backend.dispatch(d)
        assert not (nearer.converged and target.contains(nearer.cost))


def test_no_demands_in_the_band(network_of):
    cheap = network_of(star([(10.0, 0.0)], 2, p=(0.0, 100.0)))
    below = exact_bilevel_dc(cheap, np.array([0.2, 0.3]), band(-500.0, 10.0), time_limit=SECONDS)
    assert below.status is ExactStatus.INFEASIBLE and below.d is None and np.isnan(below.gap)
    above = exact_bilevel_dc(cheap, np.array([0.2, 0.3]), band(2000.0, 10.0), time_limit=SECONDS)
    assert above.status is ExactStatus.NO_POINT and above.d is None
    assert above.bound > 100


def misled(network_of):
    """The tangent at d̃ leads to the farther plane: only branch and bound finds the nearer one."""
    noisy, target = np.array([0.90, 1.00]), band(2600.0, 26.0)
    return network_of(congested_triangle(1)), noisy, target, np.sum(noisy) - target.lower / 1000


def test_out_of_time_claims_nothing(network_of):
    network, noisy, target, overshoot = misled(network_of)
    result = exact_bilevel_dc(network, noisy, target, time_limit=0.0)
    assert result.status is ExactStatus.FEASIBLE
    assert result.delta == pytest.approx(overshoot**2 / 2, rel=CLOSE)
    assert result.gap > 0.9


def test_saboteur_optimality_conditions_without_complementarity(network_of, monkeypatch):
    def loose(model, slack, largest):
        model.addCons(slack >= 0)
        return model.addVar(lb=0.0, ub=None)

    monkeypatch.setattr(exact_dc_programs, "_complementary", loose)
    result = exact_bilevel_dc(*misled(network_of)[:3], time_limit=SECONDS)
    assert result.status is ExactStatus.FEASIBLE and result.gap > 0.9


def test_saboteur_rows_wrongly_out_of_reach(network_of, monkeypatch):
    """Without any multiplier nothing is optimal, so the ball would be empty: but a verified point is known in it."""
    reach = exact_dc_programs.QuadraticFollower.reach

    def nothing(self, **options):
        low, high = reach(self, **options)
        return np.where(np.isfinite(low), self.lower + 1e-3, low), np.where(np.isfinite(high), self.upper - 1e-3, high)

    monkeypatch.setattr(exact_dc_programs.QuadraticFollower, "reach", nothing)
    result = exact_bilevel_dc(*misled(network_of)[:3], time_limit=SECONDS)
    assert result.status is ExactStatus.CONTRADICTION and result.d is None


@pytest.mark.parametrize("start", [[0.9, 1.0], [1.5, 1.5]])
def test_saboteur_follower_that_never_converges(start, network_of, monkeypatch):
    honest = Solves.afresh
    monkeypatch.setattr(Solves, "afresh", lambda self, d: replace(honest(self, d), status=Status.ITERATION_LIMIT))
    network, _, target, _ = misled(network_of)
    result = exact_bilevel_dc(network, np.array(start), target, time_limit=SECONDS)
    assert result.status is ExactStatus.NO_POINT and result.d is None and np.isnan(result.cost)


def test_what_cannot_be_solved_exactly_is_refused(network_of):
    with pytest.raises(InputError, match="linear, convex quadratic or piecewise"):
        exact_bilevel_dc(network_of(star([(-0.1, 20.0, 0.0)], 1)), np.ones(1), band(1.0, 1.0), time_limit=1.0)
    with pytest.raises(InputError, match="piecewise"):
        exact_bilevel_dc(network_of(star([(0.1, 0.0, 1.0, 0.0)], 1)), np.ones(1), band(1.0, 1.0), time_limit=1.0)
    with pytest.raises(InputError, match="2 load sites"):
        exact_bilevel_dc(network_of(star([(10.0, 0.0)], 2)), np.ones(3), band(1.0, 1.0), time_limit=1.0)
