"""AC and DC optima against published ones, prices against finite differences, points against independent physics."""

from __future__ import annotations

import numpy as np
import powerio
import pytest

from conftest import nesta
from gridveil.core.choices import Formulation
from gridveil.programs import Follower
from gridveil.sectors.builtin import resolve_case
from gridveil.sectors.registry import build_model, load_case
from linear_oracle import linear_optimum
from references import nesta_optima, pglib_baseline

SMALL = [name for name, (buses, *_) in pglib_baseline().items() if buses <= 300 and "__" not in name]
SMALL_NESTA = [
    "case14_ieee", "case24_ieee_rts", "case29_edin", "case30_as", "case30_fsr", "case30_ieee", "case39_epri", "case57_ieee",
    "case73_ieee_rts", "case89_pegase", "case118_ieee", "case162_ieee_dtc", "case189_edin", "case240_wecc", "case300_ieee",
    "case1394sop_eir",
]  # fmt: skip


def solve(source: str, formulation: Formulation):
    case = load_case(source)
    model = build_model(case.network, formulation)
    follower = Follower(model.program)
    d = model.layout.to_program(case.values.reveal())
    return case, follower, d, follower.solve(d)


@pytest.mark.parametrize("name", SMALL)
def test_pglib(name):
    _, dc, ac, _ = pglib_baseline()[name]
    solution = solve(name, Formulation.AC)[-1]
    assert solution.converged, solution.detail
    assert solution.cost == pytest.approx(ac, rel=1e-4)
    if dc is not None:
        assert solve(name, Formulation.DC)[-1].cost == pytest.approx(dc, rel=1e-4)


@pytest.mark.parametrize("name", ["case5_pjm", "case14_ieee", "case118_ieee", "case240_pserc"])
def test_dc_against_a_simplex_solver(name):
    """Linear costs: HiGHS must find the same optimum of the same program."""
    _, follower, d, solution = solve(name, Formulation.DC)
    assert solution.cost == pytest.approx(linear_optimum(follower.program, d), rel=1e-6)


@pytest.mark.nesta
@pytest.mark.parametrize("name", SMALL_NESTA)
def test_nesta(name):
    solution = solve(str(nesta(name)), Formulation.AC)[-1]
    assert solution.converged, solution.detail
    assert solution.cost == pytest.approx(nesta_optima()[name], rel=1e-4)


@pytest.mark.parametrize("name", ["case14_ieee", "case30_ieee", "case118_ieee"])
def test_prices_are_derivatives(name):
    """Central differences at the five largest prices, active and reactive, and at three random entries."""
    _, follower, d, solution = solve(name, Formulation.AC)
    rng = np.random.default_rng(7)
    scale = np.abs(solution.prices).max()
    for k in {*np.argsort(-np.abs(solution.prices))[:5], *rng.integers(0, len(d), 3)}:
        step = np.zeros_like(d)
        step[k] = 1e-3
        up, down = follower.solve(d + step, warm=solution), follower.solve(d - step, warm=solution)
        assert up.converged and down.converged
        assert (up.cost - down.cost) / 2e-3 == pytest.approx(solution.prices[k], rel=1e-4, abs=1e-4 * scale)


@pytest.mark.parametrize("name", ["case14_ieee", "case30_ieee", "case89_pegase", "case118_ieee", "case300_ieee"])
def test_points_obey_an_independent_network_matrix(name):
    """S = V·conj(Y V) with powerio's admittance matrix: taps, shifters, charging, shunts, parallel and reversed lines."""
    case, _, d, solution = solve(name, Formulation.AC)
    network, grid = case.network, case.network.grid
    n, n_gen, n_load = grid.n_bus, len(grid.generator.bus), len(grid.load_bus)
    assert n == len(network.bus.id)
    admittance = powerio.parse(str(resolve_case(name))).value.calc_admittance_matrix()
    angle, magnitude, p, q = np.split(solution.x[: 2 * n + 2 * n_gen], [n, 2 * n, 2 * n + n_gen])
    voltage = magnitude * np.exp(1j * angle)
    injection = np.zeros(n, dtype=complex)
    np.add.at(injection, grid.generator.bus, p + 1j * q)
    np.add.at(injection, grid.load_bus, -(d[:n_load] + 1j * d[n_load:]))
    assert np.abs(voltage * np.conj(admittance @ voltage) - injection).max() < 1e-6
