"""Can two draws be had for one charge? Copies of folders, settings that change in between, several processes.

Each attack stops a release at a bad moment, does what a person might do then, and counts what was seen of the truth.
Before: a copy of a folder that was stopped drew everything once more, and a series that was stopped before its sums drew
them anew in every folder that reused it, with the share of ε that the β of the day asked for.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gridveil.core.band import Tolerance
from gridveil.core.choices import Protects
from gridveil.core.errors import InputError
from gridveil.privacy.ledger import Ledger
from gridveil.privacy.noisy import SeriesDraw
from gridveil.privacy.series_curator import SeriesCurator
from gridveil.sectors.registry import load_case
from gridveil.sectors.series_table import SeriesCase, SeriesLayout, site_names
from gridveil.service.account import LedgerAccount, Price
from gridveil.service.budget import ledger_of
from gridveil.service.guards import confirm_all
from gridveil.service.publish import destination
from gridveil.service.series import release_series
from gridveil.service.series_settings import SeriesSettings
from gridveil.service.series_store import STATE, SeriesStore
from gridveil.service.settings import ReleaseSettings

OPTIONS = ("--alpha", "1MVA", "--beta", "20%", "--cost-share", "1/5", "--budget", "5")
TOTALS = ("--keep", "total=50%", "--totals-share", "1/4")
ELSEWHERE = "was kept in another folder"


def stop(*_, **__):
    raise KeyboardInterrupt


def release(cli, out, *options):
    return cli("release", "veil2", *OPTIONS, "--out", out, "--yes", *TOTALS, *options)


def spent() -> Fraction:
    return ledger_of(load_case("veil2")).spent


def drawn(folder: Path) -> dict[str, str]:
    """What a folder that was published knows of the truth: values, sum and totals, each with its noise."""
    if not (folder / "public").exists():
        return {}
    document = json.loads((folder / "curator" / "draw.json").read_text())
    return {
        "values": json.dumps(document["values"]),
        "sum": json.dumps(document["total"]["value"]),
        "totals": json.dumps([one["values"] for one in document["totals"]]),
    }


def copies(cli, tmp_path, monkeypatch, place) -> list[tuple[int, str]]:
    """Stop a release, copy its folder, and finish both."""
    with monkeypatch.context() as patch:
        patch.setattr(place, stop)
        assert release(cli, tmp_path / "one").code == 130
    shutil.copytree(tmp_path / "one", tmp_path / "other")
    ends = [release(cli, tmp_path / name) for name in ("one", "other")]
    return [(end.code, end.err) for end in ends]


@pytest.mark.parametrize(
    "place",
    [
        "gridveil.privacy.ledger.Ledger.charge",
        "gridveil.privacy.curator.Curator.draw",
        "gridveil.service.publish.store_draw",
        "gridveil.service.release_folder.bind_draw",
        "gridveil.privacy.curator.Curator.draw_group_sums",
        "gridveil.service.draw.linear_cost",
        "gridveil.privacy.curator.Curator.draw_sum",
    ],
)
def test_a_copy_of_a_folder_that_was_stopped_gives_no_second_draw(cli, tmp_path, monkeypatch, place):
    (code, told), (other_code, other_told) = copies(cli, tmp_path, monkeypatch, place)
    assert code == 0, told
    assert other_code == 2 and ELSEWHERE in other_told
    assert spent() == 1 and drawn(tmp_path / "other") == {}
    again = release(cli, tmp_path / "third", "--reuse", tmp_path / "other")
    assert again.code == 2, "what was drawn in a copy is not reused either"


def test_a_ledger_that_forgets_what_was_kept_is_noticed(cli, tmp_path, monkeypatch):
    """The attack works where the fault is planted: without the ledger's memory, all is drawn twice."""
    monkeypatch.setattr(Ledger, "keep", lambda *_: None)
    (code, _), (other_code, _) = copies(cli, tmp_path, monkeypatch, "gridveil.privacy.curator.Curator.draw")
    one, other = drawn(tmp_path / "one"), drawn(tmp_path / "other")
    assert (code, other_code) == (0, 0) and spent() <= Fraction(
        6, 5
    )  # the second sum has other weights, so it was charged
    assert [name for name in one if one[name] != other[name]] == ["values", "sum", "totals"]


def test_a_copy_of_a_whole_draw_is_the_same_draw(cli, tmp_path, monkeypatch):
    """Nothing is lost by this: where all has been drawn, both folders are finished, with the same noise."""
    ends = copies(cli, tmp_path, monkeypatch, "gridveil.service.keeping.repair")
    assert [code for code, _ in ends] == [0, 0]
    assert spent() == 1 and drawn(tmp_path / "one") == drawn(tmp_path / "other")


def test_an_older_record_put_back_gives_no_second_draw(cli, tmp_path, monkeypatch):
    """A backup from before the draw, restored beside the ledger of today."""
    with monkeypatch.context() as patch:
        patch.setattr("gridveil.privacy.curator.Curator.draw", stop)
        release(cli, tmp_path / "one")
    backup = (tmp_path / "one" / "curator" / "begun.json").read_bytes()
    assert release(cli, tmp_path / "one").code == 0
    shutil.rmtree(tmp_path / "one")
    (tmp_path / "one" / "curator").mkdir(parents=True)
    (tmp_path / "one" / "curator" / "begun.json").write_bytes(backup)
    refused = release(cli, tmp_path / "one")
    assert refused.code == 2 and ELSEWHERE in refused.err and spent() == 1


def test_a_lost_draw_is_replaced_at_its_own_price_alone(tmp_path):
    """A charge by another law (of a sum with other weights, say) would be converted to another α by the wrong one."""
    field = load_case("veil2").field
    ledger = Ledger.create(tmp_path / "a.ledger", dataset="0" * 64, name="veil2", unit="MVA", alpha="1", cap="9")
    account = LedgerAccount(ledger)
    price = Price(epsilon=Fraction(1), alpha=Fraction(1, 100), rounding=Fraction(1, 10**5))
    charge = account.pay(field, price, mechanism="noise", purpose="test", draw="a" * 32)
    assert account.owed("a" * 32, field, price) == charge
    for other in (Fraction(1, 10**6), None):
        assert account.owed("a" * 32, field, replace(price, rounding=other)) is None
    account.keep("a" * 32, "b" * 64)
    account.keep("a" * 32, "b" * 64)
    with pytest.raises(InputError, match=ELSEWHERE):
        account.keep("a" * 32, "c" * 64)
    with pytest.raises(InputError, match=ELSEWHERE):
        LedgerAccount(Ledger.open(ledger.path)).owed("a" * 32, field, price)


# ---- series


HOURLY = SeriesSettings(
    release=ReleaseSettings(epsilon="1", alpha="0.02pu", beta=Tolerance.parse("50%")), protects=Protects.HOUR
)


def two_hours() -> SeriesCase:
    case = load_case("veil2")
    layout = SeriesLayout(
        timestamps=pd.date_range("2026-01-05", periods=2, freq="h"),
        time_name="timestamp",
        site_name="site",
        sites=site_names(case.field),
        columns=("p_mw", "q_mvar"),
        base=case.field.base,
    )
    return SeriesCase(case=case, layout=layout, hours=(case.values, case.values.scaled(0.9)))


def ledger_of_hours(tmp_path) -> Ledger:
    return Ledger.create(
        tmp_path / "a.ledger", dataset="0" * 64, name="a", unit="MVA", alpha="2", cap="9", protects=Protects.HOUR
    )


def draws_of(folder: Path, ledger: Ledger, settings: SeriesSettings = HOURLY, reuse: Path | None = None) -> SeriesDraw:
    """What the command does in a folder of a series, without its files."""
    series, account = two_hours(), LedgerAccount(ledger)
    curator = SeriesCurator(series.case, series.hours)
    store = SeriesStore(folder, curator, settings)
    source = store if store.exists else None if reuse is None else SeriesStore(reuse, curator, settings)
    found = None if source is None else source.load(account)
    if found is not None:
        store.keep(found)
    hooks = {"keep": store.keep, "announce": store.announce, "confirm": confirm_all}
    return release_series(series, settings, account, workers=1, reuse=found, **hooks).draw


def stopped_series(tmp_path, monkeypatch, place) -> Ledger:
    ledger = ledger_of_hours(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(place, stop)
        with pytest.raises(KeyboardInterrupt):
            draws_of(tmp_path / "one", ledger)
    return ledger


def loss(*draws: SeriesDraw) -> float:
    """ε of everything that these draws show of one hour, each different number counted once."""
    values = {draw.values.tobytes(): draw.mechanism.epsilon for draw in draws}
    sums = {draw.totals[0].value: draw.totals[0].mechanism.epsilon for draw in draws if draw.totals}
    return sum(values.values()) + sum(sums.values())


def test_the_sums_of_a_series_are_drawn_once_and_with_the_share_that_was_paid(tmp_path, monkeypatch):
    """Stopped between values and sums; then reused in another folder, and gone on with under another β."""
    ledger = stopped_series(tmp_path, monkeypatch, "gridveil.service.series.draw_sums")
    narrow = replace(HOURLY, release=replace(HOURLY.release, beta=Tolerance.parse("0.01%")))
    draw = draws_of(tmp_path / "other", ledger, narrow, reuse=tmp_path / "one")
    assert loss(draw) == pytest.approx(1.0) and len(ledger.charges) == 1 and ledger.spent == 1
    with pytest.raises(InputError, match=ELSEWHERE):
        draws_of(tmp_path / "one", ledger)
    with pytest.raises(InputError, match=ELSEWHERE):
        draws_of(tmp_path / "third", ledger, reuse=tmp_path / "one")
    again = draws_of(tmp_path / "fourth", ledger, reuse=tmp_path / "other")
    assert loss(draw, again) == pytest.approx(1.0)


def test_sums_of_every_folder_would_be_seen(tmp_path, monkeypatch):
    """The count of the attack works where the fault is planted."""
    monkeypatch.setattr(Ledger, "keep", lambda *_: None)
    ledger = stopped_series(tmp_path, monkeypatch, "gridveil.service.series.draw_sums")
    draws = [draws_of(tmp_path / name, ledger, reuse=tmp_path / "one") for name in ("two", "three")]
    assert loss(*draws) > 1.05 and ledger.spent == 1


@pytest.mark.parametrize("place", ["SeriesCurator.draw", "SeriesStore.keep"])
def test_a_copy_of_a_series_that_was_stopped_gives_no_second_draw(tmp_path, monkeypatch, place):
    module = "privacy.series_curator" if place.startswith("SeriesCurator") else "service.series_store"
    ledger = stopped_series(tmp_path, monkeypatch, f"gridveil.{module}.{place}")
    shutil.copytree(tmp_path / "one", tmp_path / "other")
    draw = draws_of(tmp_path / "one", ledger)
    with pytest.raises(InputError, match=ELSEWHERE):
        draws_of(tmp_path / "other", ledger)
    assert len(ledger.charges) == 1 and np.isfinite(draw.values).all()


def test_a_series_that_was_begun_is_finished_by_one_command_at_a_time(tmp_path):
    """Two commands in one folder, and one that comes when the other has just published."""
    folder = tmp_path / "out"
    (folder / "curator").mkdir(parents=True)
    (folder / "curator" / STATE).write_text("{}")
    with (
        destination(folder, go_on=True, record=STATE),
        pytest.raises(InputError, match="another release"),
        destination(folder, go_on=True, record=STATE),
    ):
        pytest.fail("the folder was taken twice")
