"""The ledger and the release: charged before the draw, refused over the cap, free on reuse."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest
import yaml

from gridveil.privacy.ledger import Ledger
from gridveil.privacy.mechanisms.planar_laplace import PlanarLaplace


def release(cli, case, out, *options):
    return cli("release", case, "--out", out, "--json", *options)


@pytest.fixture
def book(tmp_path):
    return tmp_path / "veil2.ledger"


def test_a_release_is_charged_and_a_simulation_is_not(cli, tmp_path, book):
    assert release(cli, "veil2", tmp_path / "one", "--ledger", book, "--epsilon", "0.5").code == 0
    assert release(cli, "veil2", tmp_path / "two", "--ledger", book, "--seed", 1).code == 0
    assert Ledger.open(book).spent == Fraction(1, 2)
    assert json.loads((tmp_path / "one/curator/draw.json").read_text())["charge"] == Ledger.open(book).charges[0].id


def test_the_charge_is_on_file_before_the_draw(cli, tmp_path, book, monkeypatch):
    seen = []

    def crash(self, values):
        seen.append(Ledger.open(book).spent)
        raise KeyboardInterrupt

    monkeypatch.setattr(PlanarLaplace, "add_noise", crash)
    release(cli, "veil2", tmp_path / "out", "--ledger", book)
    assert seen == [1] and Ledger.open(book).spent == 1
    assert not (tmp_path / "out").exists()


def test_a_case_that_cannot_be_solved_costs_nothing(cli, tmp_path, book):
    from conftest import two_bus_net

    net = two_bus_net()
    net.gen[0][8] = 10.0
    (tmp_path / "short.m").write_text(net.text())
    assert release(cli, tmp_path / "short.m", tmp_path / "out", "--ledger", book).code == 3
    assert Ledger.open(book).spent == 0


def test_the_cap_refuses_and_says_what_was_spent_and_asked(cli, tmp_path, book):
    assert release(cli, "veil2", tmp_path / "one", "--ledger", book, "--budget", "1.5").code == 0
    refused = release(cli, "veil2", tmp_path / "two", "--ledger", book)
    assert refused.code == 2 and refused.err.count("\n") == 1
    assert "spent" in refused.err and "asked" in refused.err and "0.5" in refused.err
    assert not (tmp_path / "two").exists()
    assert release(cli, "veil2", tmp_path / "three", "--ledger", book, "--epsilon", "0.5").code == 0
    assert Ledger.open(book).remaining == 0


def test_reuse_is_free_and_keeps_the_noise(cli, tmp_path, book):
    assert release(cli, "veil2", tmp_path / "one", "--ledger", book).code == 0
    again = release(cli, "veil2", tmp_path / "two", "--ledger", book, "--reuse", tmp_path / "one", "--beta", "5%")
    assert again.code == 0, again.err
    assert Ledger.open(book).spent == 1
    first, second = (json.loads((tmp_path / name / "curator/draw.json").read_text()) for name in ("one", "two"))
    assert first == second
    foreign = release(cli, "veil9", tmp_path / "three", "--ledger", book, "--reuse", tmp_path / "one")
    assert foreign.code == 2 and "another case" in foreign.err
    elsewhere = release(
        cli, "veil2", tmp_path / "four", "--ledger", tmp_path / "new.ledger", "--reuse", tmp_path / "one"
    )
    assert elsewhere.code == 2 and "ledger" in elsewhere.err
    nothing = release(cli, "veil2", tmp_path / "five", "--ledger", book, "--reuse", tmp_path)
    assert nothing.code == 2 and "earlier release" in nothing.err


def test_a_reused_draw_keeps_its_promise_and_makes_no_ledger(cli, tmp_path, book):
    release(cli, "veil2", tmp_path / "one", "--ledger", book, "--alpha", "0.05")
    options = ("--ledger", book, "--reuse", tmp_path / "one")
    other = release(cli, "veil2", tmp_path / "two", *options, "--alpha", "0.1")
    assert other.code == 2 and "at α = 0.05; leave out epsilon and alpha" in other.err
    same = release(cli, "veil2", tmp_path / "three", *options, "--alpha", "0.05", "--epsilon", "1")
    assert same.code == 0 and json.loads(same.out)["alpha"] == 0.05
    mistyped = release(
        cli, "veil2", tmp_path / "four", "--ledger", tmp_path / "typo.ledger", "--reuse", tmp_path / "one"
    )
    assert mistyped.code == 2 and not (tmp_path / "typo.ledger").exists()


def test_a_private_cost_splits_the_budget_and_widens_beta(cli, tmp_path, book):
    plain = json.loads(release(cli, "veil2", tmp_path / "plain", "--seed", 1).out)
    options = ["--ledger", book, "--cost-target", "private", "--cost-sensitivity", "20", "--cost-share", "0.25"]
    made = release(cli, "veil2", tmp_path / "out", *options, "--epsilon", "2", "--confidence", "0.9")
    assert made.code == 0, made.err
    charges = Ledger.open(book).charges
    assert [charge.epsilon for charge in charges] == [Fraction(3, 2), Fraction(1, 2)]
    card = yaml.safe_load((tmp_path / "out/public/card.yaml").read_text())
    assert card["privacy_loss"]["privacy_parameters"]["epsilon"] == 2
    assert not any("cost" in text and "true" in text for text in card["dp_flavor"]["unprotected_quantities"])
    scale = 20 / 0.5
    widened = card["cost_target"]["beta"] - 0.01 * card["cost_target"]["value"]
    assert widened == pytest.approx(scale * 2.302585, rel=0.01)  # ln 10
    assert card["cost_target"]["value"] != plain["cost_target"]
    again = release(cli, "veil2", tmp_path / "again", *options, "--reuse", tmp_path / "out")
    assert again.code == 0, again.err
    assert Ledger.open(book).spent == 2


def test_a_draw_survives_a_release_that_fails(cli, tmp_path, book):
    """No demand has a cost of 10^9: no release, but the noise that was paid for can be used again."""
    impossible = ["--cost-target", "forecast", "--forecast-cost", "1e9", "--beta", "1"]
    failed = release(cli, "veil2", tmp_path / "failed", "--ledger", book, *impossible)
    assert failed.code == 3 and "--reuse" in failed.err
    assert [str(path.relative_to(tmp_path)) for path in (tmp_path / "failed").rglob("*.*")] == [
        "failed/curator/draw.json"
    ]
    again = release(cli, "veil2", tmp_path / "again", "--ledger", book, "--reuse", tmp_path / "failed")
    assert again.code == 0, again.err
    assert Ledger.open(book).spent == 1


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        (["--cost-target", "forecast"], "--forecast-cost"),
        (["--cost-target", "private"], "--cost-sensitivity"),
        (["--cost-target", "private", "--cost-sensitivity", "0"], "sensitivity"),
        (["--cost-target", "private", "--cost-sensitivity", "5", "--cost-share", "1"], "share"),
        (["--cost-target", "private", "--cost-sensitivity", "5", "--confidence", "1"], "confidence"),
        (["--cost-target", "private", "--cost-sensitivity", "5", "--seed", "1"], "simulation"),
    ],
)
def test_bad_cost_targets_cost_nothing(cli, tmp_path, book, options, hint):
    result = release(cli, "veil2", tmp_path / "out", "--ledger", book, *options)
    assert result.code == 2 and hint in result.err and result.err.count("\n") == 1
    assert not book.exists() or Ledger.open(book).spent == 0


def test_forecast_and_derived_targets_say_what_they_are(cli, tmp_path, book):
    made = release(
        cli, "veil2", tmp_path / "f", "--ledger", book, "--cost-target", "forecast", "--forecast-cost", "1500"
    )
    assert made.code == 0, made.err
    assert json.loads(made.out)["cost_target"] == 1500
    assert release(cli, "veil2", tmp_path / "d", "--ledger", book, "--cost-target", "derived").code == 0
    for name, words in (("f", "forecast"), ("d", "sites")):
        card = yaml.safe_load((tmp_path / name / "public/card.yaml").read_text())
        assert words in card["dp_flavor"]["unprotected_quantities"][-1]


def test_ledger_show(cli, tmp_path, book, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli("ledger", "show", "veil2").code == 2
    assert release(cli, "veil2", tmp_path / "one", "--budget", "4").code == 0  # the default ledger of a built-in name
    report = json.loads(cli("ledger", "show", "veil2", "--json").out)
    assert (report["spent"], report["cap"], report["remaining"]) == ("1", "4", "3")
    assert len(report["charges"]) == 1
