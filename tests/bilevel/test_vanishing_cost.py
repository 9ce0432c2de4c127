"""Where pushing the proxy leads nowhere: public data as anchors, several optima, and costs with kinks."""

from __future__ import annotations

from dataclasses import replace

import casadi as ca
import numpy as np
import pytest

from closed_forms import band
from conftest import data_folder
from gridveil.bilevel.methods.algorithm1 import solve_bilevel
from gridveil.bilevel.methods.auto import solve_auto
from gridveil.bilevel.result import Ending, StepKind
from gridveil.core.band import Tolerance
from gridveil.core.choices import CostTargetMode
from gridveil.core.errors import InputError
from gridveil.core.methods import Method
from gridveil.privacy.curator import published_values
from gridveil.privacy.mechanisms.simulation import simulate_laplace
from gridveil.programs import ParametricProgram
from gridveil.sectors.gas.boundary import preset_boundary
from gridveil.sectors.registry import build_model, load_case
from gridveil.solvers.backend import Effort, Start
from gridveil.solvers.ipopt import IpoptBackend
from gridveil.solvers.solves import Solves
from gridveil.study.trial import noise_stream

TYPICAL = np.array([1.0, 0.0])


def difference(**more) -> ParametricProgram:
    """O = max(0, d₀ − d₁ − 1): the proxy d₀ + d₁ says nothing about it, and around zero all prices vanish."""
    x, d = ca.MX.sym("x"), ca.MX.sym("d", 2)
    return ParametricProgram(
        name="difference", x=x, d=d, cost=x, g=x - d[0] + d[1], g_lower=[-1.0], g_upper=[np.inf], x_lower=[0.0],
        x_upper=[np.inf], x_start=[1.0], **more,
    )  # fmt: skip


@pytest.mark.parametrize("method", [solve_auto, solve_bilevel])
def test_public_data_lead_into_the_band_where_pushes_do_not(method):
    noisy, target = np.array([0.2, 0.4]), band(3.0, 0.03)
    without = method(IpoptBackend(difference()), noisy, target)
    assert without.ending is Ending.NO_BRACKET and without.d is None
    found = method(IpoptBackend(difference(typical=TYPICAL)), noisy, target)
    assert found.verified and target.contains(max(0.0, found.d[0] - found.d[1] - 1.0))
    nearest = (1.0 + 2.97 - (0.2 - 0.4)) ** 2 / 2  # distance to the line d₀ − d₁ = 1 + 2.97
    assert nearest <= found.delta + 1e-6
    if method is solve_auto:
        assert found.delta == pytest.approx(nearest, rel=1e-3)
    else:
        assert found.ending is Ending.ANCHORED
    assert any(step.kind is StepKind.ANCHOR for step in found.history)


def test_typical_data_that_never_cost_enough_give_no_release():
    found = solve_auto(IpoptBackend(difference(typical=np.array([0.0, 1.0]))), np.array([0.2, 0.4]), band(3.0, 0.03))
    assert found.ending is Ending.NO_BRACKET and found.d is None


def two_wells(**more) -> ParametricProgram:
    """O(d) = d + 1.695: from x near 1 a local solver ends at d + 2.295 instead."""
    x, d = ca.MX.sym("x"), ca.MX.sym("d")
    cost = (x**2 - 1) ** 2 + 0.3 * x + 2 + d
    return ParametricProgram(
        name="two wells", x=x, d=d, cost=cost, g=d, g_lower=[-np.inf], g_upper=[np.inf], x_lower=[-2.0], x_upper=[2.0],
        x_start=[0.96], **more,
    )  # fmt: skip


def test_every_start_of_the_program_takes_part_in_a_verification():
    noisy, target = np.array([0.0]), band(2.3, 0.05)
    misled = solve_auto(IpoptBackend(two_wells()), noisy, target)
    assert misled.verified and misled.d[0] == pytest.approx(0.0, abs=0.1)  # the dear optimum passes for the only one
    found = solve_auto(IpoptBackend(two_wells(starts=(np.array([-1.0]),))), noisy, target)
    assert found.verified and found.cost == pytest.approx(found.d[0] + 1.695, abs=0.01)
    assert found.d[0] == pytest.approx(2.3 - 1.695, abs=0.06)


def test_another_way_is_the_smoothed_cost_in_joint_problems_alone():
    """The smoothed cost is dearer by 1 here: the nearest data that cost 3 ± 0.1 by it cost 2 ± 0.1; f(x) is exact."""
    program = difference(smoothed_cost=None)
    backend = IpoptBackend(replace(program, smoothed_cost=program.cost + 1))
    noisy, start, target = np.array([5.0, 0.0]), Start(np.array([1.0]), np.array([5.0, 0.0])), band(3.0, 0.1)
    usual = backend.nearest(noisy, target, start=start, effort=Effort.FULL)
    other = backend.nearest(noisy, target, start=start, effort=Effort.OTHERWISE)
    assert usual.converged and usual.cost == pytest.approx(3.1, abs=1e-4)
    assert other.converged and other.cost == pytest.approx(2.1, abs=1e-4)
    assert other.d[0] - other.d[1] - 1 == pytest.approx(2.1, abs=1e-4)
    assert backend.dispatch(other.d).cost == pytest.approx(2.1, abs=1e-5)


def test_a_program_refuses_starts_and_typical_data_of_the_wrong_size():
    with pytest.raises(InputError, match="starts"):
        difference(starts=(np.zeros(2),))
    with pytest.raises(InputError, match="typical"):
        difference(typical=np.zeros(3))
    with pytest.raises(InputError, match="smoothed_cost"):
        difference(smoothed_cost=ca.MX.sym("y", 2))


@pytest.mark.parametrize("method", list(Method))
@pytest.mark.parametrize(("alpha", "seed", "cause"), [(1.0, 133, "no high point"), (1.0, 100, "no bracket")])
def test_gas_releases_that_used_to_fail(method, alpha, seed, cause):
    """GasLib-40: Ipopt cycles at the kink of |q|; or all demands near the noisy ones cost nothing."""
    path = data_folder() / "gas" / "gaslib-40-E.m"
    if not path.exists():
        pytest.skip("needs gaslib-40-E.m from the folder named by GRIDVEIL_DATA")
    case = load_case(str(path), preset_boundary("gaslib-40"))
    backend = IpoptBackend(build_model(case.network).program)
    cost = Solves(backend).afresh(published_values(case)).cost
    target = Tolerance.parse("1%").around(cost, CostTargetMode.PUBLIC)
    noisy = simulate_laplace(case.values, epsilon=1.0, alpha=alpha, seed=noise_stream("gaslib-40", seed)).values
    solve = {Method.AUTO: solve_auto, Method.BISECTION: solve_bilevel}[method]
    found = solve(backend, noisy, target)
    assert found.verified, (cause, found.ending)
    assert target.contains(Solves(backend).afresh(found.d).cost)
