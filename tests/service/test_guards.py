"""Guards before a draw: units, sizes, further draws; what people see of each mistake, on the command line and in Python."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import gridveil
from conftest import Matpower, two_bus_net
from gridveil.core.band import Tolerance
from gridveil.core.choices import DemandBounds
from gridveil.core.errors import InputError
from gridveil.core.quantity import parse_distance
from gridveil.privacy.ledger import Ledger
from gridveil.privacy.limits import equal_numbers
from gridveil.privacy.mechanisms import mechanism_for
from gridveil.sectors.registry import load_case, sector_of
from gridveil.service.budget import ledger_of
from gridveil.service.guards import FURTHER_DRAW, LARGE_ALPHA
from gridveil.service.preflight import expected_negative, preflight
from gridveil.service.prepare import PublicCase
from gridveil.service.settings import ReleaseSettings
from gridveil.service.simulated import odds, simulated_releases

SETTINGS = ReleaseSettings(epsilon="1", alpha="10MVA", beta=Tolerance.parse("1%"))


def message(action) -> str:
    with pytest.raises(InputError) as caught:
        action()
    return str(caught.value)


# --- numbers without a unit -------------------------------------------------------------------------------------------


def test_a_bare_alpha_is_refused_with_both_readings(cli, tmp_path, ledger_home):
    told = "alpha 10 has no unit: 10 means 1000 MVA (per unit of 100 MVA) or 10 MVA: write 10pu or 10MVA"
    refused = cli("release", "veil9", "--alpha", "10", "--budget", "3", "--out", tmp_path / "out")
    assert (refused.code, refused.err) == (2, f"gridveil: {told}\n")
    assert message(lambda: gridveil.load("veil9").release(alpha=10, budget=3)) == told
    assert not (tmp_path / "out").exists() and not list(ledger_home.rglob("*.ledger"))


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("ledger create", ("--alpha", "10", "--budget", "3")),
        ("audit", ("--alpha", "0.1")),
        ("explore", ("--alpha", "0.1,10MVA")),
    ],
)
def test_no_command_takes_a_bare_alpha(cli, command, options):
    refused = cli(*command.split(), "veil9", *options)
    assert refused.code == 2 and "has no unit" in refused.err and refused.err.count("\n") == 1


def test_a_bare_beta_is_refused_with_both_readings(cli, tmp_path):
    told = "beta 0.01 has no unit: 0.01 means 1 % of the cost, or 0.01 in its unit: write 1%, or 0.01$/h (for gas 0.01kg/s)"
    refused = cli("release", "veil9", "--beta", "0.01", "--out", tmp_path / "out")
    assert (refused.code, refused.err) == (2, f"gridveil: {told}\n")
    assert message(lambda: gridveil.load("veil9").release(beta="0.01", seed=1)) == told
    with pytest.raises(InputError, match="has no unit"):
        gridveil.load("veil9").explore(beta="1")


def test_an_amount_is_in_the_unit_of_the_cost(cli, tmp_path):
    refused = cli("release", "veil9", "--beta", "5kg/s", "--seed", "1", "--out", tmp_path / "out")
    assert refused.code == 2 and "the cost of this case is in $/h, not kg/s; write 5$/h" in refused.err
    assert Tolerance.parse("250 $/h").half_width(1e6) == 250
    with pytest.raises(InputError, match=r"in kg/s, not \$/h"):
        gridveil.load("veilgas").release(alpha="0.1kg/s", beta="5$/h", seed=1)


def test_units_of_alpha():
    field = load_case("veil9").field
    for text in ("10MVA", "10 MW", "10000kVA", "0.01GVA", "0.1pu", "1/10pu", "1e1MVAr"):
        assert parse_distance(text, field) == Fraction(1, 10), text
    assert parse_distance("2kg/s", load_case("veilgas").field) == 2
    with pytest.raises(InputError, match="did you mean MVA"):
        parse_distance("10mva", field)
    # A unit of the user's own has one reading.
    assert parse_distance("10", replace(field, unit="t", base=1.0)) == parse_distance(
        "10t", replace(field, unit="t", base=1.0)
    )


def test_a_study_file_states_alpha_per_unit(tmp_path):
    from gridveil.study.study_file import read_study

    text = 'name = "s"\nepsilon = 1\nmethods = ["auto"]\nseeds = 1\n[[network]]\ncase = "veil2"\n'
    text += "[[grid]]\nalpha = [{}]\nbeta = [{}]\n"
    for alpha, beta, told in (
        (0.1, '"1%"', "'0.1pu'"),
        ('"10MVA"', '"1%"', "per unit"),
        ('"0.1pu"', "0.01", "such as '1%'"),
    ):
        (tmp_path / "s.toml").write_text(text.format(alpha, beta))
        with pytest.raises(InputError, match=told):
            read_study(tmp_path / "s.toml")
    (tmp_path / "s.toml").write_text(text.format('"0.1pu"', '"1%"'))
    (cell,) = read_study(tmp_path / "s.toml").cells
    assert (cell.alpha, cell.beta) == (0.1, 0.01)


# --- α against public sizes, and further draws ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["veil9", "case118_ieee", "case300_ieee", "veilgas"])
def test_public_facts_suggest_the_order_of_a_demand(name):
    case = load_case(name)
    guess = float(np.median(sector_of(case.network).usual_sizes(case.network)))
    truth = float(np.median(np.abs(case.values.reveal())))
    assert truth / 3 < guess < 3 * truth


def test_public_facts_are_enough_for_a_pre_flight():
    found = preflight(PublicCase.of(load_case("veil9")), SETTINGS, None, cap="3", runs=0)
    assert found.equal_numbers is None and found.alpha.usual_size == pytest.approx(32.594, rel=1e-4)


def test_an_alpha_beyond_most_demands_must_be_confirmed_before_the_ledger_is_made(cli, tmp_path, ledger_home):
    large = ("release", "veil9", "--alpha", "1000MVA", "--budget", "3", "--out", tmp_path / "out")
    refused = cli(*large)
    assert refused.code == 2 and "nothing was drawn or charged" in refused.err and "--yes" in refused.err
    assert "α = 1 000 MVA (10 per unit of 100 MVA)" in refused.err.replace("\u2009", " ")
    assert not list(ledger_home.rglob("*.ledger")) and not (tmp_path / "out").exists()
    with pytest.raises(InputError, match="confirm=True"):
        gridveil.load("veil9").release(alpha="1000MVA", budget=3)
    assert not list(ledger_home.rglob("*.ledger"))
    assert cli(*large, "--yes", "--beta", "50%").code in (0, 3)  # such noise may well leave nothing to release
    assert list(ledger_home.rglob("*.ledger"))


def test_the_base_of_a_case_shows_in_the_echo(cli, tmp_path):
    """A base of 1 MVA: the same per-unit α protects a hundredth."""
    net = two_bus_net()
    net.base = 1.0
    source = tmp_path / "one.m"
    source.write_text(net.text())
    options = ("--sites", "all", "--budget", "3", "--beta", "50%", "--out", tmp_path / "out")
    told = cli("release", source, "--alpha", "0.1pu", *options)
    assert "α = 0.1 MVA (0.1 per unit of 1 MVA)" in told.err
    assert "0.0" in told.err.split("per unit of 1 MVA)")[1]  # its share of a usual demand: next to nothing
    assert "hidden less well" in told.err


def test_a_further_draw_is_said_and_asked_with_the_sum(cli, tmp_path):
    first = ("release", "veil2", "--alpha", "1MVA", "--beta", "20%", "--cost-target", "derived")
    assert cli(*first, "--budget", "3", "--out", tmp_path / "one").code == 0
    refused = cli(*first, "--out", tmp_path / "two")
    assert refused.code == 2 and not (tmp_path / "two").exists()
    assert "ε = 1 is spent, this draw takes 1 more, together 2 of 3" in refused.err and "--reuse" in refused.err
    case = gridveil.load("veil2")
    with pytest.raises(InputError, match="together 2 of 3"):
        case.release(alpha="1MVA", beta="20%", cost_target="derived")
    assert ledger_of(load_case("veil2")).spent == 1
    assert cli(*first, "--out", tmp_path / "two", "--reuse", tmp_path / "one").code == 0  # free: nothing to ask
    assert cli(*first, "--out", tmp_path / "three", "--yes").code == 0
    assert case.release(alpha="1MVA", beta="20%", cost_target="derived", confirm=True).status == "verified"
    assert ledger_of(load_case("veil2")).spent == 3


def test_a_terminal_asks_and_takes_no_for_an_answer(cli, tmp_path, monkeypatch):
    import io
    import sys

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    first = ("release", "veil2", "--alpha", "1MVA", "--beta", "20%", "--cost-target", "derived")
    assert cli(*first, "--budget", "3", "--out", tmp_path / "one").code == 0
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    refused = cli(*first, "--out", tmp_path / "two")
    assert refused.code == 2 and "Go on? [y/N]" in refused.err and ledger_of(load_case("veil2")).spent == 1
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    agreed = cli(*first, "--out", tmp_path / "two")
    assert agreed.code == 0 and agreed.err.count("Go on?") == 1 and ledger_of(load_case("veil2")).spent == 2


# --- the pre-flight ---------------------------------------------------------------------------------------------------


def test_check_draws_and_charges_nothing(cli, tmp_path, ledger_home, monkeypatch):
    from gridveil.privacy.mechanisms.exact_sampling import SYSTEM_ENTROPY

    monkeypatch.setattr(type(SYSTEM_ENTROPY), "read", lambda *_: pytest.fail("drawn"))
    shown = cli("release", "veil9", "--alpha", "10MVA", "--budget", "3", "--check", "--json")
    found = json.loads(shown.out)
    assert (shown.code, found["go"], found["nothing_charged"], found["schema"]) == (0, True, True, "gridveil/1")
    assert found["secret"]["sites"] == 7 and found["alpha"]["alpha"] == 10 and found["noise"]["unit"] == "MVA"
    assert found["budget"] == {
        "exists": False, "cap": 3.0, "spent": 0.0, "request": 1.0, "left": 2.0, "alpha": 10.0, "unit": "MVA", "draws": 0
    }  # fmt: skip
    assert 0 < found["odds"]["verified"] <= found["odds"]["runs"] <= 20
    assert not list(ledger_home.rglob("*.ledger"))


def test_check_is_no_go_without_budget_or_sites(cli, tmp_path):
    assert cli("release", "veil2", "--alpha", "1MVA", "--check").code == 2
    ledger_of(load_case("veil2"), alpha="1MVA", cap="1")
    over = cli("release", "veil2", "--alpha", "1MVA", "--epsilon", "2", "--check")
    assert over.code == 2 and over.out.startswith("NO-GO") and "over budget" in over.out
    source = tmp_path / "town.m"
    source.write_text(two_bus_net().text())
    undeclared = cli("release", source, "--alpha", "1MVA", "--budget", "2", "--check")
    assert undeclared.code == 2 and "--sites" in undeclared.out


def leaking_net() -> Matpower:
    """A rating that somebody made from the load: 41.75 MW; and a round one that equals another load by chance."""
    net = two_bus_net()
    net.add_bus(3, pd=90.0, qd=5.5)
    net.add_branch(2, 3, rate=41.75)
    return net


def test_numbers_that_equal_a_demand_are_named_with_bus_and_value(cli, tmp_path):
    source = tmp_path / "leak.m"
    source.write_text(leaking_net().text())
    found = equal_numbers(load_case(str(source)))
    real = [one for one in found if not one.coincidence]
    assert [(one.column, one.row, one.place, one.value, one.unit) for one in real] == [
        ("branch rating", 2, "2", 41.75, "MVA")
    ]
    assert any(
        one.value == 90 and one.digits == 1 and one.coincidence for one in found
    )  # the first rating, 90 MVA, and a load of 90 MW
    told = cli("release", source, "--sites", "all", "--alpha", "1MVA", "--budget", "2", "--check", "--beta", "20%")
    assert "branch rating, row 2: 41.75 MVA is a site's demand at 2" in told.out
    assert "1 public number equals a true demand" in told.out


def test_chance_explains_equal_numbers_of_few_digits_among_many(load_text):
    """Thousands of numbers of three digits meet by chance; one of six digits does not."""
    generator = np.random.default_rng(1)
    net = Matpower()
    net.add_bus(1, kind=3)
    net.add_gen(1)
    loads = [*generator.integers(100, 1000, 300) / 10, 37.1834]
    for place, load in enumerate(loads, start=2):
        net.add_bus(place, pd=float(load))
        net.add_branch(1, place, rate=float(generator.integers(100, 1000) / 10))
    net.branch[0][5] = 37.1834

    found = equal_numbers(load_text(net.text()))
    sites = [one for one in found if one.column == "branch rating" and one.meaning == "a site's demand"]
    assert len(sites) > 20
    assert [one.value for one in sites if not one.coincidence] == [37.1834]


def test_the_release_itself_says_nothing_of_the_truth_before_it_draws(cli, tmp_path):
    """Messages beside the result are alike whatever the demands are, unless a person sits at a terminal."""
    texts = []
    for name, net in (("leak", leaking_net()), ("plain", leaking_net())):
        if name == "plain":
            net.bus[1][2] = 33.25
        source = tmp_path / name / "town.m"
        source.parent.mkdir()
        source.write_text(net.text())
        options = ("--sites", "all", "--alpha", "1MVA", "--dataset", name, "--budget", "2", "--beta", "50%")
        told = cli("release", source, *options, "--out", tmp_path / name / "out")
        assert told.code == 0
        # Lines with seconds, and the one that says after two of them that it is at work, depend on the machine.
        told_alike = (line for line in told.err.splitlines() if "(" not in line or "per unit" in line)
        texts.append([line for line in told_alike if not line.endswith("…")])
        assert ("1 public number equals a true demand" in told.out) == (name == "leak")
    assert texts[0] == texts[1]


def test_expected_negative_values_match_the_mechanism():
    for name in ("veil9", "veilgas"):
        case = load_case(name)
        field = case.field
        mechanism = mechanism_for(field, epsilon="1", alpha="0.3")
        sizes = np.full(4000, 0.5)
        noisy = mechanism.draw(sizes.astype(complex) if field.is_complex else sizes)
        counted = np.sum(noisy.real < 0)
        expected = expected_negative(sizes, mechanism.facts(), field.dimension)
        assert abs(counted - expected) < 5 * np.sqrt(expected)


def test_negative_values_are_announced_and_can_be_ruled_out():
    case = load_case("veil9")
    loud = replace(SETTINGS, alpha="30MVA")
    codes = [one.code for one in preflight(case, loud, None, cap="3", runs=0).warnings]
    assert "negative" in codes
    bounded = replace(loud, demand_bounds=DemandBounds.NONNEGATIVE)
    assert "negative" not in [one.code for one in preflight(case, bounded, None, cap="3", runs=0).warnings]


def test_simulated_releases_use_public_facts_alone():
    """The same network with other demands has the same odds, to the last bit."""
    from gridveil.core.secret import SecretValues
    from gridveil.service.prepare import prepare

    case = load_case("veil2")
    found = []
    for one in (case, case.with_values(SecretValues(3 * case.values.reveal()))):
        prepared = prepare(PublicCase.of(one), solver="structured")
        found.append(list(simulated_releases(prepared, replace(SETTINGS, alpha="5MVA"), runs=3)))
    assert [run.cost_error for run in found[0]] == [run.cost_error for run in found[1]]
    summed = odds(found[0])
    assert summed is not None and summed.runs == 3 and summed.failed == 1 - summed.verified / 3


def test_questions_stand_in_the_pre_flight(tmp_path):
    case = load_case("veil2")
    ledger = ledger_of(case, alpha="1MVA", cap="9")
    ledger.charge(epsilon="1", alpha="1", unit="MVA", mechanism="m", purpose="p")
    found = preflight(case, replace(SETTINGS, alpha="500MVA"), Ledger.open(ledger.path), runs=0)
    assert [question.code for question in found.questions] == [LARGE_ALPHA, FURTHER_DRAW] and found.go


def test_python_has_the_defaults_of_the_command_line(cli, tmp_path):
    stated = json.loads(cli("release", "veil2", "--seed", "4", "--out", tmp_path / "out", "--json").out)
    made = gridveil.load("veil2").release(seed=4)
    assert (made.summary()["alpha"], made.summary()["epsilon"], made.cost) == (10.0, 1.0, stated["cost"])


def test_python_sees_in_the_pre_flight_what_the_command_line_says(tmp_path):
    net = leaking_net()
    net.base = 1.0
    (tmp_path / "leak.m").write_text(net.text())
    case = gridveil.load(tmp_path / "leak.m", sites="all")
    found = case.preflight(alpha="0.1pu", budget=2, runs=0)
    assert "α = 0.1 MVA (0.1 per unit of 1 MVA)" in found.alpha.words
    assert [one.place for one in found.equal_numbers or () if not one.coincidence] == ["2"]
    loud = gridveil.load("veil9").preflight(alpha="30MVA", budget=2, runs=0)
    assert any("--demand-bounds nonnegative" in one.text for one in loud.warnings)
    assert message(lambda: case.preflight(alpha=10)).startswith("alpha 10 has no unit")


def test_the_command_line_announces_negative_values_before_and_counts_them_after(cli, tmp_path):
    options = ("--alpha", "30MVA", "--beta", "20%", "--cost-target", "derived", "--budget", "3")
    for seed in range(5):  # noise of this size makes a demand negative sooner or later
        made = cli("release", "veil9", *options, "--seed", seed, "--out", tmp_path / str(seed))
        assert "will be negative" in made.err and "--demand-bounds nonnegative" in made.err
        if " negative; if all are loads" in made.out:
            break
    else:
        pytest.fail("no simulated release had a negative value")


def test_the_package_shows_its_names():
    assert {"load", "protect", "GridCase", "Ledger", "load_case", "__version__"} <= set(dir(gridveil))
    assert "_HOMES" not in dir(gridveil)
