"""The promise in odds: known values, what the lattice and a private cost add, and the mechanism's own likelihood ratio."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from gridveil.core.text import fixed, number, percent
from gridveil.privacy.mechanisms import mechanism_for
from gridveil.report.promise import promise_of, rounded_up
from gridveil.sectors.registry import load_case


def card_of(*, epsilon=1.0, alpha=10.0, rounding: float | None = 0.0, cost=0.0, mode="forecast"):
    """The parts of a card that a promise is read off; ``cost`` is the ε of a sum with its own noise."""
    noise = {"epsilon": epsilon, "alpha": alpha, "rounding": rounding, "root_mean_square_noise": 24.5}
    total = {"epsilon": cost, "alpha": alpha, "rounding": None, "root_mean_square_noise": 3.0}
    return {
        "promise": {
            "field": "demand", "privacy_unit": "one load site", "privacy_unit_details": "the complex power P + jQ of one site",
            "epsilon": epsilon + cost, "alpha": alpha, "unit": "MVA",
        },
        "mechanisms": [noise, total] if cost else [noise],
        "cost_target": {"mode": mode},
    }  # fmt: skip


def test_known_odds():
    promise = promise_of(card_of())
    assert [(row.amount, row.odds, row.probability) for row in promise.rows] == [
        ("5 MVA", "1.65 : 1", "62.3\u2009%"),
        ("10 MVA", "2.72 : 1", "73.2\u2009%"),
        ("20 MVA", "7.39 : 1", "88.1\u2009%"),
    ]


@pytest.mark.parametrize(
    ("case", "epsilon", "alpha"), [("veil9", "1", "0.1"), ("veil9", "0.3", "1"), ("veilgas", "2", "0.5")]
)
def test_stated_odds_are_never_below_what_the_mechanism_can_lose(case, epsilon, alpha):
    field = load_case(case).field
    mechanism = mechanism_for(field, epsilon=epsilon, alpha=alpha)
    public = mechanism.facts()
    rho = mechanism.exact_scale * mechanism.epsilon - mechanism.alpha
    size = public.alpha * field.base
    promise = promise_of(card_of(epsilon=public.epsilon, alpha=size, rounding=public.rounding * field.base))
    for row, share in zip(promise.rows, (0.5, 1.0, 2.0), strict=True):
        lost = float((Fraction(share) * mechanism.alpha + rho) / mechanism.exact_scale)
        assert row.loss == pytest.approx(lost, rel=1e-9)
        assert float(row.odds.removesuffix(" : 1")) >= math.exp(lost) - 1e-9
        assert float(row.probability.rstrip("\u2009%")) / 100 >= 1 / (1 + math.exp(-lost)) - 1e-9
    assert promise.rows[1].loss == pytest.approx(public.epsilon)


def test_a_loss_without_a_law_is_charged_whole_even_below_alpha():
    rows = promise_of(card_of(epsilon=0.9, cost=0.1, mode="private")).rows
    assert [row.loss for row in rows] == pytest.approx([0.45 + 0.1, 1.0, 1.8 + 0.2])


def test_a_public_cost_is_called_so():
    assert promise_of(card_of(mode="public")).cost_is_public and not promise_of(card_of(mode="derived")).cost_is_public


def test_numbers_for_people():
    assert [number(x) for x in (0, 12345.678, -0.00123456, 1e-9, 99999.99, None, math.nan, math.inf)] == [
        "0", "12\u2009346", "\u22120.001235", "1·10^\u22129", "100\u2009000", "–", "–", "∞",
    ]  # fmt: skip
    assert fixed(-0.0004, 2) == "0.00" and fixed(-1234.5, 1) == "\u22121\u2009234.5"
    assert percent(0.01234) == "1.23\u2009%"
    assert rounded_up(2.7201) == "2.73" and rounded_up(2.72) == "2.72"
