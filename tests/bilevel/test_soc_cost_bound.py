"""The cone relaxation of AC-OPF: published gaps, closed forms, and that it really is a relaxation and its bound safe."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from conftest import Matpower, nesta
from feature_net import feature_net
from gridveil.core.errors import InputError
from gridveil.programs import Follower
from gridveil.sectors.power import soc_model
from gridveil.sectors.power.soc import BoundStatus, cost_program, soc_lower_bound
from gridveil.sectors.power.soc_costs import convex_costs
from gridveil.sectors.registry import build_model, load_case
from references import nesta_optima, pglib_baseline

GAPS = [
    "case3_lmbd", "case5_pjm", "case14_ieee", "case24_ieee_rts", "case30_as", "case30_ieee", "case39_epri", "case57_ieee",
    "case89_pegase", "case118_ieee", "case300_ieee", "case3_lmbd__api", "case30_ieee__api", "case118_ieee__api",
    "case3_lmbd__sad", "case5_pjm__sad", "case14_ieee__sad", "case30_as__sad", "case118_ieee__sad",
]  # fmt: skip
EXAMPLES = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@cache
def grid_and_demand(name: str):
    case = load_case(name)
    return case.network.grid, case.values.reveal()[case.network.served]


def gap_error(name: str) -> float:
    """Our gap less the published one, in percentage points; infinite without a bound."""
    bound = soc_lower_bound(*grid_and_demand(name))
    _, _, ac, published = pglib_baseline()[name]
    return math.inf if bound.value is None else 100 * (1 - bound.value / ac) - published


@pytest.mark.parametrize("name", GAPS)
def test_published_gaps(name):
    assert abs(gap_error(name)) <= 0.02


FAMILIES = [
    "constraint_voltage_limits", "constraint_voltage_product", "constraint_angle_difference", "constraint_lifted_cuts",
    "constraint_power_balance", "constraint_thermal_limit", "constraint_powers",
]  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_no_family_can_be_left_out(monkeypatch, family):
    """The published gaps tell each family of constraints from nothing."""
    monkeypatch.setattr(soc_model, family, lambda *arguments: None)
    cases = ["case3_lmbd", "case5_pjm", "case30_ieee", "case5_pjm__sad", "case30_as__sad"]
    assert max(abs(gap_error(name)) for name in cases) > 0.05


def embed(grid, x, scale):
    """The AC point in the variables of the relaxation, written down independently of the model."""
    n, n_gen = grid.n_bus, len(grid.generator.bus)
    voltage, p = x[n : 2 * n] * np.exp(1j * x[:n]), x[2 * n : 2 * n + n_gen]
    pairs = soc_model.bus_pairs(grid)
    v_i, v_j = voltage[pairs.i] / pairs.ratio, voltage[pairs.j]
    cost = convex_costs(grid.generator.cost, grid.generator.p_min, grid.generator.p_max)
    level = np.full(len(cost.level_generator), -np.inf)
    np.maximum.at(level, cost.line_level, cost.line_slope * p[cost.line_generator] + cost.line_intercept)
    return np.concatenate(
        [
            np.abs(voltage) ** 2,
            np.abs(v_i - v_j) ** 2 / 2 / pairs.unit**2,
            (v_i * np.conj(v_j)).imag / pairs.unit,
            (np.abs(v_i) ** 2 - np.abs(v_j) ** 2) / 2 / pairs.unit,
            p,
            level / scale,
        ]
    )


def violation(program, x) -> float:
    """By how much a point misses the worst row or limit."""
    rows, layout = program.stacked()
    s = rows.matrix @ x + rows.constant
    start = layout.n_zero + layout.n_nonnegative
    worst = [np.abs(s[: layout.n_zero]), -s[layout.n_zero : start], program.lower - x, x - program.upper]
    for count, size in layout.families:
        block = s[start : start + count * size].reshape(count, size)
        worst.append(np.linalg.norm(block[:, 1:], axis=1) - block[:, 0])
        start += count * size
    return max(float(np.max(part, initial=0.0)) for part in worst)


def ac_optimum(case):
    model = build_model(case.network)
    return Follower(model.program).solve(model.layout.to_program(case.values.reveal()))


@EXAMPLES
@given(seed=st.integers(0, 10_000), curve=st.sampled_from(["quadratic", "pieces", "cubic", "concave"]))
def test_every_ac_point_is_in_the_relaxation_and_not_below_its_bound(load_text, seed, curve):
    case = load_text(feature_net(seed, curve=curve).text())
    grid, demand = case.network.grid, case.values.reveal()[case.network.served]
    bound = soc_lower_bound(grid, demand)
    ac = ac_optimum(case)
    assume(ac.converged)
    assert bound.value is not None and bound.value <= ac.cost * (1 + 1e-6)
    program, scale = cost_program(grid, demand)
    x = embed(grid, ac.x, scale)
    assert violation(program, x) <= 1e-4  # the local solver's own tolerance is 1e-6, in units of large admittances
    objective = 0.5 * program.quadratic @ x**2 + program.linear @ x + program.constant
    assert objective <= ac.cost * (1 + 1e-6)
    if curve in ("quadratic", "pieces"):
        assert objective == pytest.approx(ac.cost, rel=1e-5)
    # multipliers out of thin air give a poor bound, never a wrong one
    rows, layout = program.stacked()
    z = layout.into_dual_cone(np.random.default_rng(seed).normal(0, 1000, len(rows.constant)))
    assert program.safe_value(rows, z) <= ac.cost


@pytest.mark.parametrize("name", ["case14_ieee", "case57_ieee", "case118_ieee", "case300_ieee"])
def test_published_networks_are_in_their_relaxation(name):
    case = load_case(name)
    program, scale = cost_program(*grid_and_demand(name))
    assert violation(program, embed(case.network.grid, ac_optimum(case).x, scale)) <= 1e-4


@pytest.mark.nesta
@pytest.mark.parametrize("name", ["case30_fsr", "case162_ieee_dtc", "case189_edin", "case240_wecc", "case1394sop_eir"])
def test_nesta(name):
    """Negative loads and reactances, isolated buses: below the known optimum, and not by more than relaxations are."""
    bound = soc_lower_bound(*grid_and_demand(str(nesta(name))))
    assert bound.status is BoundStatus.SOLVED
    assert 0.9 * nesta_optima()[name] <= bound.value <= nesta_optima()[name] * (1 + 1e-4)


@pytest.mark.parametrize("cost", [(0.0, 10.0, 7.0), (0.5, 10.0, 7.0), [(0.0, 7.0), (20.0, 207.0), (500.0, 15000.0)]])
@pytest.mark.parametrize(
    ("r", "base", "p_max"), [(0.05, 100.0, math.inf), (0.001, 100.0, 500.0), (0.05, 1.0, math.inf)]
)
def test_two_buses(load_text, cost, r, base, p_max):
    """A resistor between a source held at 1.1 by the cost of losses and a load P: V₂ solves V₂² − 1.1V₂ + rP = 0."""
    net = Matpower(base=base)
    net.add_bus(1, kind=3)
    net.add_bus(2, pd=0.8 * base)
    net.add_gen(1, cost=cost, p=(0.0, p_max))
    net.add_branch(1, 2, r=r, x=0.0)
    v_2 = (1.1 + math.sqrt(1.1**2 - 4 * r * 0.8)) / 2
    mw = base * (0.8 + r * (0.8 / v_2) ** 2)
    expected = (
        float(np.polyval(cost, mw)) if isinstance(cost, tuple) else max(7 + 10 * mw, 207 + (mw - 20) * 14793 / 480)
    )
    case = load_text(net.text())
    bound = soc_lower_bound(case.network.grid, case.values.reveal())
    assert bound.status is BoundStatus.SOLVED
    assert expected * (1 - 1e-6) <= bound.value <= expected * (1 + 1e-12)


def test_too_large_a_load_is_proved_infeasible(load_text):
    net = Matpower()
    net.add_bus(1, kind=3)
    net.add_bus(2, pd=50.0)
    net.add_gen(1, p=(0.0, 40.0))
    net.add_branch(1, 2, r=0.01, x=0.1)
    case = load_text(net.text())
    bound = soc_lower_bound(case.network.grid, case.values.reveal())
    assert (bound.status, bound.value) == (BoundStatus.INFEASIBLE, math.inf)


def test_demands_must_fit_the_sites():
    grid, demand = grid_and_demand("veil9")
    with pytest.raises(InputError, match="served load site"):
        soc_lower_bound(grid, demand[1:])
