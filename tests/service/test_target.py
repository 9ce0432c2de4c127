"""Where the cost target leaves β without a meaning: said before anything is charged, or, if noise did it, as no release."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gridveil.bilevel.cost_estimate import CostEstimate
from gridveil.core.band import Tolerance
from gridveil.core.choices import CostTargetMode
from gridveil.core.errors import InputError, NoReleaseError
from gridveil.core.text import plural
from gridveil.privacy.mechanisms.simulation import simulate_laplace
from gridveil.privacy.noisy import Draw, NoisySum
from gridveil.sectors.registry import load_case
from gridveil.service.account import LedgerAccount
from gridveil.service.budget import ledger_of
from gridveil.service.prepare import Prepared, PublicCase, prepare
from gridveil.service.release import make_release, repaired
from gridveil.service.settings import CostTargetSettings, ReleaseSettings
from gridveil.service.target import Aim, aim, retreats

SHARE = Tolerance.parse("1%")


def settings(mode: CostTargetMode, beta: Tolerance = SHARE, forecast: float | None = None) -> ReleaseSettings:
    target = CostTargetSettings(mode=mode, forecast=forecast)
    return ReleaseSettings(epsilon="1", alpha="10MVA", beta=beta, target=target)


@pytest.fixture
def drawn() -> tuple[Prepared, Draw]:
    case = load_case("veil2")
    noisy = simulate_laplace(case.values, epsilon=1.0, alpha=0.01, seed=1)
    return prepare(PublicCase.of(case), solver="structured"), Draw(noisy=noisy)


@pytest.mark.parametrize("cost", [0.0, -3.0])
@pytest.mark.parametrize("mode", [CostTargetMode.DERIVED, CostTargetMode.PRIVATE])
def test_an_estimate_of_nothing_is_no_release_and_not_the_user_s_mistake(drawn, monkeypatch, mode, cost):
    """Large noise can leave a network without demand, and so without cost."""
    monkeypatch.setattr("gridveil.service.target.derived_cost", lambda *_: cost)
    with pytest.raises(NoReleaseError, match="zero or below"):
        aim(*drawn, settings(mode))
    assert aim(*drawn, settings(mode, beta=Tolerance.parse("50"))).target.beta == 50.0


def test_a_private_estimate_of_nothing_is_no_release_either(drawn, monkeypatch):
    prepared, draw = drawn
    nothing = CostEstimate(value=-3.0, deviation=1.0, from_values=0.0)
    monkeypatch.setattr("gridveil.service.target.estimate_cost", lambda *_: nothing)
    total = NoisySum(value=0.0, weights=np.ones(1), offset=0.0, mechanism=draw.noisy.mechanism, simulation=True)
    with pytest.raises(NoReleaseError, match="zero or below"):
        aim(prepared, replace(draw, total=total), settings(CostTargetMode.PRIVATE))


def test_retreats_without_a_meaning_are_left_out(drawn, monkeypatch):
    monkeypatch.setattr("gridveil.service.target.derived_cost", lambda *_: -1000.0)
    first = Aim(target=SHARE.around(2000.0, CostTargetMode.PRIVATE), error=None)
    shared, stated = (settings(CostTargetMode.PRIVATE, beta=beta) for beta in (SHARE, Tolerance.parse("50")))
    assert [one.target.value for one in retreats(*drawn, first, shared)] == [500.0]
    assert [one.target.value for one in retreats(*drawn, first, stated)] == [500.0, -250.0, -1000.0]


def test_a_band_that_is_reached_only_after_a_retreat_has_the_same_beta(drawn, monkeypatch):
    """The first aim is far beyond what the network can serve; β stays the stated share, however far the way back is."""
    far = Aim(target=SHARE.around(1e9, CostTargetMode.PRIVATE), error=None)
    monkeypatch.setattr("gridveil.service.release.aim", lambda *_: far)
    found, released = repaired(*drawn, settings(CostTargetMode.PRIVATE))
    assert found.target.beta == pytest.approx(0.01 * found.target.value) and found.target.value < 1e6
    assert found.target.contains(released.result.cost)


def test_a_forecast_of_nothing_is_refused_with_the_settings():
    with pytest.raises(InputError, match="beta as an amount"):
        settings(CostTargetMode.FORECAST, forecast=0.0)


def test_a_declared_cost_of_nothing_costs_nothing(monkeypatch):
    """Refused before the draw: the ledger stays empty."""
    case = load_case("veil2")
    ledger = ledger_of(case, alpha="10MVA", cap="3")
    monkeypatch.setattr("gridveil.service.release._declared_cost", lambda *_: 0.0)
    with pytest.raises(InputError, match="beta as an amount"):
        make_release(case, settings(CostTargetMode.PUBLIC), LedgerAccount(ledger))
    assert len(ledger.history().charges) == 0


def test_plurals():
    words = ("demand", "capacity", "datum", "load site", "delivery", "bay")
    assert [plural(word) for word in words] == ["demands", "capacities", "data", "load sites", "deliveries", "bays"]
