"""Releases that keep totals and losses: budget, files, refusals, and that nothing else of the truth is in them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import yaml

import gridveil
from gridveil.core.band import Tolerance
from gridveil.core.choices import CostTargetMode
from gridveil.core.errors import InputError, NoReleaseError
from gridveil.core.kept import KeptSource, parse_keep
from gridveil.core.secret import SecretValues
from gridveil.privacy.curator import Curator, published_values
from gridveil.privacy.ledger import Ledger
from gridveil.sectors.case import Case
from gridveil.sectors.partition import participant_groups
from gridveil.sectors.registry import load_case, sector_of
from gridveil.service.account import LedgerAccount, NoAccount
from gridveil.service.budget import ledger_of
from gridveil.service.draw import make_draw
from gridveil.service.kept import kept_targets, totals_share
from gridveil.service.losses import loss_gradient, losses_at
from gridveil.service.pipeline_audit import audit_pipeline
from gridveil.service.prepare import PublicCase, prepare
from gridveil.service.publish import publish
from gridveil.service.release import make_release
from gridveil.service.reuse import load_draw
from gridveil.service.settings import CostTargetSettings, ReleaseSettings
from gridveil.solvers.structured.backend import StructuredBackend

NOBODY = NoAccount(simulation=False)


def settings(keep: str, *, seed: int | None = None, alpha: str = "1MVA", **more: object) -> ReleaseSettings:
    cost, kept = parse_keep(keep, **more)  # type: ignore[arg-type]
    return ReleaseSettings(
        epsilon="1", alpha=alpha, beta=cost or Tolerance.parse("2%"), seed=seed, keep=kept, time_limit=60.0
    )


@pytest.fixture(scope="module")
def case() -> Case:
    return replace(load_case("case30_ieee"), sites_declared=True)


def total_of(case: Case) -> complex:
    return complex(published_values(case).sum())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("total", "says nothing"),
        ("total=5MW", "share"),
        ("total=1%,total=2%", "twice"),
        ("price=1%", "says nothing"),
        ("total:3=1%", "by number"),
        ("zones:1=1%", "by number"),
    ],
)
def test_what_cannot_be_kept_is_refused(text, words):
    with pytest.raises(InputError, match=words):
        parse_keep(text)


def test_targets_are_stated_for_what_is_kept_and_once():
    with pytest.raises(InputError, match="not kept"):
        parse_keep("total=1%", declared=["zones"])
    with pytest.raises(InputError, match="one of the two"):
        parse_keep("total=1%", declared=["total"], forecasts=["total=3MW"])
    with pytest.raises(InputError, match="leave out the share"):
        parse_keep("total=1%", declared=["total"], share="0.2")
    cost, kept = parse_keep("cost=2%, loss=5%, total=1%", forecasts=["total=300MW"])
    assert cost == Tolerance(0.02, relative=True)
    assert {number.name: number.source for number in kept.numbers} == {
        "loss": KeptSource.DERIVED,
        "total": KeptSource.FORECAST,
    }


def test_beta_and_cost_must_agree(cli, tmp_path):
    told = cli("release", "veil9", "--beta", "1%", "--keep", "cost=2%", "--seed", "1", "--out", tmp_path / "out")
    assert told.code == 2
    assert "differ" in told.err
    assert not (tmp_path / "out").exists()


def test_a_partition_of_the_graph_is_balanced_connected_and_public(case):
    labels, group = participant_groups(case.network, "zones", 4)
    assert labels == ("1", "2", "3", "4")
    assert np.ptp(np.bincount(group)) <= 2
    other = case.with_values(SecretValues(3 * published_values(case)))
    assert np.array_equal(group, participant_groups(other.network, "zones", 4)[1])
    with pytest.raises(InputError, match="single one of its zones"):
        participant_groups(load_case("case118_ieee").network, "zones", None)


def test_charges_are_one_entry_each_and_sum_to_epsilon(case, tmp_path):
    chosen = settings("total=2%,zones:3=4%", alpha="1MVA")
    book = ledger_of(case, name="kept", path=tmp_path / "book.ledger", alpha="1MVA", cap="3")
    made = make_release(case, chosen, LedgerAccount(book))
    charges = Ledger.open(tmp_path / "book.ledger").charges
    assert [charge.purpose for charge in charges][-1] == "kept totals"
    assert len(charges) == 2
    assert sum(charge.epsilon for charge in charges) == 1
    assert made.public.draw.epsilon == pytest.approx(1.0, abs=1e-12)
    assert "zones: " in charges[-1].mechanism
    publish(made, case, tmp_path / "out", simulation_as_public=False)
    again = load_draw(tmp_path / "out", Curator(case), book)
    assert np.array_equal(again.totals[0].values, made.public.draw.totals[0].values)
    reused = make_release(case, chosen, LedgerAccount(book), reuse=again)
    assert np.array_equal(reused.public.values, made.public.values)
    assert len(Ledger.open(tmp_path / "book.ledger").charges) == 2


def test_the_card_can_be_checked_from_the_file(case, tmp_path):
    made = make_release(case, settings("total=1%,zones:3=2%", seed=5), NoAccount())
    publish(made, case, tmp_path, simulation_as_public=True)
    card = yaml.safe_load((tmp_path / "public" / "card.yaml").read_text())
    network = next((tmp_path / "public").glob("network.*"))
    values = published_values(sector_of(case.network).read_back(case.network, network)) * case.field.base
    assert [row["what"] for row in card["kept"]["numbers"]] == ["total", "zone 1", "zone 2", "zone 3"]
    for row in card["kept"]["numbers"]:
        places = row.get("places", list(case.field.places))
        total = sum(value for place, value in zip(case.field.places, values, strict=True) if place in places)
        target = row["target"]["active"] + 1j * row["target"]["reactive"]
        assert abs(total - target) <= row["at_most"] * (1 + 1e-9)
        assert abs(total - target) == pytest.approx(row["off_by"], abs=1e-6)
        assert row["at_most"] == pytest.approx((0.01 if row["what"] == "total" else 0.02) * abs(target))
    zones = [row["target"]["active"] for row in card["kept"]["numbers"][1:]]
    assert sum(zones) == pytest.approx(card["kept"]["numbers"][0]["target"]["active"])
    assert (
        "Kept as well" in " ".join(yaml.safe_load((tmp_path / "public" / "card.yaml").read_text())["in_plain_words"])
        or (card["simulation"])
    )


def test_zones_agree_with_a_stated_total(case):
    prepared = prepare(PublicCase.of(case), solver="structured")
    for more in ({"declared": ["total"]}, {"forecasts": ["total=300MW"]}):
        chosen = settings("total=1%,zones:3=2%", seed=4, **more)
        draw = make_draw(Curator(case), prepared, chosen, NoAccount(), "test")
        targets = kept_targets(prepared.public, draw, chosen.keep)
        stated = total_of(case).real if "declared" in more else 3.0
        assert targets[0].value.real == pytest.approx(stated, rel=1e-6)
        assert sum(target.value for target in targets[1:]).real == pytest.approx(stated, rel=1e-6)


def test_private_totals_are_far_nearer_than_the_sum_of_noise(case):
    prepared, truth = prepare(PublicCase.of(case), solver="structured"), total_of(case)
    chosen = settings("total=1%", alpha="10MVA", share="0.5")
    ours, theirs = [], []
    for seed in range(60):
        draw = make_draw(Curator(case), prepared, replace(chosen, seed=seed), NoAccount(), "test")
        (target,) = kept_targets(prepared.public, draw, chosen.keep)
        ours.append(abs(target.value - truth))
        theirs.append(abs(draw.noisy.values.sum() - truth))
    gain = np.sqrt(np.mean(np.square(theirs)) / np.mean(np.square(ours)))
    assert gain == pytest.approx(np.sqrt(len(case.field)), rel=0.3)


def test_shares_are_chosen_from_public_data_alone(case):
    prepared = prepare(PublicCase.of(case), solver="structured")
    other = prepare(PublicCase.of(case.with_values(SecretValues(5 * published_values(case)))), solver="structured")
    for keep in ("total=1%", "zones:5=1%"):
        chosen = settings(keep)
        assert totals_share(prepared, chosen) == totals_share(other, chosen) > 0
    assert totals_share(prepared, settings("total=1%", declared=["total"])) == 0
    assert totals_share(prepared, settings("total=1%", share="0.3")) == Fraction(3, 10)


@pytest.mark.parametrize("keep", ["total=1%,zones:3=2%", "total=2%,loss=20%"])
def test_nothing_but_the_draw_is_in_a_release(case, keep):
    """Equal draws, other true values, one of them no customer at all: the same release to the last bit."""
    chosen = settings(keep)
    prepared = prepare(PublicCase.of(case), solver="structured")
    draw = make_draw(Curator(case), prepared, replace(chosen, seed=8), NoAccount(), "test")
    truth = np.array(published_values(case))
    ends = []
    for values in (truth, 1.7 * truth + 0.05, 0 * truth):
        made = make_release(case.with_values(SecretValues(values)), chosen, NOBODY, reuse=draw).public
        ends.append((made.values.tobytes(), made.target.value, [target.value for target in made.keeping.totals]))
    assert ends[0] == ends[1] == ends[2]


def test_a_zone_of_one_customer_follows_its_private_total_and_not_the_truth(case):
    """As many zones as sites: the bands force every demand, and each lies near its noisy total, wherever the truth is."""
    chosen = settings(f"cost=100%,zones:{len(case.field)}=5%", alpha="0.1MVA", share="0.9")
    prepared = prepare(PublicCase.of(case), solver="structured")
    draw = make_draw(Curator(case), prepared, replace(chosen, seed=2), NoAccount(), "test")
    far = case.with_values(SecretValues(published_values(case) + 0.3))
    made = make_release(far, chosen, NOBODY, reuse=draw).public
    sums = draw.totals[0].values[draw.totals[0].group]
    assert np.all(np.bincount(draw.totals[0].group) == 1)
    released = np.abs(made.values - sums)
    assert np.max(released) < 0.1
    assert np.min(np.abs(made.values - published_values(far))) > 0.2


def test_a_declared_zone_of_one_customer_is_refused_before_anything_is_charged(case, tmp_path):
    chosen = settings(f"zones:{len(case.field)}=5%", declared=["zones"])
    book = ledger_of(case, name="kept", path=tmp_path / "book.ledger", alpha="1MVA", cap="3")
    with pytest.raises(InputError, match="single load site"):
        make_release(case, chosen, LedgerAccount(book))
    assert not Ledger.open(tmp_path / "book.ledger").charges


def test_what_cannot_be_kept_ends_with_three_and_publishes_nothing(cli, tmp_path):
    out: Path = tmp_path / "out"
    told = cli(
        *("release", "veil9", "--sites", "all", "--epsilon", "1", "--alpha", "1MVA", "--seed", "1", "--out", out),
        *("--keep", "cost=1%,total=0.1%", "--forecast", "total=99GVA"),
    )
    assert told.code == 3
    assert not (out / "public").exists()
    assert not (out / "simulation").exists()


def test_a_declared_total_is_no_differential_privacy_and_the_card_says_so(case, tmp_path):
    chosen = settings("total=1%", declared=["total"])
    prepared = prepare(PublicCase.of(case), solver="structured")
    draw = make_draw(Curator(case), prepared, replace(chosen, seed=8), NoAccount(), "test")
    passed_off = replace(
        draw,
        noisy=replace(draw.noisy, simulation=False),
        total=None if draw.total is None else replace(draw.total, simulation=False),
        totals=tuple(replace(totals, simulation=False) for totals in draw.totals),
    )
    made = make_release(case, chosen, NOBODY, reuse=passed_off)
    publish(made, case, tmp_path, simulation_as_public=False)
    card = yaml.safe_load((tmp_path / "public" / "card.yaml").read_text())
    assert card["variant"].startswith("not differential privacy")
    assert any("true total" in fact for fact in card["unprotected"])
    assert "work the last one back" in card["in_plain_words"][0]
    assert any(words.startswith("Kept as well: total within 0.01") for words in card["in_plain_words"])


def test_gradient_of_losses_is_that_of_finite_differences(case):
    prepared = prepare(PublicCase.of(case), solver="structured")
    model = prepared.model
    d = model.layout.to_program(published_values(case))
    gradient = loss_gradient(model, d)
    backend = StructuredBackend(model)
    rng = np.random.default_rng(3)
    for _ in range(3):
        way = rng.normal(size=len(d))
        ends = [backend.dispatch(d + sign * 1e-4 * way) for sign in (1, -1)]
        measured = (losses_at(model, ends[0].x, ends[0].d) - losses_at(model, ends[1].x, ends[1].d)) / 2e-4
        assert gradient @ way == pytest.approx(measured, rel=0.02, abs=2e-3)


def test_losses_are_moved_into_their_band(case):
    prepared = prepare(PublicCase.of(case), solver="structured")
    model, truth = prepared.model, published_values(case)
    d = model.layout.to_program(truth)
    usual = losses_at(model, StructuredBackend(model).dispatch(d).x, d)
    wanted = 1.05 * usual * case.field.base
    chosen = settings("cost=3%,loss=1%", seed=3, alpha="1MVA", forecasts=[f"loss={wanted:.6f}MW"])
    made = make_release(case, chosen, NoAccount()).public
    losses = losses_at(model, made.released.result.x, model.layout.to_program(made.values)) * case.field.base
    assert losses == pytest.approx(wanted, rel=0.01)
    plain = make_release(case, replace(chosen, keep=parse_keep("")[1]), NoAccount()).public
    without = losses_at(model, plain.released.result.x, model.layout.to_program(plain.values)) * case.field.base
    assert abs(without / wanted - 1) > 0.01


def test_losses_have_no_private_target():
    from gridveil.core.kept import KeptNumber

    with pytest.raises(InputError, match="without bound"):
        KeptNumber(name="loss", tolerance=Tolerance(0.01, relative=True))


def test_unreachable_losses_are_refused(case):
    chosen = settings("cost=1%,loss=1%", seed=3, forecasts=["loss=150MW"])
    with pytest.raises(NoReleaseError):
        make_release(case, replace(chosen, time_limit=3.0), NoAccount())


def test_a_total_without_noise_is_caught_by_the_audit_of_the_pipeline(monkeypatch):
    """Nearly all of ε on the total, so that its target is hardly mixed with the noise of single values."""
    chosen = replace(
        settings("cost=50%,total=0.5%", alpha="2MVA", share="0.9"),
        epsilon="0.5",
        target=CostTargetSettings(mode=CostTargetMode.FORECAST, forecast=5900.0),
    )
    case = load_case("veil9")
    assert audit_pipeline(case, chosen, runs=50).passed
    monkeypatch.setattr(Curator, "draw_group_sums", lambda self, query, _: self.declared_sums(query))
    caught = audit_pipeline(case, chosen, runs=50)
    assert not caught.passed
    assert min(caught.statistics, key=lambda statistic: statistic.p_value).name == "total of all values"


def test_the_notebook_keeps_the_same_as_the_command():
    case = gridveil.load("veil9")
    kept = {"cost": "2%", "total": "1%", "zones:2": "2%"}
    made = case.release(epsilon=1, alpha="1MVA", seed=1, keep=kept)
    numbers = made.summary()["kept"]["numbers"]
    assert [number["what"] for number in numbers] == ["total", "zone 1", "zone 2"]
    assert all(number["off_by"] <= number["at_most"] for number in numbers)
    with pytest.raises(InputError, match="differ"):
        case.release(epsilon=1, alpha="1MVA", seed=1, beta="1%", keep="cost=2%")
    usual = case.release(epsilon=1, alpha="1MVA", seed=1, keep="total=2%")
    assert usual.summary()["beta"] == pytest.approx(0.01 * usual.summary()["cost_target"])
