"""Public numbers that equal a demand are named; those that only look as if they did are not."""

from __future__ import annotations

from conftest import two_bus_net
from gridveil.privacy.limits import equal_numbers, in_words
from gridveil.sectors.registry import load_case


def test_a_limit_set_by_the_load_is_named(load_text):
    net = two_bus_net()
    net.branch[0][5:8] = [41.75] * 3
    assert in_words(equal_numbers(load_text(net.text()))) == [
        "branch rating, row 1: equals a site's demand",
        "branch rating, row 1: equals the total demand",
    ]


def test_no_limit_at_all_is_not_a_demand(load_text):
    """A branch without a rating and a generator without limits are infinite, which equals nothing."""
    net = two_bus_net()
    net.branch[0][5:8] = [0.0] * 3
    net.gen[0][3:5], net.gen[0][8] = [float("inf"), -float("inf")], float("inf")
    case = load_text(net.text().replace("inf", "Inf"))
    assert case.network.branch.rate[0] == case.network.generator.p_max[0] == float("inf")
    assert in_words(equal_numbers(case)) == []


def test_what_chance_explains_is_not_named():
    """Demands and limits of case118 are small whole numbers, so many of them are equal."""
    case = load_case("case118_ieee")
    assert len(equal_numbers(case)) > 100 and in_words(equal_numbers(case)) == []
