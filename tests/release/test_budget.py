"""The ledger and the release: charged before the draw, refused over the cap, free on reuse, one for each data set."""

from __future__ import annotations

import json
import math
import shutil
from fractions import Fraction

import numpy as np
import pytest
import yaml

from conftest import optimum, two_bus_net
from gridveil.core.band import Tolerance
from gridveil.core.choices import CostTargetMode
from gridveil.core.deadline import OutOfTimeError, seconds_left
from gridveil.privacy.curator import Curator
from gridveil.privacy.ledger import Ledger
from gridveil.privacy.mechanisms.planar_laplace import PlanarLaplace
from gridveil.sectors.builtin import resolve_case
from gridveil.sectors.registry import load_case
from gridveil.service.account import LedgerAccount, NoAccount
from gridveil.service.budget import ledger_of
from gridveil.service.publish import publish
from gridveil.service.release import make_release
from gridveil.service.reuse import load_draw
from gridveil.service.settings import CostTargetSettings, ReleaseSettings

DERIVED = ("--cost-target", "derived")


def release(cli, case, out, *options):
    return cli("release", case, "--out", out, "--json", "--yes", "--beta", "20%", *options)


def first_release(cli, case, out, book, *options, budget="100"):
    """The release that makes the ledger, with its cap, at α = 1 MVA."""
    return release(cli, case, out, "--ledger", book, "--budget", budget, "--alpha", "1MVA", *DERIVED, *options)


def again(cli, case, out, *options):
    return release(cli, case, out, "--alpha", "1MVA", *DERIVED, *options)


def draw_file(folder):
    return folder / "curator" / "draw.json"


@pytest.fixture
def book(tmp_path):
    return tmp_path / "veil2.ledger"


# --- charges and the cap ----------------------------------------------------------------------------------------------


def test_a_release_is_charged_and_a_simulation_is_not(cli, tmp_path, book):
    assert first_release(cli, "veil2", tmp_path / "one", book, "--epsilon", "0.5").code == 0
    assert again(cli, "veil2", tmp_path / "two", "--ledger", book, "--seed", 1).code == 0
    assert Ledger.open(book).spent == Fraction(1, 2)
    assert json.loads(draw_file(tmp_path / "one").read_text())["charge"] == Ledger.open(book).charges[0].id


def test_the_charge_is_on_file_before_the_draw(cli, tmp_path, book, monkeypatch):
    seen = []

    def crash(self, values):
        seen.append(Ledger.open(book).spent)
        raise KeyboardInterrupt

    monkeypatch.setattr(PlanarLaplace, "add_noise", crash)
    first_release(cli, "veil2", tmp_path / "out", book)
    assert seen == [1] and Ledger.open(book).spent == 1
    assert [path.name for path in (tmp_path / "out").rglob("*.*")] == [
        "begun.json"
    ]  # what goes on under the same charge


def test_a_cost_that_cannot_be_declared_public_costs_nothing(cli, tmp_path, book):
    net = two_bus_net()
    net.gen[0][8] = 10.0
    (tmp_path / "short.m").write_text(net.text())
    asked = ("--ledger", book, "--budget", "5", "--alpha", "1MVA", "--sites", "all", "--declare-cost-public")
    assert release(cli, tmp_path / "short.m", tmp_path / "out", *asked).code == 3
    assert Ledger.open(book).spent == 0 and not (tmp_path / "out").exists()


def test_no_release_without_a_cap(cli, tmp_path, ledger_home):
    """Before, the first release made a ledger without a cap."""
    refused = again(cli, "veil2", tmp_path / "one")
    assert refused.code == 2 and refused.err.count("\n") == 1
    assert "gridveil ledger create CASE --budget" in refused.err and "or pass --budget" in refused.err
    assert not (tmp_path / "one").exists() and not list(ledger_home.rglob("*.ledger"))
    made = again(cli, "veil2", tmp_path / "one", "--budget", "3")  # the same folder, as nothing was left in it
    assert made.code == 0, made.err
    (ledger,) = ledger_home.rglob("*.ledger")
    assert (Ledger.open(ledger).cap, Ledger.open(ledger).spent, Ledger.open(ledger).alpha) == (3, 1, 1)


def test_a_ledger_can_be_created_first(cli, tmp_path, ledger_home):
    made = json.loads(cli("ledger", "create", "veil2", "--alpha", "2MVA", "--budget", "3", "--json").out)
    assert (made["alpha"], made["unit"], made["cap"], made["spent"]) == (2, "MVA", 3, 0) and made["exact"]["cap"] == "3"
    assert again(cli, "veil2", tmp_path / "one").code == 0
    # ε = 1 at 1 MVA is at most 2 at the ledger's 2 MVA, and a little less, as rounding is paid for only once.
    assert 1.99 < Ledger.open(made["ledger"]).spent <= 2


def test_the_cap_refuses_before_anything_is_drawn(cli, tmp_path, book, monkeypatch):
    assert first_release(cli, "veil2", tmp_path / "one", book, budget="1.5").code == 0
    with monkeypatch.context() as patch:
        patch.setattr(PlanarLaplace, "draw", lambda *_: pytest.fail("drawn"))
        refused = again(cli, "veil2", tmp_path / "two")
    assert refused.code == 2 and refused.err.count("\n") == 1
    assert "over budget, nothing was drawn" in refused.err
    assert "needs ε = 1, remaining ε = 0.5, at α = 1 MVA" in refused.err and "--reuse" in refused.err
    assert not (tmp_path / "two").exists() and Ledger.open(book).spent == 1
    assert again(cli, "veil2", tmp_path / "two", "--epsilon", "0.5").code == 0
    assert Ledger.open(book).remaining == 0


def test_the_whole_of_a_private_cost_must_be_covered_before_the_first_draw(cli, tmp_path, book):
    """The values alone would fit: then the draw would be paid for, and the sum refused."""
    private = ("--alpha", "1MVA", "--cost-share", "0.25", "--epsilon", "2")
    refused = release(cli, "veil2", tmp_path / "one", "--ledger", book, "--budget", "1.9", *private)
    assert refused.code == 2 and "needs ε = 2" in refused.err
    assert Ledger.open(book).charges == () and not (tmp_path / "one").exists()


def test_a_private_cost_splits_the_budget(cli, tmp_path, book):
    options = ("--alpha", "1MVA", "--cost-share", "0.25", "--epsilon", "2", "--ledger", book)
    made = release(cli, "veil2", tmp_path / "out", *options, "--budget", "2")
    assert made.code == 0, made.err
    charges = Ledger.open(book).charges
    assert [charge.epsilon for charge in charges] == [Fraction(3, 2), Fraction(1, 2)]
    assert [charge.alpha for charge in charges] == [1, 1] and Ledger.open(book).remaining == 0
    card = yaml.safe_load((tmp_path / "out/public/card.yaml").read_text())
    assert (card["promise"]["epsilon"], card["promise"]["alpha"], card["promise"]["unit"]) == (2, 1, "MVA")
    assert [part["epsilon"] for part in card["mechanisms"]] == [1.5, 0.5]
    assert not any("true" in text for text in card["unprotected"])
    assert card["cost_target"]["mode"] == "private"
    # β is what was asked for: the noise on the target does not widen it.
    assert card["cost_target"]["beta"] == pytest.approx(0.2 * card["cost_target"]["value"])
    assert card["data_set"] == {
        "epsilon": 2.0, "cap": 2.0, "alpha": 1.0, "unit": "MVA", "draws": 2, "delta": 0.0, "protects": "profile"
    }  # fmt: skip


# --- reuse ------------------------------------------------------------------------------------------------------------


def test_reuse_is_free_and_keeps_the_noise(cli, tmp_path, book):
    assert first_release(cli, "veil2", tmp_path / "one", book, budget="1").code == 0
    same = release(cli, "veil2", tmp_path / "two", "--reuse", tmp_path / "one", "--beta", "30%", *DERIVED)
    assert same.code == 0, same.err
    assert Ledger.open(book).spent == 1
    assert json.loads(draw_file(tmp_path / "one").read_text()) == json.loads(draw_file(tmp_path / "two").read_text())
    nothing = release(cli, "veil2", tmp_path / "five", "--reuse", tmp_path)
    assert nothing.code == 2 and "earlier release" in nothing.err


def test_reuse_needs_the_ledger_that_knows_the_charge(cli, tmp_path, book, ledger_home):
    assert first_release(cli, "veil2", tmp_path / "one", book).code == 0
    typo = tmp_path / "typo.ledger"
    elsewhere = release(cli, "veil2", tmp_path / "two", "--ledger", typo, "--reuse", tmp_path / "one")
    assert elsewhere.code == 2 and str(book) in elsewhere.err and not typo.exists()
    # Another data set's ledger does not know the charge.
    other = ("--dataset", "winter", "--budget", "5", "--reuse", tmp_path / "one")
    foreign = release(cli, "veil2", tmp_path / "three", *other)
    assert foreign.code == 2 and "no charge has the id" in foreign.err
    assert not any((tmp_path / name).exists() for name in ("two", "three"))


def test_reuse_with_other_data_is_refused(cli, tmp_path):
    """Of another network, and, worse, of the same network: the noise was not drawn for these values."""
    source, changed = tmp_path / "town.m", tmp_path / "changed.m"
    text = resolve_case("veil2").read_text()
    source.write_text(text)
    changed.write_text(text.replace("\t60\t20\t", "\t61\t20\t"))
    assert again(cli, source, tmp_path / "one", "--sites", "all", "--budget", "5").code == 0
    for name, case, options in (("two", changed, ("--sites", "all")), ("three", "veil9", ("--budget", "5"))):
        refused = release(cli, case, tmp_path / name, "--reuse", tmp_path / "one", *options)
        assert refused.code == 2 and "other data than this case" in refused.err, name
        assert not (tmp_path / name).exists()
    assert release(cli, source, tmp_path / "two", "--sites", "all", "--reuse", tmp_path / "one", *DERIVED).code == 0


@pytest.mark.parametrize(
    "edit",
    [
        lambda draw: draw["values"]["real"].__setitem__(0, 0.61),
        lambda draw: draw["mechanism"].update(epsilon=0.1),
        lambda draw: draw.update(simulation=True),
        lambda draw: draw.update(charge="0" * 16),
        lambda draw: draw.update(declared_cost=1500.0),
        lambda draw: draw.pop("digest"),
        lambda draw: draw.update(digest="0" * 64),
    ],
    ids=["value", "epsilon", "simulation", "charge", "cost", "no digest", "other digest"],
)
def test_an_edited_draw_is_refused(cli, tmp_path, book, edit):
    assert first_release(cli, "veil2", tmp_path / "one", book).code == 0
    stored = draw_file(tmp_path / "one")
    document = json.loads(stored.read_text())
    edit(document)
    stored.write_text(json.dumps(document))
    refused = release(cli, "veil2", tmp_path / "two", "--reuse", tmp_path / "one")
    assert refused.code == 2 and "was changed after it was written" in refused.err
    assert not (tmp_path / "two").exists()


def test_epsilon_and_alpha_on_the_card_come_from_the_ledger(cli, tmp_path, book):
    assert first_release(cli, "veil2", tmp_path / "one", book, "--epsilon", "1/2").code == 0
    options = ("--ledger", book, "--reuse", tmp_path / "one", *DERIVED)
    for other in (("--alpha", "2MVA"), ("--epsilon", "3")):
        refused = release(cli, "veil2", tmp_path / "two", *options, *other)
        assert refused.code == 2 and "was paid for at ε = 0.5 and α = 1 MVA" in refused.err
    for name, stated in (("silent", ()), ("stated", ("--epsilon", "0.5", "--alpha", "1000kVA"))):
        same = release(cli, "veil2", tmp_path / name, *options, *stated)
        assert same.code == 0, same.err
        assert (json.loads(same.out)["epsilon"], json.loads(same.out)["alpha"]) == (0.5, 1)
        promise = yaml.safe_load((tmp_path / name / "public/card.yaml").read_text())["promise"]
        assert (promise["epsilon"], promise["alpha"], promise["unit"]) == (0.5, 1, "MVA")
    assert Ledger.open(book).spent == Fraction(1, 2)


def test_a_private_cost_is_reused_as_a_whole(cli, tmp_path, book):
    options = ("--alpha", "1MVA", "--epsilon", "2", "--ledger", book, "--budget", "2")
    first = release(cli, "veil2", tmp_path / "one", *options)
    assert first.code == 0, first.err
    same = release(cli, "veil2", tmp_path / "two", "--reuse", tmp_path / "one")
    assert same.code == 0, same.err
    for name in ("cost_target", "cost", "epsilon", "alpha"):
        assert json.loads(first.out)[name] == json.loads(same.out)[name]
    assert len(Ledger.open(book).charges) == 2


def test_reuse_of_a_declared_cost_does_not_solve_the_truth_again(tmp_path, monkeypatch):
    case = load_case("veil2")
    account = LedgerAccount(ledger_of(case, alpha="1MVA", cap="1"))
    settings = ReleaseSettings(
        epsilon="1",
        alpha="1MVA",
        beta=Tolerance.parse("20%"),
        target=CostTargetSettings(mode=CostTargetMode.PUBLIC),
    )
    first = make_release(case, settings, account)
    assert first.public.target.value == pytest.approx(optimum(case).cost, rel=1e-6)
    publish(first, case, tmp_path / "one", simulation_as_public=False)
    draw = load_draw(tmp_path / "one", Curator(case), account.ledger)
    solved = Curator.optimum

    def for_the_report_alone(curator: Curator, **how: str) -> object:
        if not (tmp_path / "two" / "public").exists():
            pytest.fail("O(d°) was solved for the release")
        return solved(curator, **how)

    monkeypatch.setattr(Curator, "optimum", for_the_report_alone)
    again = make_release(case, settings, account, reuse=draw)
    assert again.public.target == first.public.target
    np.testing.assert_array_equal(again.public.values, first.public.values)
    publish(again, case, tmp_path / "two", simulation_as_public=False)
    assert account.ledger.spent == 1


def test_a_draw_without_a_declared_cost_cannot_become_one_with_it(cli, tmp_path, book):
    assert first_release(cli, "veil2", tmp_path / "one", book).code == 0
    refused = release(cli, "veil2", tmp_path / "two", "--reuse", tmp_path / "one", "--declare-cost-public")
    assert refused.code == 2 and "without declaring the cost public" in refused.err


def test_a_draw_survives_a_release_that_fails(cli, tmp_path, book):
    """No demand has a cost of 10^9: no release, but the noise that was paid for can be used again."""
    impossible = ("--cost-target", "forecast", "--forecast-cost", "1e9", "--beta", "1$/h")
    asked = ("--alpha", "1MVA", "--ledger", book, "--budget", "5", *impossible)
    failed = release(cli, "veil2", tmp_path / "failed", *asked)
    assert failed.code == 3 and "--reuse" in failed.err
    assert sorted(path.name for path in (tmp_path / "failed").rglob("*.*")) == ["begun.json", "draw.json"]
    later = release(cli, "veil2", tmp_path / "again", "--reuse", tmp_path / "failed", *DERIVED)
    assert later.code == 0, later.err
    assert Ledger.open(book).spent == 1


def test_a_draw_survives_the_time_limit(cli, tmp_path, book):
    """Out of time, the command ends as after any other failure: code 3, nothing published, the draw kept and paid for."""
    asked = ("--alpha", "1MVA", "--ledger", book, "--budget", "5", *DERIVED)
    failed = release(cli, "veil2", tmp_path / "failed", *asked, "--time-limit", "1e-9")
    assert failed.code == 3 and "--time-limit" in failed.err and "--reuse" in failed.err
    assert sorted(path.name for path in (tmp_path / "failed").rglob("*.*")) == ["begun.json", "draw.json"]
    later = release(cli, "veil2", tmp_path / "again", "--reuse", tmp_path / "failed", *DERIVED, "--time-limit", "60")
    assert later.code == 0, later.err
    assert Ledger.open(book).spent == 1
    refused = release(cli, "veil2", tmp_path / "none", *asked, "--time-limit", "0")
    assert refused.code == 2 and "time limit" in refused.err and not (tmp_path / "none").exists()


def test_the_time_limit_never_cuts_the_curators_part(tmp_path, monkeypatch):
    """O(d°) of a declared cost is solved without a limit, however short the one for the rest: its time depends on the truth."""
    case = load_case("veil2")
    left = []
    solved = Curator.optimum
    monkeypatch.setattr(Curator, "optimum", lambda self, **how: (left.append(seconds_left()), solved(self, **how))[1])
    settings = ReleaseSettings(
        epsilon="1",
        alpha="1MVA",
        beta=Tolerance.parse("20%"),
        target=CostTargetSettings(mode=CostTargetMode.PUBLIC),
        seed=1,
        time_limit=1e-9,
    )
    with pytest.raises(OutOfTimeError):
        make_release(case, settings, NoAccount())
    assert left == [math.inf]


# --- cost targets -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        (("--cost-target", "forecast"), "forecast"),
        (("--forecast-cost", "5"), "forecast"),
        (("--cost-target", "public"), "--declare-cost-public"),
        (("--cost-share", "1"), "share"),
        (("--cost-share", "0"), "cost share"),
        (("--cost-target", "derived", "--cost-share", "0.2"), "share"),
        (("--cost-sensitivity", "5"), "--cost-sensitivity"),
    ],
)
def test_bad_cost_targets_cost_nothing(cli, tmp_path, book, options, hint):
    result = release(cli, "veil2", tmp_path / "out", "--ledger", book, "--budget", "5", "--alpha", "1MVA", *options)
    assert result.code == 2 and hint in result.err
    assert not book.exists() and not (tmp_path / "out").exists()


def test_forecast_derived_and_declared_targets_say_what_they_are(cli, tmp_path, book):
    options = ("--alpha", "1MVA", "--ledger", book)
    forecast = ("--cost-target", "forecast", "--forecast-cost", "1500", "--budget", "5")
    made = release(cli, "veil2", tmp_path / "f", *options, *forecast)
    assert made.code == 0, made.err
    assert json.loads(made.out)["cost_target"] == 1500
    assert release(cli, "veil2", tmp_path / "d", *options, *DERIVED).code == 0
    assert release(cli, "veil2", tmp_path / "p", *options, "--declare-cost-public").code == 0
    cards = {name: yaml.safe_load((tmp_path / name / "public/card.yaml").read_text()) for name in ("f", "d", "p")}
    assert [cards[name]["cost_target"]["mode"] for name in cards] == ["forecast", "derived", "public"]
    assert "forecast" in cards["f"]["unprotected"][-1]
    assert not any("cost of the true" in text or "forecast" in text for text in cards["d"]["unprotected"])
    assert "optimal cost of the true" in cards["p"]["unprotected"][0]
    assert [cards[name]["variant"].startswith("pure") for name in cards] == [True, True, False]
    assert "work the last one back" in cards["p"]["in_plain_words"][0]


# --- one data set, one ledger -----------------------------------------------------------------------------------------


def test_ledger_show(cli, tmp_path):
    assert cli("ledger", "show", "veil2").code == 2
    assert again(cli, "veil2", tmp_path / "one", "--budget", "4").code == 0  # the ledger in the folder of the user
    report = json.loads(cli("ledger", "show", "veil2", "--json").out)
    assert (report["spent"], report["cap"], report["remaining"]) == (1, 4, 3)
    assert (report["unit"], report["draws"], len(report["charges"])) == ("MVA", 1, 1)
    assert json.loads(cli("ledger", "show", report["ledger"], "--json").out) == report


def rebased(text: str, base: int) -> str:
    """A MATPOWER file of base 100 in another base: impedances and line charging are per unit, everything else is not."""
    out, table, factor = [], "", base / 100
    for row in text.splitlines():
        code = row.split("%")[0].strip()
        if code.startswith("mpc."):
            table = code.split()[0].removeprefix("mpc.")
        if table == "branch" and code.endswith(";") and not code.startswith(("]", "mpc.")):
            cells = code.rstrip(";").split()
            cells[2:5] = [
                repr(float(cells[2]) * factor),
                repr(float(cells[3]) * factor),
                repr(float(cells[4]) / factor),
            ]
            code = "\t".join(cells) + ";"
        out.append(code.replace("mpc.baseMVA = 100;", f"mpc.baseMVA = {base};"))
    return "\n".join(out) + "\n"


def test_copies_bases_folders_and_other_ledgers_give_no_fresh_budget(cli, tmp_path, monkeypatch):
    """Before, each of these releases was made, and charged to a new ledger without a cap or not in full."""
    town, text = tmp_path / "town.m", resolve_case("veil9").read_text()
    town.write_text(text)
    declared = ("--sites", "all", *DERIVED)
    first = release(cli, town, tmp_path / "one", "--budget", "1", "--alpha", "1MVA", *declared)
    assert first.code == 0, first.err
    copy, rewritten = tmp_path / "elsewhere" / "copy.m", tmp_path / "rewritten.m"
    copy.parent.mkdir()
    shutil.copy(town, copy)
    rewritten.write_text(rebased(text, 1))
    cases = [load_case(str(path)) for path in (town, rewritten)]
    assert [case.field.base for case in cases] == [100, 1]
    assert optimum(cases[0]).cost == pytest.approx(optimum(cases[1]).cost, rel=1e-6)  # it is the same network
    monkeypatch.chdir(copy.parent)
    shutil.copy(town, "town.m")
    attempts = {
        "again": (town, "--alpha", "1MVA"),
        "copied and renamed file": (copy, "--alpha", "1MVA"),
        "other folder": ("town.m", "--alpha", "1MVA"),
        "other base": (rewritten, "--alpha", "1MVA"),
        "other base, α that looks the same": (rewritten, "--alpha", "0.01pu"),
        "other ledger": (town, "--alpha", "1MVA", "--ledger", tmp_path / "other.ledger"),
        "new budget": (town, "--alpha", "1MVA", "--budget", "5"),
        "new budget elsewhere": (copy, "--alpha", "1MVA", "--budget", "5", "--ledger", tmp_path / "other.ledger"),
        "built-in name": ("veil9", "--alpha", "1MVA"),
    }
    for name, (case, *options) in attempts.items():
        refused = release(cli, case, tmp_path / "two", *declared, *options)
        assert refused.code == 2 and refused.err.count("\n") == 1, name
        assert not (tmp_path / "two").exists(), name
        assert "over budget" in refused.err or {"--ledger", "--budget"} & set(options), name
    report = json.loads(cli("ledger", "show", "veil9", "--json").out)
    assert (report["spent"], report["draws"]) == (1, 1)
    assert not (tmp_path / "other.ledger").exists()


def test_a_deleted_ledger_stops_releases(cli, tmp_path, book):
    """Before, the next release made a new ledger without a word."""
    assert first_release(cli, "veil2", tmp_path / "one", book).code == 0
    book.unlink()
    for options in ((), ("--ledger", book), ("--budget", "5"), ("--budget", "5", "--ledger", tmp_path / "new.ledger")):
        refused = again(cli, "veil2", tmp_path / "two", *options)
        assert refused.code == 2 and str(book) in refused.err
    assert not (tmp_path / "two").exists() and not book.exists() and not (tmp_path / "new.ledger").exists()


def test_a_gas_case_in_another_flow_base_charges_the_same(cli, tmp_path, ledger_home):
    options = ("--alpha", "0.5kg/s", "--beta", "30%")
    assert release(cli, "veilgas", tmp_path / "one", *options, "--budget", "2").code == 0
    assert release(cli, "veilgas", tmp_path / "two", *options, "--flow-base", "80").code == 0
    (path,) = ledger_home.rglob("*.ledger")
    ledger = Ledger.open(path)
    assert [(charge.epsilon, charge.alpha) for charge in ledger.charges] == [(1, Fraction(1, 2))] * 2
    assert (ledger.unit, ledger.spent) == ("kg/s", 2)
    refused = release(cli, "veilgas", tmp_path / "three", *options, "--flow-base", "7")
    assert refused.code == 2 and "over budget" in refused.err
