"""The structured solver of several secrets: the same dispatches, prices and joint optima as Ipopt, by other means."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import casadi as ca
import numpy as np
import pytest

from conftest import two_bus_net
from feature_net import feature_net
from gridveil.bilevel.methods import method_named
from gridveil.core.band import CostTarget, DataRows
from gridveil.core.choices import CostTargetMode
from gridveil.core.methods import Method
from gridveil.core.secret_choice import parse_secrets
from gridveil.privacy.mechanisms.simulation import simulate_noise
from gridveil.sectors.registry import build_model, load_case
from gridveil.service.secrets import with_secrets
from gridveil.solvers.backend import Effort, HalfSpace
from gridveil.solvers.boxed import BoxedData
from gridveil.solvers.fallback import Fallback
from gridveil.solvers.ipopt import IpoptBackend
from gridveil.solvers.registry import backend_for
from gridveil.solvers.veiled import VeiledBackend
from gridveil.testing.checks import check_answer, check_feasible, check_in_band, check_prices
from secrets_helpers import ALL, EACH, secret_case

EVERY = [*EACH, ALL]


@cache
def known(secret: str, curve: str = "quadratic"):
    """Transformers, shifters, charging, parallel lines and a rating that binds: the model, true d and both backends."""
    net = feature_net(4, curve=curve)
    for row in net.branch:
        row[5] *= 0.4
    with TemporaryDirectory() as folder:
        path = Path(folder) / "case.m"
        path.write_text(net.text())
        case = secret_case(str(path), secret)
    model = build_model(case.network)
    d = model.layout.to_program(case.values.reveal())
    return model, d, VeiledBackend(model), IpoptBackend(model.program)


def around(cost: float, share: float, rows: DataRows | None = None) -> CostTarget:
    return CostTarget(value=cost, beta=share * cost, source=CostTargetMode.PUBLIC, rows=rows)


@pytest.mark.parametrize("curve", ["quadratic", "pieces"])
@pytest.mark.parametrize("secret", EVERY)
def test_a_dispatch_has_the_cost_and_the_prices_of_ipopt(secret, curve):
    """Ipopt's prices come from the program's expressions and its own multipliers: other formulas, other solver."""
    _, d, veiled, ipopt = known(secret, curve)
    answer, reference = veiled.dispatch(d), ipopt.dispatch(d)
    check_answer(veiled, answer, d, priced=True)
    check_feasible(veiled.program, answer)
    assert answer.cost == pytest.approx(reference.cost, rel=1e-6)
    # Limits that do not bind have prices that are those of a barrier, millionths of a dollar.
    scale = max(1.0, float(np.max(np.abs(reference.prices))))
    assert answer.prices == pytest.approx(reference.prices, rel=1e-9, abs=2e-4 * scale)


@pytest.mark.parametrize("secret", EVERY)
def test_prices_are_the_slopes_of_the_optimal_cost(secret):
    """Every price, by central differences of the solver's own costs."""
    _, d, veiled, _ = known(secret)
    check_prices(veiled, d, step=1e-3, tolerance=1e-2)


def test_a_rating_binds():
    """Else the tests above would say nothing about ratings."""
    _, d, veiled, _ = known("limit=20MVA")
    assert np.min(veiled.dispatch(d).prices) < -100.0


@pytest.mark.parametrize("secret", EVERY)
@pytest.mark.parametrize("cheaper", [0.005, 0.02])
def test_the_high_point_from_above_is_that_of_ipopt(secret, cheaper):
    """A band below the cost of the data: as near as Ipopt finds, at the upper edge."""
    _, d, veiled, ipopt = known(secret)
    cost = veiled.dispatch(d).cost
    band = around((1 - cheaper) * cost / 1.001, 0.001)
    found, reference = Fallback(veiled, ipopt).nearest(d, band), ipopt.nearest(d, band)
    check_answer(veiled if found.solver == veiled.name else ipopt, found, d, priced=False)
    check_feasible(veiled.program, found)
    check_in_band(found, band)
    assert reference.converged
    assert found.delta == pytest.approx(reference.delta, rel=0.02)


@pytest.mark.parametrize("secret", EVERY)
def test_noisy_data_in_the_band_are_their_own_high_point(secret):
    _, d, veiled, _ = known(secret)
    follower = veiled.dispatch(d)
    found = veiled.nearest(d, around(follower.cost, 0.01))
    check_answer(veiled, found, d, priced=False)
    assert found.d is d and found.delta == 0.0
    again = veiled.dispatch(found.d, start=found.start, effort=Effort.WARM)
    assert again.cost == found.cost and again.prices is not None, "its dispatch is known"


@pytest.mark.parametrize("secret", EVERY)
def test_below_the_band_the_high_point_is_a_wasteful_flow(secret):
    """f(x) is in the band though O(d) is not: that makes the problem bilevel."""
    _, d, veiled, _ = known(secret)
    band = around(1.03 * veiled.dispatch(d).cost, 0.01)
    found = veiled.nearest(d, band)
    check_answer(veiled, found, d, priced=False)
    check_feasible(veiled.program, found)
    check_in_band(found, band)
    assert found.d is d


@pytest.mark.parametrize("secret", EVERY)
def test_a_cut_and_a_push_are_those_of_ipopt(secret):
    _, d, veiled, ipopt = known(secret)
    follower = veiled.dispatch(d)
    band = around(1.01 * follower.cost, 0.02)
    steepness = float(np.linalg.norm(follower.prices))
    normal = follower.prices / steepness
    half_space = HalfSpace(normal, float(normal @ d) + 0.001 * follower.cost / steepness)
    start = ipopt.nearest(d, band)
    found, reference = (one.cut(d, band, half_space, start=start.start) for one in (veiled, ipopt))
    check_answer(veiled, found, d, priced=False)
    check_feasible(veiled.program, found)
    check_in_band(found, band)
    assert normal @ found.d >= half_space.offset - 1e-9
    assert found.delta == pytest.approx(reference.delta, rel=1e-3)

    pushed = veiled.push(d, band, 1e-4, start=start.start)
    reference = ipopt.push(d, band, 1e-4, start=start.start)
    check_answer(veiled, pushed, d, priced=False)
    check_feasible(veiled.program, pushed)
    check_in_band(pushed, band)
    assert pushed.delta <= 1e-4
    assert pushed.proxy == pytest.approx(reference.proxy, rel=1e-6)


def test_what_has_no_closed_form_is_no_answer():
    """A half-space that costs more than the band allows, data beyond their limits, totals that the point does not keep."""
    _, d, veiled, _ = known("cost=2$/MWh")
    follower = veiled.dispatch(d)
    normal = follower.prices / float(np.linalg.norm(follower.prices))
    band, here = around(follower.cost, 0.001), follower.start
    dear = HalfSpace(normal, float(normal @ d) + 10 * 0.001 * follower.cost / float(np.linalg.norm(follower.prices)))
    assert not veiled.cut(d, band, dear, start=here).converged
    beyond = HalfSpace(normal, 1 + float(np.abs(normal) @ veiled.program.d_upper))
    assert not veiled.cut(d, band, beyond, start=here).converged
    total = DataRows(matrix=np.ones((1, len(d))), lower=np.array([d.sum() + 1]), upper=np.array([d.sum() + 2]))
    assert not veiled.nearest(d, around(follower.cost, 0.001, total)).converged


def test_data_without_any_flow_are_left_to_ipopt():
    """Ratings far below the load: the repair raises them, as it did before."""
    model, d, veiled, ipopt = known("limit=20MVA")
    tight = np.full(len(d), 0.1)
    band = around(veiled.dispatch(d).cost, 0.05)
    assert not veiled.nearest(tight, band).converged
    both = [method_named(Method.AUTO)(backend, tight, band) for backend in (backend_for(model, "structured"), ipopt)]
    assert all(found.verified for found in both)
    assert both[0].delta == pytest.approx(both[1].delta, rel=1e-2)


def test_ipopt_begins_where_limits_are_raised_to_a_flow():
    """The guess is a flow of the same data without ratings, within ratings that were raised where it needs that."""
    model, d, veiled, ipopt = known(ALL)
    rating = next(part for part in model.layout.parts if part.field.name == "limit")
    tight = np.concatenate([own * 0 + 0.1 if part is rating else own for part, own in model.layout.split(d)])
    band = around(veiled.dispatch(d).cost, 0.05)
    guess = veiled.nearest(tight, band).start
    assert guess.x is not veiled.program.x_start
    raised = [part.field.name for part, moved in model.layout.split(guess.d - tight) if np.any(moved != 0)]
    assert raised == ["limit"] and np.all(guess.d >= tight)
    rows = np.asarray(ca.Function("rows", [model.program.x, model.program.d], [model.program.g])(guess.x, guess.d))
    assert np.all(rows.ravel() <= model.program.g_upper + 1e-6) and np.all(rows.ravel() >= model.program.g_lower - 1e-6)
    found, reference = Fallback(veiled, ipopt).nearest(tight, band), ipopt.nearest(tight, band)
    assert found.delta == pytest.approx(reference.delta, rel=1e-3)
    assert found.iterations < reference.iterations


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("secret", EVERY)
def test_a_repair_is_as_near_as_by_ipopt_alone(secret, seed):
    case = secret_case("case14_ieee", secret)
    model = build_model(case.network)
    structured, ipopt = backend_for(model, "structured"), IpoptBackend(model.program)
    band = around(structured.dispatch(model.layout.to_program(case.values.reveal())).cost, 0.005)
    noisy = model.layout.to_program(simulate_noise(case.secret, epsilon=1.0, alpha=1.0, seed=seed).values)
    found, reference = (method_named(Method.AUTO)(backend, noisy, band) for backend in (structured, ipopt))
    assert found.verified and band.contains(found.cost)
    assert not reference.verified or found.delta <= 1.01 * reference.delta + 1e-4


def test_a_branch_with_two_kinds_of_limits_is_left_to_ipopt(tmp_path):
    """Arrays state it as two branches, whose multipliers are not those of one."""
    path = tmp_path / "case.m"
    path.write_text(two_bus_net().text())
    case = load_case(str(path))
    branch = replace(case.network.branch, current=np.full(len(case.network.branch.rate), 9.0))
    twice = replace(case, network=replace(case.network, branch=branch), sites_declared=True)
    model = build_model(with_secrets(twice, parse_secrets("impedance=5%")).network)
    assert model.ordinary is None
    assert isinstance(backend_for(model, "structured"), IpoptBackend)


class TestBoxedData:
    """Closed forms against points drawn at random: none is better."""

    rng = np.random.default_rng(7)
    lower, upper = np.full(6, -0.4), np.array([0.3, 0.5, 1.0, np.inf, 0.2, 0.9])

    def draws(self) -> np.ndarray:
        return self.rng.uniform(self.lower, np.minimum(self.upper, 3.0), size=(20_000, 6))

    @pytest.mark.parametrize("share", [0.05, 0.5, 0.95])
    def test_nearest(self, share):
        noisy, normal = self.rng.normal(size=6), self.rng.normal(size=6)
        normal /= np.linalg.norm(normal)
        others = self.draws()
        offset = float(np.quantile(others @ normal, share))
        boxed = BoxedData(noisy, self.lower, self.upper)
        d = boxed.nearest(HalfSpace(normal, offset))
        assert d is not None and np.all((self.lower <= d) & (d <= self.upper)) and normal @ d >= offset - 1e-12
        others = others[others @ normal >= offset]
        assert np.max((others - d) @ (noisy - d)) <= 1e-9, "a projection onto a convex set"

    @pytest.mark.parametrize("delta", [0.9, 2.0, 50.0])
    def test_farthest(self, delta):
        noisy, direction = 0.3 * self.rng.normal(size=6), np.array([1.0, -1.0, 1.0, 1.0, 0.0, 1.0])
        boxed = BoxedData(noisy, self.lower, self.upper)
        d = boxed.farthest(direction, delta)
        assert d is not None and np.all((self.lower <= d) & (d <= self.upper))
        assert boxed.distance(d) <= delta
        others = self.draws()
        others = others[np.sum((others - noisy) ** 2, axis=1) <= delta]
        assert len(others) > 100
        assert np.max(others @ direction) <= direction @ d + 1e-9

    def test_out_of_reach(self):
        boxed = BoxedData(np.zeros(2), np.zeros(2), np.ones(2))
        assert boxed.nearest(HalfSpace(np.array([1.0, 0.0]), 1.5)) is None
        assert BoxedData(np.full(2, 3.0), np.zeros(2), np.ones(2)).farthest(np.ones(2), 1.0) is None
        assert boxed.farthest(np.ones(2), 9.0) == pytest.approx([1.0, 1.0]), "all of the box lies in the ball"
