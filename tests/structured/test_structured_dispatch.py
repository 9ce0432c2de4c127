"""O(d) by the structured solver against Ipopt for every constraint family, and against published optima."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from structured_cases import FAMILIES, dispatch_of, family, program_of

from conftest import nesta
from gridveil.core.errors import InputError
from gridveil.programs import Follower
from gridveil.sectors.power.arrays import structured_arrays
from gridveil.sectors.registry import load_case
from gridveil.solvers.structured import Dispatch, SolveStatus, StructuredSolver
from gridveil.solvers.structured.lowering import cost_segments, ordered_grid
from gridveil.solvers.structured.settings import CHECK_TOLERANCE
from gridveil.solvers.structured.tasks import lower_dispatch, lower_task
from references import nesta_optima, pglib_baseline


@pytest.mark.parametrize("name", FAMILIES)
def test_cost_and_prices_are_those_of_ipopt(name, load_text):
    case = load_text(family(name).text())
    program, d = program_of(case)
    reference = Follower(program).solve(d)
    assert reference.converged
    found = StructuredSolver(structured_arrays(case.network)).solve(dispatch_of(d))
    assert found.converged
    assert found.cost == pytest.approx(reference.cost, rel=1e-6)
    prices = np.concatenate([found.site_price_p, found.site_price_q])
    assert prices == pytest.approx(reference.prices, rel=1e-3, abs=1e-2)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_dispatch_from_the_template_is_the_dispatch_itself(name, load_text):
    case = load_text(family(name).text())
    arrays, task = structured_arrays(case.network), dispatch_of(program_of(case)[1])
    grid, segments = ordered_grid(arrays), cost_segments(arrays)
    whole = lower_task(arrays, grid, segments, task)
    nothing = np.zeros(len(arrays.load_bus))
    idle = lower_task(arrays, grid, segments, Dispatch(demand_p=nothing, demand_q=nothing))
    quick = lower_dispatch(idle, grid.order.position[arrays.load_bus], task)
    for field, mine, theirs in zip(whole.data._fields, quick.data, whole.data, strict=True):
        assert mine == pytest.approx(theirs, rel=1e-15, abs=1e-15), field
    assert np.array_equal(quick.target_p, whole.target_p) and np.array_equal(quick.target_q, whole.target_q)
    assert np.array_equal(quick.free, whole.free) and np.array_equal(quick.start, whole.start)


@pytest.mark.parametrize("name", ["flow limit", "angle limit", "angle limit from below", "voltage limit"])
def test_the_family_binds(name, load_text):
    """Without this a family would test nothing: the limit must change the optimum."""
    costs = []
    for net in (family("plain"), family(name)):
        case = load_text(net.text())
        solution = StructuredSolver(structured_arrays(case.network)).solve(dispatch_of(program_of(case)[1]))
        assert solution.converged
        costs.append(solution.cost)
    assert costs[1] > costs[0] * (1 + 1e-6)


@pytest.mark.parametrize(
    "name", ["case3_lmbd", "case5_pjm", "case14_ieee", "case60_c", "case89_pegase", "case118_ieee", "case118_ieee__api",
             "case162_ieee_dtc__sad", "case300_ieee", "case1354_pegase", "case1888_rte", "case8387_pegase"],
)  # fmt: skip
def test_published_optimum(name):
    case = load_case(name)
    found = StructuredSolver(structured_arrays(case.network)).solve(dispatch_of(program_of(case)[1]))
    assert found.converged
    assert found.cost == pytest.approx(pglib_baseline()[name][2], rel=1e-4)
    assert found.residuals.largest <= CHECK_TOLERANCE


@pytest.mark.nesta
@pytest.mark.parametrize("name", ["29_edin", "189_edin", "240_wecc", "1394sop_eir"])
def test_published_nesta_optimum(name):
    case = load_case(str(nesta(f"case{name}")))
    found = StructuredSolver(structured_arrays(case.network)).solve(dispatch_of(program_of(case)[1]))
    assert found.converged
    assert found.cost == pytest.approx(nesta_optima()[f"case{name}"], rel=1e-4)


def test_prices_are_the_slope_of_the_optimum(load_text):
    case = load_text(family("flow limit").text())
    solver, d = StructuredSolver(structured_arrays(case.network)), program_of(case)[1]
    base = solver.solve(dispatch_of(d))
    prices = np.concatenate([base.site_price_p, base.site_price_q])
    step = 1e-3
    for k in range(len(d)):
        moved = np.eye(len(d))[k] * step
        rise = solver.solve(dispatch_of(d + moved)).cost - solver.solve(dispatch_of(d - moved)).cost
        assert rise / (2 * step) == pytest.approx(prices[k], rel=1e-3, abs=0.05)


def test_too_much_demand_is_called_infeasible(load_text):
    case = load_text(family("plain").text())
    found = StructuredSolver(structured_arrays(case.network)).solve(dispatch_of(5 * program_of(case)[1]))
    assert found.status is SolveStatus.INFEASIBLE


def test_warm_start_finds_the_same_optimum_sooner():
    case = load_case("case118_ieee")
    solver, d = StructuredSolver(structured_arrays(case.network)), program_of(case)[1]
    near = dispatch_of(1.01 * d)
    cold = solver.solve(near)
    warm = solver.solve(near, warm=solver.solve(dispatch_of(d)).warm)
    assert warm.converged
    assert warm.cost == pytest.approx(cold.cost, rel=1e-7)
    assert warm.iterations < cold.iterations


def test_a_branch_from_a_bus_to_itself_is_refused(load_text):
    arrays = structured_arrays(load_text(family("plain").text()).network)
    changed = {name: getattr(arrays, name) for name in arrays.__dataclass_fields__}
    changed["branch_to"] = arrays.branch_from.copy()
    with pytest.raises(InputError, match="itself"):
        type(arrays)(**changed)


def test_importing_does_not_load_the_compiler():
    code = "import sys, gridveil.solvers.structured; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_no_repr_shows_a_demand(load_text):
    case = load_text(family("plain").text())
    task = dispatch_of(np.array([0.4321, 0.8765, 0.1234, 0.5678]))
    found = StructuredSolver(structured_arrays(case.network)).solve(task)
    for thing in (task, found, found.warm, found.multipliers):
        assert "432" not in repr(thing)


@pytest.mark.parametrize(("name", "most"), [("case118_ieee", 15), ("case300_ieee", 23), ("case1354_pegase", 27)])
def test_predictor_corrector_and_recentring_save_iterations(name, most):
    """Without the first two it takes 20 and 38 on the small ones, without the last 33 on the large one."""
    case = load_case(name)
    solution = StructuredSolver(structured_arrays(case.network)).solve(dispatch_of(program_of(case)[1]))
    assert solution.converged and solution.iterations <= most
