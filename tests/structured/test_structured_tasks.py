"""High-point relaxation, push and cut by the structured solver, against Ipopt and closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structured_cases import dispatch_of, family, program_of, solve_by_ipopt

from gridveil.sectors.power.arrays import structured_arrays
from gridveil.sectors.registry import load_case
from gridveil.solvers.structured import Cut, DemandBox, Nearest, Push, StructuredSolver


class Setting:
    """A network, its optimum, a noisy target and a cost band of one per cent."""

    def __init__(self, case, noise: float, seed: int = 0) -> None:
        self.program, d = program_of(case)
        self.solver = StructuredSolver(structured_arrays(case.network))
        self.base = self.solver.solve(dispatch_of(d))
        assert self.base.converged
        target = d + noise * np.random.default_rng(seed).standard_normal(len(d))
        half = len(d) // 2
        self.where = {"target_p": target[:half], "target_q": target[half:]}
        self.band = {"cost_low": 0.99 * self.base.cost, "cost_high": 1.01 * self.base.cost}

    def nearest(self, **more) -> Nearest:
        return Nearest(**self.where, **self.band, **more)

    def push(self, delta: float, **more) -> Push:
        return Push(**self.where, **self.band, delta=delta, **more)


@pytest.fixture(scope="module", params=["veil9", "case14_ieee", "case30_ieee", "case118_ieee"])
def setting(request) -> Setting:
    return Setting(load_case(request.param), noise=0.1)


def agree(found, reference: tuple[float, np.ndarray]) -> None:
    assert found.converged
    assert found.objective == pytest.approx(reference[0], rel=1e-5, abs=2e-6)
    assert np.concatenate([found.demand_p, found.demand_q]) == pytest.approx(reference[1], abs=2e-3)


def test_nearest_is_that_of_ipopt(setting):
    task = setting.nearest()
    agree(setting.solver.solve(task), solve_by_ipopt(setting.program, task, setting.program.x_start))


def test_push_is_that_of_ipopt(setting):
    task = setting.push(delta=1.2 * setting.solver.solve(setting.nearest()).objective + 0.01)
    agree(setting.solver.solve(task), solve_by_ipopt(setting.program, task, setting.program.x_start))


def test_cut_is_that_of_ipopt(setting):
    """A cut that asks the nearest point to move back by half a per cent of the cost."""
    near = setting.solver.solve(setting.nearest())
    there = setting.solver.solve(dispatch_of(np.concatenate([near.demand_p, near.demand_q])))
    back = 1.0 if near.cost < setting.base.cost else -1.0
    weight_p, weight_q = back * there.site_price_p, back * there.site_price_q
    reached = float(weight_p @ near.demand_p + weight_q @ near.demand_q)
    task = setting.nearest(cut=Cut(weight_p=weight_p, weight_q=weight_q, least=reached + 0.005 * setting.base.cost))
    found = setting.solver.solve(task)
    agree(found, solve_by_ipopt(setting.program, task, setting.program.x_start))
    assert abs(found.multipliers.rows["cut"]) > 1e-9


def test_box_is_that_of_ipopt(setting):
    p, q = setting.where["target_p"], setting.where["target_q"]
    box = DemandBox(p_low=p - 0.05, p_high=p + 0.02, q_low=q - 0.04, q_high=np.full(len(q), np.inf))
    task = setting.push(delta=0.05, box=box)
    if not setting.solver.solve(setting.nearest(box=box)).converged:
        pytest.skip("the box holds no demand within the band")
    found = setting.solver.solve(task)
    assert found.converged
    # Where the box binds before the ball, reactive demands are not unique: only the total counts.
    reference = solve_by_ipopt(setting.program, task, setting.program.x_start)[0]
    assert found.objective == pytest.approx(reference, rel=1e-5, abs=1e-5)


NETWORKS = ["flow limit", "piecewise-linear cost", "islands", "two references"]
ELEMENTS = [
    "DC line",
    "DC lines of all kinds",
    "reactive cost",
    "compensator",
    "limits on power and current",
    "storage",
]


@pytest.mark.parametrize("name", NETWORKS + ELEMENTS)
def test_families_under_a_band(name, load_text):
    setting = Setting(load_text(family(name).text()), noise=0.2, seed=3)
    task = setting.nearest()
    agree(setting.solver.solve(task), solve_by_ipopt(setting.program, task, setting.program.x_start))


@settings(max_examples=15, deadline=None)
@given(delta=st.floats(1e-6, 1e-2), seed=st.integers(0, 99))
def test_push_with_a_wide_band_shares_equally(delta, seed):
    """Where neither band nor network binds, every active load rises by √(δ/D) and no reactive one moves."""
    setting = Setting(load_case("veil9"), noise=0.001, seed=seed)
    setting.band = {"cost_low": 0.5 * setting.base.cost, "cost_high": 2.0 * setting.base.cost}
    found = setting.solver.solve(setting.push(delta=delta))
    assert found.converged
    target_p, target_q = setting.where["target_p"], setting.where["target_q"]
    assert found.demand_p - target_p == pytest.approx(np.full(len(target_p), np.sqrt(delta / len(target_p))), rel=1e-3)
    assert found.demand_q == pytest.approx(target_q, abs=1e-5)


def test_target_inside_the_band_is_kept():
    setting = Setting(load_case("case14_ieee"), noise=0.0)
    found = setting.solver.solve(setting.nearest())
    assert found.converged
    assert found.objective <= 1e-8


def test_warm_starts_between_tasks_change_nothing_but_the_work(setting):
    near = setting.solver.solve(setting.nearest())
    again = setting.solver.solve(setting.nearest(), warm=near.warm)
    assert again.converged and again.iterations < near.iterations
    assert again.objective == pytest.approx(near.objective, rel=1e-5, abs=1e-7)
    task = setting.push(delta=1.2 * near.objective + 0.01)
    cold, warm = setting.solver.solve(task), setting.solver.solve(task, warm=near.warm)
    assert warm.converged
    assert warm.objective == pytest.approx(cold.objective, rel=1e-5, abs=1e-6)
