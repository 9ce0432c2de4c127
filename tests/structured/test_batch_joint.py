"""Joint tasks in batches (nearest demands, with a cut, with bounds, and the push) against the structured solver, one by one."""

from __future__ import annotations

import numpy as np
import pytest
from batch_cases import needs_compiler, network_of

from feature_net import feature_net
from gridveil.core.errors import InputError
from gridveil.sectors.power.arrays import structured_arrays
from gridveil.solvers.batch.compiled_check import check_tasks
from gridveil.solvers.batch.contract import JointTasks
from gridveil.solvers.batch.engine_native import NativeEngine
from gridveil.solvers.batch.joint import JointSolver, joint_points, lower_tasks
from gridveil.solvers.batch.network import lower_network
from gridveil.solvers.structured import Dispatch, StructuredSolver
from gridveil.solvers.structured.kkt_check import Candidate, check
from gridveil.solvers.structured.problem import Cut, DemandBox, DemandRows, Multipliers, Nearest, Push, kept_name

pytestmark = needs_compiler

KINDS = ("nearest", "any cost", "cut", "push", "bounds", "kept", "cut, kept", "push, kept")
COUNT = 6


def made_tasks(name: str, kind: str, count: int = COUNT):
    """Noisy demands of a public case with a band of 1 % around its optimum, as a batch and as single tasks."""
    arrays, _, p, q = network_of(name)
    known = StructuredSolver(arrays).solve(Dispatch(demand_p=p, demand_q=q))
    generator = np.random.default_rng(11)
    noisy = np.concatenate([p, q]) + generator.laplace(scale=0.1, size=(count, 2 * len(p)))
    low, high = (-np.inf, np.inf) if kind == "any cost" else (0.99 * known.cost, 1.01 * known.cost)
    n = len(p)
    batch: dict = {
        "target_p": noisy[:, :n],
        "target_q": noisy[:, n:],
        "cost_low": np.full(count, low),
        "cost_high": np.full(count, high),
    }
    normal = np.concatenate([known.site_price_p, known.site_price_q])
    normal /= np.linalg.norm(normal)
    least = float(normal @ np.concatenate([p, q])) - 0.01
    delta = 0.5 * np.sum((noisy - np.concatenate([p, q])) ** 2, axis=1)
    box = np.concatenate([np.zeros(n), np.full(n, -np.inf)]), np.full(2 * n, np.inf)
    kept = totals_of(n, np.concatenate([p, q])) if "kept" in kind else None
    if kept is not None:
        batch |= {"kept": np.tile(np.hstack([kept.weight_p, kept.weight_q]), (count, 1, 1))}
        batch |= {"kept_low": np.tile(kept.low, (count, 1)), "kept_high": np.tile(kept.high, (count, 1))}
    if "cut" in kind:
        batch |= {"weight_p": np.tile(normal[:n], (count, 1)), "weight_q": np.tile(normal[n:], (count, 1))}
        batch |= {"least": np.full(count, least)}
    if "push" in kind:
        batch |= {"delta": delta}
    if kind == "bounds":
        batch |= {"low": box[0], "high": box[1]}
    single = []
    for s in range(count):
        shared = {"target_p": noisy[s, :n], "target_q": noisy[s, n:], "cost_low": low, "cost_high": high, "kept": kept}
        if "push" in kind:
            single.append(Push(**shared, delta=float(delta[s])))
            continue
        cut = Cut(weight_p=normal[:n], weight_q=normal[n:], least=least) if "cut" in kind else None
        bounds = DemandBox(p_low=box[0][:n], p_high=box[1][:n], q_low=box[0][n:], q_high=box[1][n:])
        single.append(Nearest(**shared, cut=cut, box=bounds if kind == "bounds" else None))
    return arrays, JointTasks(**batch), single


def totals_of(n: int, demand: np.ndarray) -> DemandRows:
    """Five totals: all active demands, those of every third site, the reactive ones, and one of weights that differ by site."""
    third = np.arange(n) % 3
    weight = np.zeros((5, 2 * n))
    weight[0, :n], weight[1, :n], weight[2, :n], weight[3, n:] = 1.0, third == 0, third == 1, 1.0
    weight[4] = np.cos(np.arange(2 * n))
    middle = weight @ demand
    width = np.array([1e-3, 2e-3, np.inf, 5e-3, 1e-2])
    low, high = middle - width, middle + width
    low[2] = middle[2]  # a bound below alone
    return DemandRows(weight_p=weight[:, :n], weight_q=weight[:, n:], low=low, high=high)


def objectives(tasks: JointTasks, points) -> np.ndarray:
    if tasks.delta is not None:
        return -points.demand_p.sum(axis=1)
    return np.sum((points.demand_p - tasks.target_p) ** 2 + (points.demand_q - tasks.target_q) ** 2, axis=1)


def joint_solver(arrays, kept: int = 0, **options) -> JointSolver:
    return JointSolver(lower_network(arrays, joint=True).keeping(kept), NativeEngine(threads=1, **options))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["case5_pjm", "case14_ieee", "case57_ieee"])
def test_tasks_end_where_the_structured_solver_does(name, kind):
    arrays, tasks, single = made_tasks(name, kind)
    found = joint_solver(arrays, tasks.n_kept).solve(tasks)
    solver = StructuredSolver(arrays)
    expected = [solver.solve(task, thorough=False) for task in single]
    assert found.converged.tolist() == [one.converged for one in expected]
    assert found.converged.any()
    some = found.converged
    costs = np.array([one.cost for one in expected])
    values = np.array([one.objective for one in expected])
    assert objectives(tasks, found.points)[some] == pytest.approx(values[some], rel=1e-6, abs=1e-7)
    assert found.cost[some] == pytest.approx(costs[some], rel=1e-5)
    assert np.all(found.residuals[some] <= 1e-5)


@pytest.mark.parametrize("by_bus", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_the_kernels_take_the_structured_solvers_path(kind, by_bus):
    """Iteration by iteration: without refinement, or with a wrong border, most tasks of case118 end later or never."""
    arrays, tasks, single = made_tasks("case118_ieee", kind, 4)
    found = joint_solver(arrays, tasks.n_kept, by_bus=by_bus).solve(tasks)
    solver = StructuredSolver(arrays)
    expected = [solver.solve(task, thorough=False).iterations for task in single]
    assert found.converged.all()
    assert np.sum(np.abs(found.iterations - expected) <= 1) >= 3


def test_every_row_has_an_effect():
    """The band holds the cost, the cut and the ball hold the demands, bounds keep them from being negative."""
    arrays, tasks, _ = made_tasks("case57_ieee", "nearest")
    solver = joint_solver(arrays)
    plain, free = solver.solve(tasks), solver.solve(made_tasks("case57_ieee", "any cost")[1])
    outside = (free.cost < tasks.cost_low) | (free.cost > tasks.cost_high)
    assert outside.any() and plain.converged.all()
    assert np.all((plain.cost >= tasks.cost_low * (1 - 1e-6)) & (plain.cost <= tasks.cost_high * (1 + 1e-6)))
    cuts = made_tasks("case57_ieee", "cut")[1]
    cut = solver.solve(cuts)
    reached = [
        np.sum(cuts.weight_p * a.points.demand_p + cuts.weight_q * a.points.demand_q, axis=1) for a in (plain, cut)
    ]
    assert np.any(reached[0] < cuts.least - 1e-3) and np.all(reached[1] >= cuts.least - 1e-6)
    balls = made_tasks("case57_ieee", "push")[1]
    pushed = solver.solve(balls)
    away = np.sum(
        (pushed.points.demand_p - balls.target_p) ** 2 + (pushed.points.demand_q - balls.target_q) ** 2, axis=1
    )
    some = pushed.converged
    assert some.any() and np.all(away[some] <= balls.delta[some] * (1 + 1e-6))
    assert np.all(pushed.points.demand_p[some].sum(axis=1) >= plain.points.demand_p[some].sum(axis=1))
    bounded = solver.solve(made_tasks("case57_ieee", "bounds")[1])
    assert plain.points.demand_p.min() < -1e-3 and bounded.points.demand_p.min() >= -1e-6
    arrays, totals, _ = made_tasks("case57_ieee", "kept")
    kept = joint_solver(arrays, totals.n_kept).solve(totals)
    for found, holds in ((plain, False), (kept, True)):
        demand = np.concatenate([found.points.demand_p, found.points.demand_q], axis=1)
        value = np.sum(totals.kept * demand[:, None], axis=2)
        beyond = np.maximum(totals.kept_low - value, value - totals.kept_high)
        assert kept.converged.all() and np.all((beyond <= 1e-6).all(axis=0) == holds), "each of the totals"


@pytest.mark.parametrize("kind", KINDS)
def test_residuals_are_those_of_the_single_check_right_or_wrong(kind):
    """At the optimum and at points disturbed in every variable, where all terms count."""
    arrays, tasks, single = made_tasks("case14_ieee", kind, 3)
    solver = joint_solver(arrays, tasks.n_kept)
    network, lowered, answer = solver.network, lower_tasks(solver.network, tasks), solver.solve(tasks)
    scales, generator = (lowered.objective_scale, lowered.row_scale), np.random.default_rng(8)
    for size in (0.0, 1e-3, 0.1):
        raw = answer.raw + size * generator.normal(size=answer.raw.shape)
        cost = answer.cost * (1 + size * generator.normal(size=3))
        if kind == "any cost":
            raw[:, -4:-2] = 0.0  # of the band, which is not there
        points = joint_points(network, tasks, *scales, raw, np)
        batch = check_tasks(NativeEngine(threads=2), network, tasks, scales, cost, raw)
        second = {"push": "ball", "cut": "cut"}.get(kind.partition(",")[0])
        for s, task in enumerate(single):
            rows = {} if kind == "any cost" else {"cost": points.row_prices[s, 0]}
            rows |= {second: points.row_prices[s, 1]} if second else {}
            rows |= {kept_name(r): points.row_prices[s, 2 + r] for r in range(tasks.n_kept)}
            names = ("price_p", "price_q", "flow_from", "flow_to", "angle_above", "angle_below")
            alone = check(
                arrays,
                task,
                Candidate(
                    **{name: getattr(points, name)[s] for name in ("va", "vm", "pg", "qg", "demand_p", "demand_q")},
                    dc=np.zeros(0),
                    susceptance=np.zeros(0),
                    cost=float(cost[s]),
                    multipliers=Multipliers(**{name: getattr(points, name)[s] for name in names}, rows=rows),
                ),
            )
            expected = [alone.primal, alone.dual, alone.complementarity]
            assert batch[s] == pytest.approx(expected, rel=1e-6, abs=1e-12), (kind, size, s)


@pytest.mark.parametrize("kind", ["cut", "push", "push, kept"])
@pytest.mark.parametrize("lanes", [{"lanes": 4, "team": 2}, {"lanes": 4, "split": 4}])
def test_lanes_that_share_a_task_find_the_same(kind, lanes):
    arrays, tasks, _ = made_tasks("case14_ieee", kind, 2)
    alone, shared = (
        joint_solver(arrays, tasks.n_kept).solve(tasks),
        joint_solver(arrays, tasks.n_kept, **lanes).solve(tasks),
    )
    assert alone.converged.tolist() == shared.converged.tolist()
    some = alone.converged
    assert shared.points.demand_p[some] == pytest.approx(alone.points.demand_p[some], abs=1e-6)


def test_what_does_not_fit_is_refused(load_text):
    _, network, p, _ = network_of("case14_ieee")
    with pytest.raises(InputError, match="lowered for dispatches"):
        JointSolver(network, NativeEngine(threads=1))
    pieces = structured_arrays(load_text(feature_net(5, curve="pieces").text()).network)
    with pytest.raises(InputError, match="costs without pieces"):
        lower_network(pieces, joint=True)
    one, band = np.zeros((1, len(p))), np.zeros(1)
    with pytest.raises(InputError, match=r"a cut .* a ball, or neither"):
        JointTasks(target_p=one, target_q=one, cost_low=band, cost_high=band, least=band)
    with pytest.raises(InputError, match=r"a cut .* a ball, or neither"):
        JointTasks(
            target_p=one,
            target_q=one,
            cost_low=band,
            cost_high=band,
            weight_p=one,
            weight_q=one,
            least=band,
            delta=band,
        )
