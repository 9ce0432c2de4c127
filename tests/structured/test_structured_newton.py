"""Derivatives by finite differences of complex formulas; the Newton step against the equations it must satisfy."""

from __future__ import annotations

import numpy as np
import pytest
from structured_cases import dispatch_of, family, program_of

from gridveil.sectors.power.arrays import structured_arrays
from gridveil.sectors.registry import load_case
from gridveil.solvers.structured.assembly import assemble
from gridveil.solvers.structured.evaluate import evaluate
from gridveil.solvers.structured.layout import Problem, allocate_iterate, allocate_system, allocate_values
from gridveil.solvers.structured.lowering import cost_segments, ordered_grid
from gridveil.solvers.structured.newton import aim_beyond, direction, factorise_with_inertia
from gridveil.solvers.structured.problem import Cut, Nearest, Push
from gridveil.solvers.structured.settings import DELTA_C, REFINEMENTS
from gridveil.solvers.structured.tasks import lower_task
from gridveil.solvers.structured.warm import cold_start

MU = 0.07


class Situation:
    """A task at a random interior point with random multipliers, assembled."""

    def __init__(self, case, kind: str, seed: int) -> None:
        d = program_of(case)[1]
        arrays = structured_arrays(case.network)
        half = len(d) // 2
        where = {"target_p": d[:half], "target_q": d[half:], "cost_low": 10.0, "cost_high": 9000.0}
        weights = np.random.default_rng(5).uniform(1, 2, half)
        task = {
            "dispatch": dispatch_of(d),
            "nearest": Nearest(**where),
            "cut": Nearest(**where, cut=Cut(weight_p=weights, weight_q=-weights, least=1.0)),
            "push": Push(**where, delta=0.3),
        }[kind]
        self.grid = ordered_grid(arrays)
        self.task = lower_task(arrays, self.grid, cost_segments(arrays), task)
        self.data, self.local, self.pattern = self.grid.data, self.task.data, self.grid.order.pattern
        self.problem = Problem(grid=self.data, local=self.local, pattern=self.pattern)
        rng = np.random.default_rng(seed)
        start = self.task.start[self.task.free]
        self.point = cold_start(self.data, self.local, self.grid.no_load, start, 1.0)
        shake = np.where(self.data.fixed, 0.0, 0.02 * rng.standard_normal(self.point.x.shape))
        self.point.x[:] += shake
        self.point.u[:] += np.where(np.isfinite(self.local.low), 0.0, 0.1 * rng.standard_normal(len(start)))
        self.point.price[:] = rng.standard_normal(self.point.price.shape)
        for multiplier in (self.point.limit, self.point.u_bound):
            multiplier[:] = multiplier * rng.uniform(0.5, 2.0, multiplier.shape)
        n_bus, n_branch, n_limits = len(self.point.x), len(self.data.branch_from), len(self.local.active)
        self.values = allocate_values(n_bus, n_branch, n_limits)
        evaluate(self.data, self.local, self.point, self.values)
        self.system = allocate_system(self.problem)
        assemble(self.problem, self.point, self.values, self.system)

    def at(self, x: np.ndarray, u: np.ndarray):
        """Balances and limits (with slack) elsewhere."""
        moved = self.point._replace(x=x, u=u)
        values = allocate_values(len(x), len(self.data.branch_from), len(self.local.active))
        evaluate(self.data, self.local, moved, values)
        return values.balance.copy(), values.limit.copy()

    def derivative(self, dx: np.ndarray, du: np.ndarray, size: float = 1e-6):
        """Directional derivatives of balances and limits by central differences."""
        up = self.at(self.point.x + size * dx, self.point.u + size * du)
        down = self.at(self.point.x - size * dx, self.point.u - size * du)
        return tuple((a - b) / (2 * size) for a, b in zip(up, down, strict=True))


ELEMENTS = ["DC lines of all kinds", "reactive cost", "compensator", "current limit", "limits on power and current"]


@pytest.fixture(params=["tap and shifter", "parallel lines", "fixed voltage", *ELEMENTS])
def case(request, load_text):
    return load_text(family(request.param).text())


def lagrangian(situation: Situation, x: np.ndarray) -> float:
    """Prices times balances plus multipliers times limits, the balances from complex power."""
    balance, limit = situation.at(x, situation.point.u)
    return float(np.sum(situation.point.price * balance) + np.sum(situation.point.limit * limit))


def test_balances_are_complex_power(case):
    """The kernel's cosines against V conj(Y V) of the network in its own order."""
    situation = Situation(case, "dispatch", 1)
    grid, arrays = situation.grid, structured_arrays(case.network)
    position = grid.order.position
    x = situation.point.x[position]
    voltage = x[:, 1] * np.exp(1j * x[:, 0])
    f, t = arrays.branch_from, arrays.branch_to
    power = (arrays.shunt_g - 1j * arrays.shunt_b) * np.abs(voltage) ** 2
    u = situation.task.start.copy()
    u[situation.task.free] = situation.point.u
    segments = cost_segments(arrays)
    for value, output in zip(u, segments.output, strict=False):
        line = output - 2 * len(arrays.gen_bus)
        if line >= 0 and arrays.dc_min[line] < arrays.dc_max[line]:  # what has no choice is part of the fixed draw
            power[arrays.dc_from[line]] += value
            power[arrays.dc_to[line]] -= (1 - arrays.dc_loss_1[line]) * value
    svc = u[len(segments.output) : len(segments.output) + len(arrays.svc_bus)]
    np.subtract.at(power, arrays.svc_bus, 1j * svc * np.abs(voltage[arrays.svc_bus]) ** 2)
    np.add.at(power, f, voltage[f] * np.conj(arrays.y_ff * voltage[f] + arrays.y_ft * voltage[t]))
    np.add.at(power, t, voltage[t] * np.conj(arrays.y_tt * voltage[t] + arrays.y_tf * voltage[f]))
    drawn = situation.local.fixed_draw.copy()
    np.subtract.at(drawn, (situation.local.bus, situation.local.row), situation.local.sign * situation.point.u)
    expected = np.stack([power.real, power.imag], axis=1) + drawn[position]
    assert situation.values.balance[position] == pytest.approx(expected, abs=1e-12)


def test_gradient_and_hessian_of_the_lagrangian(case):
    situation = Situation(case, "dispatch", 2)
    point, system, fixed = situation.point, situation.system, situation.data.fixed
    # Slacks without end leave the Lagrangian's own curvature.
    point.slack[:] = 1e30
    assemble(situation.problem, point, situation.values, system)
    n = point.x.size
    size = 1e-4

    def moved(*steps: tuple[int, float]) -> float:
        x = point.x.copy()
        for k, step in steps:
            x.flat[k] += step
        return lagrangian(situation, x)

    point.slack[:] = 0.0
    matrix = np.zeros((4 * len(point.x), 4 * len(point.x)))
    for j, block in enumerate(system.diag):
        matrix[4 * j : 4 * j + 4, 4 * j : 4 * j + 4] = block
    for block, i, j in zip(system.upper, situation.pattern.row, situation.pattern.col, strict=True):
        matrix[4 * j : 4 * j + 4, 4 * i : 4 * i + 4] = block
        matrix[4 * i : 4 * i + 4, 4 * j : 4 * j + 4] = block.T
    primal = np.flatnonzero(np.arange(4 * len(point.x)) % 4 < 2)
    for k in range(n):
        if fixed.flat[k]:
            continue
        slope = (moved((k, size)) - moved((k, -size))) / (2 * size)
        assert system.gradient_x.flat[k] == pytest.approx(slope, rel=1e-5, abs=1e-4)
        for m in range(n):
            if not fixed.flat[m]:
                corners = [moved((k, a * size), (m, b * size)) for a, b in ((1, 1), (-1, -1), (1, -1), (-1, 1))]
                curvature = (corners[0] + corners[1] - corners[2] - corners[3]) / (4 * size * size)
                assert matrix[primal[k], primal[m]] == pytest.approx(curvature, rel=1e-3, abs=0.02)


@pytest.mark.parametrize("kind", ["dispatch", "nearest", "cut", "push"])
@pytest.mark.parametrize("seed", [3, 4])
def test_direction_solves_the_linearised_conditions(kind, seed):
    """Every equation of the Newton system, written out uncondensed, with derivatives by differences."""
    situation = Situation(load_case("veil9"), kind, seed)
    point, system, local = situation.point, situation.system, situation.local
    step = allocate_iterate(len(point.x), len(point.u), len(point.slack))
    shift, _ = factorise_with_inertia(situation.problem, system, 0.0)
    aims = np.random.default_rng(seed)
    system.aim[:] = aims.uniform(0.0, 2 * MU, system.aim.shape)
    system.aim_u[:] = aims.uniform(0.0, 2 * MU, system.aim_u.shape)
    direction(situation.problem, point, situation.values, system, shift, REFINEMENTS, step)
    d_balance, d_limit = situation.derivative(step.x, step.u)
    size = max(1.0, float(np.max(np.abs(step.x))), float(np.max(np.abs(step.price))))
    close = {"abs": 1e-6 * size}
    assert d_balance - DELTA_C * step.price == pytest.approx(-situation.values.balance, **close)
    active = local.active
    # Without a cap (least_softness is zero here) limits and their slacks move together.
    assert (d_limit + step.slack)[active] == pytest.approx(-situation.values.limit[active], **close)
    products = point.limit * point.slack + point.limit * step.slack + point.slack * step.limit
    assert products[active] == pytest.approx(system.aim[active], **close)
    bounded = np.isfinite(local.low)
    room, bound = (point.u - local.low)[bounded], point.u_bound[bounded, 0]
    below = room * (bound + step.u_bound[bounded, 0]) + bound * step.u[bounded]
    assert below == pytest.approx(system.aim_u[bounded, 0], **close)
    moved = point._replace(
        x=point.x + 1e-6 * step.x,
        u=point.u + 1e-6 * step.u,
        price=point.price + 1e-6 * step.price,
        limit=point.limit + 1e-6 * step.limit,
    )
    before_x, before_u = system.gradient_x.copy(), system.gradient_u.copy()
    evaluate(situation.data, local, moved, situation.values)
    assemble(situation.problem, moved, situation.values, system)
    rate_x, rate_u = (system.gradient_x - before_x) / 1e-6, (system.gradient_u - before_u) / 1e-6
    loose = {"abs": 2e-4 * size}
    free = ~situation.data.fixed
    assert (before_x + rate_x + shift * step.x)[free] == pytest.approx(np.zeros(free.sum()), **loose)
    forces = step.u_bound[:, 1] + point.u_bound[:, 1] - step.u_bound[:, 0] - point.u_bound[:, 0]
    assert before_u + rate_u + shift * step.u + forces == pytest.approx(np.zeros(len(point.u)), **loose)


def test_a_corrector_takes_off_what_the_predictor_neglected_but_not_more_than_told():
    situation = Situation(load_case("veil9"), "dispatch", 3)
    point, system = situation.point, situation.system
    predictor = allocate_iterate(len(point.x), len(point.u), len(point.slack))
    steps = np.random.default_rng(0)
    for part in (predictor.u, predictor.u_bound, predictor.slack, predictor.limit):
        part[:] = steps.normal(size=part.shape)
    aim_beyond(system, predictor, MU, 0.5)
    assert system.aim == pytest.approx(MU - np.clip(predictor.slack * predictor.limit, -0.5, 0.5))
    # Away from the upper bound is back towards the lower.
    away = np.stack([predictor.u, -predictor.u], axis=1)
    assert system.aim_u == pytest.approx(MU - np.clip(away * predictor.u_bound, -0.5, 0.5))
