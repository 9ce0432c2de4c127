"""A mechanism from outside: a staircase on a lattice, made against the public contract only, and used in a release."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from gridveil.core.band import Tolerance
from gridveil.core.choices import CostTargetMode
from gridveil.privacy import mechanisms
from gridveil.privacy.mechanisms.exact_sampling import SystemEntropy
from gridveil.privacy.mechanisms.mechanism import Mechanism
from gridveil.privacy.noisy import MechanismFacts


class Staircase(Mechanism):
    """Noise that is constant on steps of width α and falls by e^-ε from one to the next (Geng and Viswanath, γ = 1).

    Drawn in floats, so it is an example of the contract and not a mechanism to rely on.
    """

    name = "staircase"
    dimension = 1
    proof_note = "none: an example"

    def __init__(self, epsilon, alpha, entropy):
        self._epsilon, self._alpha, self._entropy = epsilon, alpha, entropy

    epsilon = property(lambda self: self._epsilon)
    alpha = property(lambda self: self._alpha)
    rounding = property(lambda self: None)
    is_private = property(lambda self: isinstance(self._entropy, SystemEntropy))
    expected_square = property(lambda self: 2 * (float(self._alpha) / float(self._epsilon)) ** 2)

    def draw(self, values):
        generator = np.random.default_rng(list(self._entropy.read(32)))
        n, alpha = len(values), float(self._alpha)
        stairs = generator.geometric(1 - math.exp(-float(self._epsilon)), n) - 1
        return values + generator.choice([-1, 1], n) * alpha * (stairs + generator.uniform(0, 1, n))

    def facts(self):
        return MechanismFacts(
            name=self.name,
            epsilon=float(self._epsilon),
            alpha=float(self._alpha),
            rounding=None,
            step=0.0,
            scale=float(self._alpha / self._epsilon),
            expected_square=self.expected_square,
            proof_note=self.proof_note,
        )


@pytest.fixture
def staircase(monkeypatch):
    monkeypatch.setitem(
        mechanisms.MECHANISMS, "staircase", lambda field, epsilon, alpha, entropy: Staircase(epsilon, alpha, entropy)
    )


def test_the_loss_of_a_mechanism_without_a_linear_law_counts_started_steps():
    mechanism = Staircase(Fraction(1, 2), Fraction(1, 10), SystemEntropy())
    assert mechanism.loss(Fraction(1, 20)) == Fraction(1, 2)
    assert mechanism.loss(Fraction(1, 4)) == Fraction(3, 2)


def test_a_release_can_name_it(staircase):
    import gridveil

    made = gridveil.load("veilgas").release(
        epsilon=1, alpha="0.5kg/s", beta="5%", seed=1, mechanism="staircase", cost_target="derived"
    )
    assert made.status == "verified"
    assert made.card["mechanisms"][0]["name"] == "staircase"


def test_its_card_says_that_nobody_audited_it(staircase):
    import gridveil

    case = gridveil.load("veilgas")
    made = case.release(epsilon=1, alpha="0.5kg/s", beta="5%", seed=1, mechanism="staircase", cost_target="derived")
    assert made.card["mechanisms"][0]["provided_by"] == "code that the curator registered"
    assert made.card["assumptions"][0].endswith("gridveil neither wrote nor audited it")
    own = case.release(epsilon=1, alpha="0.5kg/s", beta="5%", seed=1, cost_target="derived").card
    assert "provided_by" not in own["mechanisms"][0] and "audited" not in str(own["assumptions"])


def test_one_that_states_a_smaller_loss_than_was_asked_for_is_refused_before_the_charge(monkeypatch, tmp_path):
    """The ledger is charged with what a mechanism states, so it must state what the user asked for."""
    from gridveil.core.errors import InputError
    from gridveil.sectors.registry import load_case
    from gridveil.service.account import LedgerAccount
    from gridveil.service.budget import ledger_of
    from gridveil.service.release import make_release
    from gridveil.service.settings import CostTargetSettings, ReleaseSettings

    monkeypatch.setitem(
        mechanisms.MECHANISMS, "cheap", lambda field, epsilon, alpha, entropy: Staircase(epsilon / 2, alpha, entropy)
    )
    case = load_case("veilgas")
    ledger = ledger_of(case, alpha="0.5kg/s", cap="3", path=tmp_path / "gas.ledger")
    settings = ReleaseSettings(
        epsilon="1",
        alpha="0.5kg/s",
        beta=Tolerance.parse("5%"),
        target=CostTargetSettings(mode=CostTargetMode.DERIVED),
        mechanism="cheap",
    )
    with pytest.raises(InputError, match="'cheap' promises another ε or α"):
        make_release(case, settings, LedgerAccount(ledger))
    assert ledger.history().charges == ()
