"""The verdict of a page: good only where nothing speaks against publishing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gridveil.core.band import Tolerance
from gridveil.core.choices import CostTargetMode
from gridveil.report.promise import promise_of
from gridveil.report.verdict import Level, card_verdict, cost_number, curator_verdict
from gridveil.sectors.registry import load_case
from gridveil.service.account import NoAccount
from gridveil.service.card import card
from gridveil.service.release import make_release
from gridveil.service.settings import ReleaseSettings


@pytest.fixture(scope="module")
def facts():
    settings = ReleaseSettings(epsilon="1", alpha="0.1pu", beta=Tolerance.parse("1%"), seed=1)
    return card(make_release(load_case("veil9"), settings, NoAccount()).public)


@pytest.mark.parametrize(
    ("change", "level"),
    [
        ({}, Level.GOOD),
        ({"revealing": 1}, Level.CAUTION),
        ({"solved": False}, Level.CAUTION),
        ({"simulation": True}, Level.STOP),
        ({"simulation": True, "revealing": 3}, Level.STOP),
    ],
)
def test_a_release_is_good_only_without_reservations(facts, change, level):
    usual = {"simulation": False, "promise": promise_of(facts), "solved": True, "revealing": 0, "numbers": ()}
    verdict = curator_verdict(**(usual | change))
    assert verdict.level is level
    assert len(verdict.reasons) == max(1, len(change))


def test_a_published_cost_is_never_called_private(facts):
    public = facts | {"simulation": False, "cost_target": facts["cost_target"] | {"mode": CostTargetMode.PUBLIC.value}}
    verdict = card_verdict(public, promise_of(public))
    assert verdict.level is Level.CAUTION and "true optimal cost" in verdict.headline
    assert verdict.numbers[0].value == "no limit"
    usual = {"simulation": False, "solved": True, "revealing": 0, "numbers": ()}
    assert curator_verdict(promise=promise_of(public), **usual).level is Level.CAUTION


def test_a_simulation_says_so_before_anything_else(facts):
    assert card_verdict(facts, promise_of(facts)).level is Level.STOP
    assert card_verdict(facts | {"simulation": False}, promise_of(facts)).level is Level.GOOD


def test_the_change_of_cost_has_its_sign_and_is_unknown_without_a_true_cost():
    assert cost_number(200.0, 203.0, 198.0, 204.0, "$/h").value == "+1.5\u2009%"
    assert cost_number(-200.0, -203.0, -204.0, -198.0, "$/h").value.startswith("\u2212")
    assert cost_number(float("nan"), 203.0, 198.0, 204.0, "$/h").value == "unknown"


def test_the_odds_follow_the_card(facts):
    stronger = [dict(mechanism, epsilon=0.1) for mechanism in facts["mechanisms"]]
    weak, strong = (promise_of(facts | {"mechanisms": one}) for one in (facts["mechanisms"], stronger))
    assert strong.at_alpha.loss < weak.at_alpha.loss
    assert replace(weak.at_alpha, loss=0.0).odds == "1 : 1"
