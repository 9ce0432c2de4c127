"""Where the cost target leaves β without a meaning: said before anything is charged, or, if noise did it, as no release."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gridveil.bilevel.cost_estimate import CostEstimate, estimate_cost, linear_cost
from gridveil.core.band import Tolerance
from gridveil.core.choices import CostTargetMode
from gridveil.core.errors import InputError, NoReleaseError
from gridveil.core.secret import SecretValues
from gridveil.core.text import plural
from gridveil.privacy.curator import published_values
from gridveil.privacy.mechanisms.simulation import simulate_laplace
from gridveil.privacy.noisy import Draw, NoisySum
from gridveil.sectors.registry import load_case
from gridveil.service.account import LedgerAccount
from gridveil.service.budget import ledger_of
from gridveil.service.prepare import Prepared, PublicCase, prepare
from gridveil.service.release import make_release, repaired
from gridveil.service.settings import CostTargetSettings, ReleaseSettings
from gridveil.service.target import SMALL, Aim, aim, band_around, retreats

SHARE = Tolerance.parse("1%")


def settings(mode: CostTargetMode, beta: Tolerance = SHARE, forecast: float | None = None) -> ReleaseSettings:
    target = CostTargetSettings(mode=mode, forecast=forecast)
    return ReleaseSettings(epsilon="1", alpha="10MVA", beta=beta, target=target)


@pytest.fixture
def drawn() -> tuple[Prepared, Draw]:
    case = load_case("veil2")
    noisy = simulate_laplace(case.values, epsilon=1.0, alpha=0.01, seed=1)
    return prepare(PublicCase.of(case), solver="structured"), Draw(noisy=noisy)


@pytest.mark.parametrize("mode", [CostTargetMode.DERIVED, CostTargetMode.PRIVATE])
def test_an_estimate_of_nothing_is_no_release_and_not_the_user_s_mistake(drawn, monkeypatch, mode):
    """Large noise can leave a network without demand, and so without cost."""
    monkeypatch.setattr("gridveil.service.target.derived_cost", lambda *_: 0.0)
    with pytest.raises(NoReleaseError, match="came out at zero"):
        aim(*drawn, settings(mode))
    assert aim(*drawn, settings(mode, beta=Tolerance.parse("50$/h"))).target.beta == 50.0


def test_a_share_of_a_negative_cost_is_one_of_its_size(drawn, monkeypatch):
    monkeypatch.setattr("gridveil.service.target.derived_cost", lambda *_: -300.0)
    found = aim(*drawn, settings(CostTargetMode.DERIVED)).target
    assert (found.lower, found.upper) == (-303.0, -297.0)
    prepared, draw = drawn
    negative = CostEstimate(value=-500.0, deviation=1.0, from_values=-400.0)
    monkeypatch.setattr("gridveil.service.target.estimate_cost", lambda *_: negative)
    total = NoisySum(value=0.0, weights=np.ones(1), offset=0.0, mechanism=draw.noisy.mechanism, simulation=True)
    assert aim(prepared, replace(draw, total=total), settings(CostTargetMode.PRIVATE)).target.value == -500.0


def test_a_private_estimate_of_nothing_is_no_release_either(drawn, monkeypatch):
    prepared, draw = drawn
    nothing = CostEstimate(value=-3.0, deviation=1.0, from_values=0.0)
    monkeypatch.setattr("gridveil.service.target.estimate_cost", lambda *_: nothing)
    total = NoisySum(value=0.0, weights=np.ones(1), offset=0.0, mechanism=draw.noisy.mechanism, simulation=True)
    with pytest.raises(NoReleaseError, match="came out at zero"):
        aim(prepared, replace(draw, total=total), settings(CostTargetMode.PRIVATE))


def test_retreats_without_a_meaning_are_left_out(drawn, monkeypatch):
    monkeypatch.setattr("gridveil.service.target.derived_cost", lambda *_: -2000.0)
    first = Aim(target=SHARE.around(2000.0, CostTargetMode.PRIVATE), error=None)
    shared, stated = (settings(CostTargetMode.PRIVATE, beta=beta) for beta in (SHARE, Tolerance.parse("50$/h")))
    assert [one.target.value for one in retreats(*drawn, first, shared)] == [-1000.0, -2000.0]
    assert [one.target.value for one in retreats(*drawn, first, stated)] == [0.0, -1000.0, -2000.0]


def test_a_band_that_is_reached_only_after_a_retreat_has_the_same_beta(drawn, monkeypatch):
    """The first aim is far beyond what the network can serve; β stays the stated share, however far the way back is."""
    far = Aim(target=SHARE.around(1e9, CostTargetMode.PRIVATE), error=None)
    monkeypatch.setattr("gridveil.service.release.aim", lambda *_: far)
    found, released = repaired(*drawn, settings(CostTargetMode.PRIVATE))
    assert found.target.beta == pytest.approx(0.01 * found.target.value) and found.target.value < 1e6
    assert found.target.contains(released.result.cost)


def test_a_forecast_of_nothing_costs_nothing():
    """Refused before the draw: the ledger stays empty."""
    case = load_case("veil2")
    ledger = ledger_of(case, alpha="10MVA", cap="3")
    with pytest.raises(InputError, match="beta as an amount"):
        make_release(case, settings(CostTargetMode.FORECAST, forecast=0.0), LedgerAccount(ledger))
    assert len(ledger.history().charges) == 0


def test_a_declared_cost_of_nothing_costs_nothing(monkeypatch):
    """Refused before the draw: the ledger stays empty."""
    case = load_case("veil2")
    ledger = ledger_of(case, alpha="10MVA", cap="3")
    monkeypatch.setattr("gridveil.service.release._declared_cost", lambda *_: 0.0)
    with pytest.raises(InputError, match="beta as an amount"):
        make_release(case, settings(CostTargetMode.PUBLIC), LedgerAccount(ledger))
    assert len(ledger.history().charges) == 0


@pytest.fixture
def gas() -> Prepared:
    return prepare(PublicCase.of(load_case("veilgas")), solver="ipopt")


def test_gas_has_a_public_cost_that_beta_is_no_share_of_less_than(gas):
    """The scale is O at made-up data; around a target well above a tenth of it, β is the share of the target alone."""
    made_up, origin = gas.made_up()
    assert gas.cost_scale.value == pytest.approx(gas.solves.afresh(made_up).cost, rel=1e-6)
    assert gas.cost_scale.value > 0.1 and gas.cost_scale.origin == origin
    stated = ReleaseSettings(
        epsilon="1", alpha="0.5kg/s", beta=SHARE, target=CostTargetSettings(mode=CostTargetMode.FORECAST, forecast=0.0)
    )
    assert band_around(gas, stated, 0.0).beta == pytest.approx(0.01 * SMALL * gas.cost_scale.value)
    assert band_around(gas, stated, 7.0).beta == 0.07
    assert band_around(gas, replace(stated, beta=Tolerance.parse("0.3kg/s")), 0.0).beta == 0.3


def test_the_scale_is_made_from_public_data_alone():
    """Other true values, same scale, bit for bit."""
    case = load_case("veilgas")
    other = replace(case, secret=replace(case.secret, values=SecretValues(3.0 * published_values(case))))
    scales = [prepare(PublicCase.of(one), solver="ipopt").cost_scale for one in (case, other)]
    assert scales[0] == scales[1]


def test_a_stated_share_buys_the_total_where_costs_vanish(gas):
    """Values of half their size, but the right total: the estimate is the cost of the values as they should be."""
    truth = published_values(load_case("veilgas"))
    exact = replace(simulate_laplace(SecretValues(truth), epsilon=1.0, alpha=1e-6, seed=1), values=truth / 2)
    linear = linear_cost(gas.model, gas.solves, exact)
    assert linear.constant == 0.0 and np.array_equal(linear.weights, np.ones(len(truth)))
    total = NoisySum(
        value=float(truth.sum()), weights=linear.weights, offset=0.0, mechanism=exact.mechanism, simulation=True
    )
    found = estimate_cost(gas.model, gas.solves, exact, total)
    assert found.value == pytest.approx(gas.solves.afresh(truth).cost, rel=1e-4)
    assert abs(gas.solves.afresh(truth / 2).cost / found.value - 1) > 0.1


def test_power_networks_have_no_scale(drawn):
    assert drawn[0].cost_scale is None


def test_plurals():
    words = ("demand", "capacity", "datum", "load site", "delivery", "bay")
    assert [plural(word) for word in words] == ["demands", "capacities", "data", "load sites", "deliveries", "bays"]
