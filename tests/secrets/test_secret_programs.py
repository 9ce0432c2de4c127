"""The program of several secrets: the same optimum as the ordinary one, right prices, and closed forms of the repair."""

from __future__ import annotations

import numpy as np
import pytest

from conftest import Matpower, optimum, two_bus_net
from feature_net import feature_net
from gridveil.bilevel.methods import method_named
from gridveil.core.band import CostTarget
from gridveil.core.choices import CostTargetMode
from gridveil.core.methods import Method
from gridveil.sectors.registry import build_model, load_case, read_back, write_network
from gridveil.solvers.ipopt import IpoptBackend
from secrets_helpers import ALL, EACH, secret_case


def written(net: Matpower, folder) -> str:
    path = folder / "case.m"
    path.write_text(net.text())
    return str(path)


def straightened(net: Matpower) -> Matpower:
    """The same network with each cost replaced by the line through zero that has its mean slope."""
    for k, row in enumerate(net.gencost):
        low, high = net.gen[k][9], net.gen[k][8]
        cost = np.poly1d(row[4:]) if row[0] == 2 else None
        ends = [cost(p) for p in (low, high)] if cost is not None else np.interp([low, high], row[4::2], row[5::2])
        net.gencost[k] = [2, 0, 0, 3, 0.0, float((ends[1] - ends[0]) / (high - low)), 0.0]
    return net


@pytest.mark.parametrize("secret", [*EACH, ALL])
@pytest.mark.parametrize("curve", ["quadratic", "pieces"])
def test_the_optimum_at_the_truth_is_that_of_the_ordinary_program(tmp_path, secret, curve):
    """Transformers, shifters, charging, parallel lines and bent costs: written by other code, from other formulas."""
    net = feature_net(3, curve=curve)
    hidden = secret_case(written(net, tmp_path), secret)
    plain = load_case(written(straightened(net) if "cost" in secret else net, tmp_path))
    assert optimum(hidden).cost == pytest.approx(optimum(plain).cost, rel=1e-6)


@pytest.mark.parametrize("secret", EACH)
def test_prices_are_the_slopes_of_the_optimal_cost(tmp_path, secret):
    case = secret_case(written(feature_net(4, curve="quadratic"), tmp_path), secret)
    model = build_model(case.network)
    backend, d = IpoptBackend(model.program), model.layout.to_program(case.values.reveal())
    here = backend.dispatch(d)
    direction = np.random.default_rng(0).normal(size=len(d)) * 1e-3
    ahead, behind = (backend.dispatch(d + sign * direction) for sign in (1, -1))
    assert here.prices is not None and here.converged and ahead.converged and behind.converged
    assert ahead.cost - behind.cost == pytest.approx(2 * float(here.prices @ direction), rel=2e-2, abs=1e-5)


@pytest.mark.parametrize("secret", [*EACH, ALL])
def test_a_written_network_states_the_released_values(tmp_path, secret):
    case = secret_case(written(feature_net(3, curve="pieces"), tmp_path), secret)
    values = case.values.reveal() * 1.01
    path = write_network(case.network, values, tmp_path, "matpower", title="released")
    plain = tmp_path / "read.m"
    plain.write_text(path.read_text())
    again = read_back(case.network, path)
    hidden = secret_case(str(plain), secret) if "demand" in secret else None
    if hidden is not None:
        assert hidden.values.reveal() == pytest.approx(values, rel=1e-9)
    assert optimum(again).cost == pytest.approx(optimum(case.with_values(type(case.values)(values))).cost, rel=1e-5)


def test_nothing_of_the_truth_is_left_in_the_public_network(tmp_path):
    """The public side holds stand-ins: two truths give networks that are equal number by number."""
    import pickle

    from secrets_helpers import other_network

    net = feature_net(3, curve="quadratic")
    first = secret_case(written(net, tmp_path), ALL).network
    second = secret_case(written(other_network(net), tmp_path), ALL).network
    assert pickle.dumps(first) == pickle.dumps(second)


def cost_only() -> Matpower:
    net = two_bus_net()
    net.branch[0][2] = 0.0  # no losses: all of the load comes from the one generator
    return net


@pytest.mark.parametrize(("noisy", "expected"), [(7.0, 9.9), (9.95, 9.95), (13.0, 10.1)])
def test_one_generator_has_a_closed_form(tmp_path, noisy, expected):
    """O = c·P: the nearest c with a cost in the band is at the band's edge, or where it was."""
    case = secret_case(written(cost_only(), tmp_path), "cost=2$/MWh")
    model = build_model(case.network)
    band = CostTarget(value=417.5, beta=4.175, source=CostTargetMode.FORECAST)
    found = method_named(Method.AUTO)(IpoptBackend(model.program), model.layout.to_program(np.array([noisy])), band)
    assert found.d is not None
    assert model.layout.to_sites(found.d, np.zeros(1))[0].real == pytest.approx(expected, rel=2e-4)


def test_a_rating_is_raised_to_the_least_that_serves_the_load(tmp_path):
    """One lossless line of 90 MVA carries 41.75 + j13.25 MVA; a noisy rating below that becomes the flow at its head."""
    case = secret_case(written(cost_only(), tmp_path), "limit=20MVA")
    model = build_model(case.network)
    band = CostTarget(value=417.5, beta=4.175, source=CostTargetMode.FORECAST)
    found = method_named(Method.AUTO)(IpoptBackend(model.program), model.layout.to_program(np.array([0.2])), band)
    assert found.d is not None
    rating = 100 * model.layout.to_sites(found.d, np.zeros(1))[0].real
    # The receiving end takes |41.75 + j13.25| = 43.80 MVA; the other end the series losses of reactive power more.
    size = abs(complex(41.75, 13.25))
    assert size < rating < 1.05 * size
