"""Batches by the native kernels against published optima, Ipopt and the structured solver, scenario by scenario."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields, replace

import numpy as np
import pytest
from batch_cases import batch_solver, halves, needs_compiler, network_of, shaken
from structured_cases import FAMILIES, family, program_of

from feature_net import feature_net
from gridveil.core.choices import BatchEngine
from gridveil.core.errors import InputError
from gridveil.programs import Follower
from gridveil.sectors.power.arrays import structured_arrays
from gridveil.solvers.batch import engine_native
from gridveil.solvers.batch.backends import batch_backend
from gridveil.solvers.batch.contract import BatchStatus, Scenarios
from gridveil.solvers.batch.device_kernels import missing_gpu
from gridveil.solvers.batch.draws import normal_rows, uniform_rows
from gridveil.solvers.batch.engine_native import NativeEngine
from gridveil.solvers.batch.leftovers import Leftovers, most_promising
from gridveil.solvers.batch.network import load_network, lower_network
from gridveil.solvers.batch.solver import BatchSolver
from gridveil.solvers.structured import Dispatch, StructuredSolver
from references import pglib_baseline

pytestmark = needs_compiler


def costs_one_by_one(arrays, scenarios: Scenarios) -> np.ndarray:
    solver = StructuredSolver(arrays)
    answers = [
        solver.solve(Dispatch(demand_p=p, demand_q=q))
        for p, q in zip(scenarios.demand_p, scenarios.demand_q, strict=True)
    ]
    assert all(answer.converged for answer in answers)
    return np.array([answer.cost for answer in answers])


UNKNOWN = {
    "DC line": "DC lines", "DC lines of all kinds": "DC lines", "reactive cost": "reactive costs",
    "compensator": "compensators", "compensator at a fixed voltage": "compensators", "current limit": "current limits",
    "limits on power and current": "current limits",
}  # fmt: skip


BOTH_FORMS = pytest.mark.parametrize("by_bus", [False, True], ids=["in vectors", "by bus"])


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_the_kernels_do_not_know_is_refused_by_name(name, load_text):
    arrays = structured_arrays(load_text(family(name).text()).network)
    with pytest.raises(InputError, match=f"do not know.*{UNKNOWN[name]}"):
        lower_network(arrays)


@pytest.mark.parametrize("name", [name for name in FAMILIES if name not in UNKNOWN])
def test_cost_and_prices_are_those_of_ipopt(name, load_text):
    case = load_text(family(name).text())
    program, d = program_of(case)
    reference = Follower(program).solve(d)
    arrays = structured_arrays(case.network)
    p, q = halves(case)
    found = batch_solver(lower_network(arrays)).dispatch(Scenarios(demand_p=p[None], demand_q=q[None]))
    assert found.converged.all()
    assert found.cost[0] == pytest.approx(reference.cost, rel=1e-6)
    prices = np.concatenate([found.points.price_p[0, arrays.load_bus], found.points.price_q[0, arrays.load_bus]])
    assert prices == pytest.approx(reference.prices, rel=1e-3, abs=1e-2)


@pytest.mark.parametrize("curve", ["quadratic", "pieces"])
def test_every_feature_at_once(curve, load_text):
    case = load_text(feature_net(5, curve=curve).text())
    arrays = structured_arrays(case.network)
    p, q = halves(case)
    scenarios = Scenarios(
        demand_p=np.linspace(0.8, 1.1, 7)[:, None] * p, demand_q=np.linspace(0.8, 1.1, 7)[:, None] * q
    )
    found = batch_solver(lower_network(arrays)).dispatch(scenarios)
    assert found.converged.all()
    assert found.cost == pytest.approx(costs_one_by_one(arrays, scenarios), rel=1e-7)


@BOTH_FORMS
@pytest.mark.parametrize("name", ["case3_lmbd", "case14_ieee", "case60_c", "case118_ieee__api", "case300_ieee"])
def test_published_optimum(name, by_bus):
    _, network, p, q = network_of(name)
    found = batch_solver(network, by_bus=by_bus).dispatch(Scenarios(demand_p=p[None], demand_q=q[None]))
    assert found.converged.all()
    assert found.cost[0] == pytest.approx(pglib_baseline()[name][2], rel=1e-4)


def test_hundreds_of_scenarios_cost_what_the_structured_solver_says():
    arrays, network, _, _ = network_of("case118_ieee")
    scenarios = shaken("case118_ieee", 150)
    found = batch_solver(network, tolerance=1e-6).dispatch(scenarios)
    assert found.converged.all() and not found.by_cpu.any()
    assert found.cost == pytest.approx(costs_one_by_one(arrays, scenarios), rel=1e-7)


@BOTH_FORMS
@pytest.mark.parametrize("name", ["case5_pjm", "case24_ieee_rts", "case57_ieee"])
def test_the_kernels_take_the_structured_solvers_path(name, by_bus):
    """The same iterations, scenario by scenario: a wrong second-order correction changes all of case5's, none six of case24's."""
    arrays, network, _, _ = network_of(name)
    scenarios = shaken(name, 60, spread=0.15)
    found = batch_solver(network, by_bus=by_bus).dispatch(scenarios, keep=False)
    solver = StructuredSolver(arrays)
    expected = [
        solver.solve(Dispatch(demand_p=p, demand_q=q), thorough=False).iterations
        for p, q in zip(scenarios.demand_p, scenarios.demand_q, strict=True)
    ]
    assert found.converged.all()
    assert np.sum(found.iterations == expected) >= 57  # all here; rounding may differ on another processor


class Lean(NativeEngine):
    """As if a GPU had no memory for second-order corrections and soft balances in its first run."""

    def is_short_of_memory(self, network, given) -> bool:
        return True


@BOTH_FORMS
@pytest.mark.parametrize("name, factor", [("case5_pjm", 1.0), ("case24_ieee_rts", 1.0), ("case57_ieee", 1.05)])
def test_lean_slots_end_where_full_ones_do(name, factor, by_bus):
    """Demands of case57 that nobody can serve fail in both."""
    _, network, _, _ = network_of(name)
    scenarios = shaken(name, 60, spread=0.15)
    scenarios = replace(scenarios, demand_p=factor * scenarios.demand_p, demand_q=factor * scenarios.demand_q)
    found = BatchSolver(network, Lean(threads=1), tolerance=1e-7).dispatch(scenarios)
    expected = batch_solver(network, by_bus=by_bus).dispatch(scenarios)
    assert np.array_equal(found.converged, expected.converged) and (factor > 1.0) == bool(np.any(~found.converged))
    both = found.converged
    assert found.cost[both] == pytest.approx(expected.cost[both], rel=1e-7)
    assert network.sizes(False, lean=True)["n_slot"] < 0.8 * network.sizes(False)["n_slot"]


def without_branch(arrays, branch: int):
    kept = np.arange(len(arrays.branch_from)) != branch
    names = ("branch_from", "branch_to", "y_ff", "y_ft", "y_tf", "y_tt", "rate", "current", "angle_min", "angle_max")
    return replace(arrays, **{name: getattr(arrays, name)[kept] for name in names})


def without_generator(arrays, generator: int):
    kept = np.arange(len(arrays.gen_bus)) != generator
    number = np.cumsum(kept) - 1
    mine = kept[arrays.line_output]
    return replace(
        arrays,
        **{name: getattr(arrays, name)[kept] for name in ("gen_bus", "p_min", "p_max", "q_min", "q_max")},
        **{name: getattr(arrays, name)[np.tile(kept, 2)] for name in ("cost_0", "cost_1", "cost_2")},
        **{name: getattr(arrays, name)[mine] for name in ("line_slope", "line_intercept")},
        line_output=number[arrays.line_output[mine]],
    )


@BOTH_FORMS
@pytest.mark.parametrize("curve", ["quadratic", "pieces"])
def test_an_outage_is_the_network_without_that_element(curve, load_text, by_bus):
    """One branch, one of three parallel branches that share a block, a transformer; one generator; both at once."""
    case = load_text(feature_net(5, curve=curve).text())
    arrays = structured_arrays(case.network)
    p, q = halves(case)
    branch_out = np.array([[0], [5], [6], [7], [1], [-1], [3]])
    gen_out = np.array([[-1], [-1], [-1], [-1], [-1], [1], [2]])
    scenarios = Scenarios(
        demand_p=np.tile(0.8 * p, (7, 1)), demand_q=np.tile(0.8 * q, (7, 1)), branch_out=branch_out, gen_out=gen_out
    )
    found = batch_solver(lower_network(arrays), by_bus=by_bus).dispatch(scenarios)
    assert found.converged.all()
    for s in range(7):
        changed = arrays if branch_out[s, 0] < 0 else without_branch(arrays, branch_out[s, 0])
        changed = changed if gen_out[s, 0] < 0 else without_generator(changed, gen_out[s, 0])
        one = scenarios.rows(slice(s, s + 1))
        assert found.cost[s] == pytest.approx(costs_one_by_one(changed, one)[0], rel=1e-7), s
    assert len(np.unique(np.round(found.cost, 3))) == 7  # every outage changes the optimum
    assert np.all(found.points.pg[5, 1] == 0.0) and np.all(found.points.flow_from[0, 0] == 0.0)


def _of_outputs(name: str, values):
    """Costs of active power, completed by free reactive power."""
    return np.concatenate([values, np.zeros(len(values))]) if name.startswith("cost") else values


@BOTH_FORMS
def test_two_outages_and_own_costs_and_limits(by_bus):
    arrays, network, p, q = network_of("case14_ieee")
    generator = np.random.default_rng(4)
    shape = (5, n_gen := len(arrays.gen_bus))
    own = {
        "cost_1": arrays.cost_1[:n_gen] * generator.uniform(0.5, 2.0, shape),
        "cost_2": arrays.cost_2[:n_gen] + generator.uniform(0.0, 50.0, shape),
        "p_max": arrays.p_max * generator.uniform(0.9, 1.0, shape),
        "q_max": arrays.q_max * generator.uniform(0.8, 1.0, shape),
    }
    own["q_max"][2, 0] = arrays.q_min[0]  # bounds that meet leave a constant
    out = np.array([[3, 12]] * 5)
    scenarios = Scenarios(demand_p=np.tile(p, (5, 1)), demand_q=np.tile(q, (5, 1)), branch_out=out, **own)
    found = batch_solver(network, by_bus=by_bus).dispatch(scenarios)
    assert found.converged.all()
    for s in range(5):
        changed = without_branch(without_branch(arrays, 12), 3)
        changed = replace(changed, **{name: _of_outputs(name, array[s]) for name, array in own.items()})
        assert found.cost[s] == pytest.approx(costs_one_by_one(changed, scenarios.rows(slice(s, s + 1)))[0], rel=1e-7)


def test_infeasible_scenarios_are_reported_and_confirmed():
    _, network, p, q = network_of("case14_ieee")
    factor = np.array([1.0, 5.0, 1.05, 20.0])[:, None]
    scenarios = Scenarios(demand_p=factor * p, demand_q=factor * q)
    doubted = batch_solver(network).dispatch(scenarios)
    assert doubted.converged.tolist() == [True, False, True, False]
    table = doubted.failures()
    assert table["scenario"].tolist() == [1, 3]
    assert set(table["status"]) <= {"UNBALANCED", "STALLED", "ITERATION_LIMIT", "NO_STEP"}
    confirmed = batch_solver(network, leftovers=Leftovers(network=network, most=10)).dispatch(scenarios)
    assert confirmed.status.tolist() == [0, BatchStatus.INFEASIBLE, 0, BatchStatus.INFEASIBLE]
    assert confirmed.by_cpu.tolist() == [False, True, False, True]
    limited = batch_solver(network, leftovers=Leftovers(network=network, most=1)).dispatch(scenarios)
    assert limited.by_cpu.tolist() == [False, True, False, False]


def test_scenarios_that_buy_power_are_tried_after_all_others():
    _, network, p, q = network_of("case14_ieee")
    factor = np.array([1.0, 5.0, 20.0, 1.05, 30.0, 40.0])[:, None]
    found = batch_solver(network).dispatch(Scenarios(demand_p=factor * p, demand_q=factor * q))
    bought, stuck = BatchStatus.UNBALANCED, BatchStatus.STALLED
    answer = replace(found, status=np.array([0, bought, stuck, 0, bought, stuck]))
    assert [most_promising(answer, most).tolist() for most in range(6)] == [
        [], [2], [2, 5], [1, 2, 5], [1, 2, 4, 5], [1, 2, 4, 5],
    ]  # fmt: skip
    tried = replace(answer, by_cpu=np.arange(6) == 2)
    assert most_promising(tried, 2).tolist() == [1, 5]


def test_what_the_kernels_leave_the_structured_solver_completes():
    """Kernels that may not iterate leave everything; the answers must be the same, outage and all."""
    arrays, network, _, _ = network_of("case14_ieee")
    scenarios = shaken("case14_ieee", 3, branch_out=np.array([[-1], [4], [-1]]), gen_out=np.array([[-1], [-1], [4]]))
    whole = batch_solver(network).dispatch(scenarios)
    assert whole.converged.all()
    hasty = batch_solver(network, soften=False, leftovers=Leftovers(network=network, most=3))
    hasty.options = replace(hasty.options, max_iterations=1)
    left = hasty.dispatch(scenarios)
    assert left.converged.all() and left.by_cpu.all()
    assert left.cost == pytest.approx(whole.cost, rel=1e-7)
    for f in fields(whole.points):
        scale = max(1.0, np.abs(getattr(whole.points, f.name)).max())
        assert getattr(left.points, f.name) == pytest.approx(getattr(whole.points, f.name), abs=2e-4 * scale), f.name
    assert left.residuals.max() < 1e-5 and len(arrays.gen_bus) == whole.points.pg.shape[1]


def test_rows_do_not_depend_on_threads_or_on_each_other():
    _, network, _, _ = network_of("case14_ieee")
    scenarios = shaken("case14_ieee", 24)
    one = BatchSolver(network, NativeEngine(threads=1)).dispatch(scenarios)
    three = BatchSolver(network, NativeEngine(threads=3)).dispatch(scenarios)
    some = BatchSolver(network, NativeEngine(threads=1)).dispatch(scenarios.rows(slice(7, 12)))
    assert np.array_equal(one.cost, three.cost) and np.array_equal(one.points.va, three.points.va)
    assert np.array_equal(one.cost[7:12], some.cost) and np.array_equal(one.points.price_q[7:12], some.points.price_q)


FORMS = [
    {"by_bus": True},
    *(
        {"lanes": lanes, "team": team, "split": split}
        for lanes, team, split in ((3, 3, 1), (4, 2, 1), (8, 4, 4), (8, 8, 4))
    ),
]


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_forms_of_a_gpu_find_what_a_processor_finds(form):
    """A processor evaluates branches in vectors, each once; elsewhere every bus evaluates its own.

    Lanes share a scenario as threads of a warp do, or a block of warps: levels, sums, decisions and, if split, blocks.
    """
    _, network, _, _ = network_of("case300_ieee")
    scenarios = shaken("case300_ieee", 3, branch_out=np.array([[-1], [30], [-1]]))
    alone = BatchSolver(network, NativeEngine(threads=1)).dispatch(scenarios)
    shared = BatchSolver(network, NativeEngine(threads=1, **form)).dispatch(scenarios)
    assert np.array_equal(alone.status, shared.status) and np.array_equal(alone.iterations, shared.iterations)
    solved = alone.converged
    assert solved.any()
    assert shared.cost[solved] == pytest.approx(alone.cost[solved], rel=1e-9)


AS_GIVEN = {
    "single precision": lambda a: a.astype(np.float32),
    "whole numbers": lambda a: np.round(10 * a).astype(np.int64),
    "column by column": np.asfortranarray,
    "every second column": lambda a: np.repeat(a, 2, axis=1)[:, ::2],
    "part of wider rows": lambda a: np.hstack([a, a])[:, : a.shape[1]],
}


@pytest.mark.parametrize("form", AS_GIVEN)
def test_demands_are_read_as_numbers_and_not_as_bytes(form):
    """By the kernels and by the check, which would confirm what it misreads in the same way."""
    _, network, p, q = network_of("case14_ieee")
    spread = np.linspace(0.6, 1.0, 4)[:, None]
    given = [AS_GIVEN[form](spread * half) for half in (p, q)]
    found, expected = (
        batch_solver(network).dispatch(Scenarios(demand_p=one, demand_q=other))
        for one, other in (given, [np.ascontiguousarray(half, float) for half in given])
    )
    assert np.array_equal(found.status, expected.status) and np.array_equal(found.residuals, expected.residuals)
    assert np.array_equal(found.cost, expected.cost)


def test_a_network_without_a_branch(load_text):
    rows = {"bus": "1 3 50 10 0 0 1 1 0 110 1 1.1 0.9;", "gen": "1 0 0 100 -100 1 100 1 200 0;", "branch": "",
            "gencost": "2 0 0 3 0.01 10 0;"}  # fmt: skip
    tables = "".join(f"mpc.{name} = [\n{row}\n];\n" for name, row in rows.items())
    case = load_text(f"function mpc = onebus\nmpc.version = '2';\nmpc.baseMVA = 100;\n{tables}")
    found = batch_solver(lower_network(structured_arrays(case.network))).dispatch(
        Scenarios(demand_p=np.array([[0.5], [0.8]]), demand_q=np.array([[0.1], [0.1]]))
    )
    assert found.converged.all() and found.cost == pytest.approx([0.01 * 50**2 + 500, 0.01 * 80**2 + 800], rel=1e-6)
    assert found.points.flow_from.shape == (2, 0)


def test_a_compiler_that_takes_too_long_is_one_line(monkeypatch):
    def slow(command, *, timeout, **_):
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(engine_native.subprocess, "run", slow)
    with pytest.raises(InputError, match=r"g\+\+ took more than 300 s .* use the structured solver"):
        engine_native._built("int nothing;")


def test_short_vectors_find_what_long_ones_find(monkeypatch):
    """A processor without AVX-512 has four numbers in a vector; 411 branches fill neither four nor eight evenly."""
    _, network, _, _ = network_of("case300_ieee")
    scenarios = shaken("case300_ieee", 3, branch_out=np.array([[-1], [30], [-1]]))
    usual = BatchSolver(network, NativeEngine(threads=1)).dispatch(scenarios)
    monkeypatch.setattr(engine_native, "FLAGS", (*engine_native.FLAGS, "-mno-avx512f"))
    monkeypatch.setattr(engine_native, "_library", engine_native._library.__wrapped__)
    short = BatchSolver(network, NativeEngine(threads=1)).dispatch(scenarios)
    assert np.array_equal(usual.status, short.status) and np.array_equal(usual.iterations, short.iterations)
    assert short.cost[usual.converged] == pytest.approx(usual.cost[usual.converged], rel=1e-9)


def test_from_the_optimum_for_usual_demands_fewer_iterations_lead_to_the_same_optima():
    _, network, p, q = network_of("case118_ieee")
    scenarios = shaken("case118_ieee", 60)
    cold = batch_solver(network).dispatch(scenarios)
    near = batch_solver(network, usual=(p, q)).dispatch(scenarios)
    assert near.converged.all()
    assert near.cost == pytest.approx(cold.cost, rel=1e-7)
    assert near.iterations.mean() < 0.5 * cold.iterations.mean()


def test_usual_demands_lose_no_scenario():
    """What fails from the optimum for usual demands is tried anew: five of these 60 are solved only then."""
    _, network, p, q = network_of("case300_ieee")
    scenarios = shaken("case300_ieee", 60)
    cold, near = batch_solver(network).dispatch(scenarios), batch_solver(network, usual=(p, q)).dispatch(scenarios)
    assert cold.converged[near.converged].all() and near.converged[cold.converged].all()
    assert 0 < (~near.converged).sum() < 20
    both = near.converged
    assert near.cost[both] == pytest.approx(cold.cost[both], rel=1e-6)


def test_usual_demands_that_nobody_can_serve_are_no_start():
    _, network, p, q = network_of("case14_ieee")
    scenarios = shaken("case14_ieee", 5)
    found = batch_solver(network, usual=(50 * p, 50 * q)).dispatch(scenarios)
    assert found.converged.all()
    assert found.cost == pytest.approx(batch_solver(network).dispatch(scenarios).cost, rel=1e-9)


def test_soft_balances_solve_what_a_cold_run_alone_does_not():
    _, network, _, _ = network_of("case300_ieee")
    scenarios = shaken("case300_ieee", 40)
    alone = batch_solver(network, soften=False).dispatch(scenarios, keep=False)
    both = batch_solver(network).dispatch(scenarios, keep=False)
    assert np.all(both.converged >= alone.converged)
    unbalanced = both.status == BatchStatus.UNBALANCED
    assert unbalanced.any() and not alone.converged[unbalanced].any()


def test_a_network_survives_its_file(tmp_path):
    _, network, _, _ = network_of("case14_ieee")
    network.save(tmp_path / "net.npz")
    scenarios = shaken("case14_ieee", 2)
    again = batch_solver(load_network(tmp_path / "net.npz")).dispatch(scenarios)
    assert np.array_equal(again.cost, batch_solver(network).dispatch(scenarios).cost)


def test_draws_depend_on_seed_and_row_alone():
    whole = uniform_rows(11, 2, 0, 50, 7)
    assert np.array_equal(whole[20:31], uniform_rows(11, 2, 20, 31, 7))
    assert not np.any(whole == uniform_rows(11, 3, 0, 50, 7)) and not np.any(whole == uniform_rows(12, 2, 0, 50, 7))
    normal = normal_rows(1, 0, 0, 20_000, 3)
    assert normal.mean(axis=0) == pytest.approx(0.0, abs=0.03) and normal.std(axis=0) == pytest.approx(1.0, abs=0.02)
    assert np.abs(np.corrcoef(normal.T) - np.eye(3)).max() < 0.03


def test_what_cannot_be_represented_is_refused(load_text):
    _, network, p, q = network_of("case14_ieee")
    one = {"demand_p": p[None], "demand_q": q[None]}
    with pytest.raises(InputError, match="load sites"):
        batch_solver(network).dispatch(Scenarios(demand_p=p[None, 1:], demand_q=q[None, 1:]))
    with pytest.raises(InputError, match="does not have"):
        batch_solver(network).dispatch(Scenarios(**one, branch_out=np.array([[999]])))
    with pytest.raises(InputError, match="at most 2"):
        Scenarios(**one, gen_out=np.zeros((1, 3), int))
    with pytest.raises(InputError, match="one row per scenario"):
        Scenarios(demand_p=p[None], demand_q=q)
    pieces = structured_arrays(load_text(feature_net(5, curve="pieces").text()).network)
    count = len(pieces.load_bus)
    changed = Scenarios(demand_p=np.ones((1, count)), demand_q=np.ones((1, count)), cost_1=np.ones((1, 5)))
    with pytest.raises(InputError, match="piecewise"):
        batch_solver(lower_network(pieces)).dispatch(changed)


def test_a_missing_gpu_is_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert missing_gpu() == "the GPU batch solver needs CuPy: pip install 'gridveil[gpu]'"
    _, network, _, _ = network_of("case14_ieee")
    with pytest.raises(InputError, match="needs CuPy"):
        batch_backend(network, BatchEngine.GPU, retries=0)
    assert batch_backend(network, BatchEngine.AUTO, retries=0).name == "native"


def test_a_missing_compiler_is_one_line(monkeypatch):
    monkeypatch.setattr(engine_native, "COMPILER", "no-such-compiler")
    with pytest.raises(InputError, match=r"needs the compiler no-such-compiler: install it[^\n]*$"):
        NativeEngine()


@pytest.mark.parametrize(
    "imported",
    [
        "from gridveil.solvers.batch import solver, joint, power, engine_gpu, engine_native, leftovers",
        "from gridveil.bilevel import bulk; from gridveil.bilevel.methods import auto",
    ],
)
def test_importing_batches_and_releases_in_bulk_takes_numpy_alone(imported):
    heavy = ("numba", "casadi", "scipy", "powerio", "pandas", "pyarrow", "cupy", "platformdirs")
    code = f"import sys; {imported}; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
