"""The cone relaxation of HPR: below the distance of every release, exact where it can be computed by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from closed_forms import band
from conftest import Matpower
from gridveil.bilevel.methods.algorithm1 import solve_bilevel
from gridveil.core.choices import DemandBounds
from gridveil.privacy.mechanisms.simulation import simulate_laplace
from gridveil.sectors.power import soc
from gridveil.sectors.power.soc import BoundStatus, soc_distance_bound
from gridveil.sectors.registry import build_model, load_case
from gridveil.solvers.ipopt import IpoptBackend
from gridveil.solvers.solves import Solves


def lossless(load_text, cost):
    """A source of at most 100 MW and one load behind a lossless line."""
    net = Matpower()
    net.add_bus(1, kind=3)
    net.add_bus(2, pd=50.0)
    net.add_gen(1, cost=cost, p=(0.0, 100.0))
    net.add_branch(1, 2, r=0.0, x=0.01)
    return load_text(net.text()).network.grid


FREE = np.full(2, np.inf)


@pytest.mark.parametrize(
    ("cost", "target", "noisy", "nearest"),
    [
        ((0.0, 10.0, 0.0), band(500.0, 20.0), 0.61, 0.52),  # cost at most 520
        ((0.0, 10.0, 0.0), band(500.0, 20.0), 0.41, 0.48),  # cost at least 480: the chord is the cost itself
        ((0.0, 10.0, 0.0), band(500.0, 20.0), 0.5, 0.5),
        ((0.2, 0.0, 0.0), band(500.0, 20.0), 0.61, math.sqrt(520 / 0.2) / 100),
        ((0.2, 0.0, 0.0), band(500.0, 20.0), 0.2, 0.24),  # the chord of 0.2p² over 0…100 MW is 20p
        ([(0.0, 0.0), (50.0, 500.0), (100.0, 1500.0)], band(600.0, 60.0), 0.7, 0.58),
        ([(0.0, 0.0), (50.0, 500.0), (100.0, 1500.0)], band(600.0, 60.0), 0.1, 0.36),
        ((0.0, 10.0, 300.0), band(500.0, 20.0), 0.41, 0.22),
    ],
)
@pytest.mark.parametrize("reactive", [0.0, -0.3])
def test_by_hand(load_text, cost, target, noisy, nearest, reactive):
    bound = soc_distance_bound(lossless(load_text, cost), np.array([noisy + 1j * reactive]), target, -FREE, FREE)
    assert bound.status is BoundStatus.SOLVED
    expected = (noisy - nearest) ** 2
    assert expected * (1 - 1e-5) - 1e-7 <= bound.value <= expected + 1e-12


def test_limits_on_demands_count(load_text):
    grid, lower = lossless(load_text, (0.0, 10.0, 0.0)), np.array([0.51, 0.2])
    bound = soc_distance_bound(grid, np.array([0.5 + 0.1j]), band(500.0, 20.0), lower, FREE)
    assert bound.value == pytest.approx(0.01**2 + 0.1**2, abs=1e-7)


def test_a_band_out_of_reach_is_proved(load_text):
    grid = lossless(load_text, (0.0, 10.0, 0.0))
    bound = soc_distance_bound(grid, np.array([0.5 + 0j]), band(2000.0, 20.0), np.zeros(2), np.ones(2))
    assert (bound.status, bound.value) == (BoundStatus.INFEASIBLE, math.inf)


@pytest.mark.parametrize("bounds", list(DemandBounds))
@pytest.mark.parametrize(
    ("name", "alpha"), [("veil9", 0.1), ("veil9", 0.5), ("case14_ieee", 0.05), ("case14_ieee", 0.3)]
)
def test_below_every_release(name, alpha, bounds):
    case = load_case(name)
    grid, model = case.network.grid, build_model(case.network, bounds=bounds)
    backend = IpoptBackend(model.program)
    truth = Solves(backend).afresh(model.layout.to_program(case.values.reveal()))
    target = band(truth.cost, 0.01 * truth.cost)
    shares = []
    for seed in range(6):
        noisy = simulate_laplace(case.values, epsilon=1.0, alpha=alpha, seed=seed).values
        result = solve_bilevel(backend, model.layout.to_program(noisy), target)
        sites = noisy[case.network.served]
        bound = soc_distance_bound(grid, sites, target, model.program.d_lower, model.program.d_upper)
        assert bound.status in (BoundStatus.SOLVED, BoundStatus.INACCURATE)
        if result.verified:
            assert bound.value <= result.delta + 1e-6
            assert bound.value <= result.highpoint.delta + 1e-6
            if result.highpoint.delta > 1e-3:
                shares.append(bound.value / result.highpoint.delta)
    assert not shares or max(shares) > 0.5  # a bound of nothing would be below too


def test_both_ends_of_the_band_are_needed(load_text, monkeypatch):
    """Without the chords the bound falls for a cost that is too low."""
    grid, noisy = lossless(load_text, (0.0, 10.0, 0.0)), np.array([0.41 + 0j])
    monkeypatch.setattr(soc, "constraint_cost_floor", lambda *arguments: None)
    assert soc_distance_bound(grid, noisy, band(500.0, 20.0), -FREE, FREE).value == pytest.approx(0.0, abs=1e-7)
