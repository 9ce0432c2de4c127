"""A series of hours is what its hours are one by one, and no hour goes missing."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from gridveil.core.band import Tolerance
from gridveil.core.choices import CostTargetMode
from gridveil.core.errors import InputError, NoReleaseError
from gridveil.privacy.ledger import Ledger
from gridveil.sectors.registry import load_case
from gridveil.service.account import LedgerAccount, NoAccount
from gridveil.service.release import make_release
from gridveil.service.series import hour_seed, release_series
from gridveil.service.settings import CostTargetSettings, ReleaseSettings

SETTINGS = ReleaseSettings(epsilon="1", alpha="0.02", beta=Tolerance.parse("1%"), seed=3)
DERIVED = CostTargetSettings(mode=CostTargetMode.DERIVED)
SCALES = (0.7, 1.0, 60.0, 0.85)
TOO_MUCH = 2  # the hour whose demands no generator can meet


def series(settings: ReleaseSettings, scales=SCALES, *, ledger=None, workers=1, **options):
    case = load_case("veil9")
    hours = [case.values.scaled(scale) for scale in scales]
    account = NoAccount() if ledger is None else LedgerAccount(ledger)
    return release_series(case, hours, settings, account, workers=workers, **options)


@pytest.mark.parametrize(
    ("workers", "target"),
    [
        (1, CostTargetSettings()),
        (2, DERIVED),
        (1, DERIVED),
        (1, CostTargetSettings(mode=CostTargetMode.FORECAST, forecast=5000.0)),
    ],
)
def test_hours_are_released_as_if_alone(workers, target):
    settings = replace(SETTINGS, target=target)
    rows = series(settings, workers=workers)
    assert [row.hour for row in rows] == list(range(len(SCALES)))
    case = load_case("veil9")
    for row, scale in zip(rows, SCALES, strict=True):
        hour = case.with_values(case.values.scaled(scale))
        own = replace(settings, seed=hour_seed(3, row.hour))
        try:
            alone = make_release(hour, own, NoAccount()).public
        except NoReleaseError as error:
            assert not row.verified and row.status == str(error) and row.target is None
            continue
        assert row.verified and row.status == "verified" and row.released is not None and row.target is not None
        np.testing.assert_array_equal(row.released.values, alone.values)
        assert row.target == alone.target
        assert row.target.contains(row.released.result.cost)
        assert (row.draw.total is None) == (target.mode is not CostTargetMode.PRIVATE)
    assert sum(row.verified for row in rows) >= 3
    noise = [row.draw.noisy.values - s * case.values.reveal() for row, s in zip(rows, SCALES, strict=True)]
    assert all(np.abs(one - two).min() > 0 for i, one in enumerate(noise) for two in noise[:i])


def new_ledger(path, *, alpha, cap):
    """A ledger whose α is in MVA: the base of veil9 is 100 MVA."""
    return Ledger.create(path, dataset="0" * 64, name="veil9", unit="MVA", alpha=alpha, cap=cap)


@pytest.mark.parametrize(("target", "draws"), [(DERIVED, 1), (CostTargetSettings(), 2)], ids=["derived", "private"])
def test_every_hour_is_charged_and_kept_before_its_repair(tmp_path, target, draws):
    """An hour whose true demands nobody can serve is drawn, charged and kept like any other."""
    ledger = new_ledger(tmp_path / "veil9.ledger", alpha="2", cap="4")
    kept = {}
    rows = series(
        replace(SETTINGS, seed=None, target=target), ledger=ledger, keep=lambda hour, draw: kept.update({hour: draw})
    )
    assert all(row.verified for row in rows if row.hour != TOO_MUCH)
    charges = ledger.charges
    purposes = [charge.purpose for charge in charges if charge.purpose != "cost target"]
    assert purposes == [f"release of veil9, hour {hour}" for hour in range(len(SCALES))]
    assert len(charges) == draws * len(SCALES)
    assert [kept[hour].noisy.charge_id for hour in range(4)] == [
        charge.id for charge in charges if charge.purpose != "cost target"
    ]
    if draws == 2:
        assert [kept[hour].total.charge_id for hour in range(4)] == [
            c.id for c in charges if c.purpose == "cost target"
        ]
    assert [row.draw for row in rows] == [kept[hour] for hour in range(4)]
    assert ledger.spent == Fraction(4)  # at the ledger's own α every hour costs exactly its ε, sum included
    assert not any(row.draw.simulation for row in rows)


def test_a_budget_that_does_not_cover_the_series_is_left_untouched(tmp_path):
    # An hour at α = 2 MVA costs about 2 at 4 MVA.
    ledger = new_ledger(tmp_path / "veil9.ledger", alpha="4", cap="5.99")
    settings = replace(SETTINGS, seed=None, target=DERIVED)
    with pytest.raises(InputError, match=r"over budget, nothing was drawn: .* needs ε = 6, remaining ε = 5\.99"):
        series(settings, SCALES[:3], ledger=ledger)
    assert ledger.charges == ()
    series(settings, SCALES[:2], ledger=ledger)
    assert 3.9 < ledger.spent <= 4


def test_bad_series_are_refused(tmp_path):
    case, other = load_case("veil9"), load_case("veil2")
    with pytest.raises(InputError, match="hour 1: its values do not match"):
        release_series(case, [case.values, other.values], SETTINGS, NoAccount(), workers=1)
    with pytest.raises(InputError, match="declared public"):
        series(replace(SETTINGS, target=CostTargetSettings(mode=CostTargetMode.PUBLIC)))
    assert release_series(case, [], SETTINGS, NoAccount(), workers=2) == []


def test_a_series_without_a_seed_must_be_charged_and_one_with_a_seed_must_not(tmp_path):
    with pytest.raises(InputError, match="must be charged to a ledger"):
        series(replace(SETTINGS, seed=None), SCALES[:1])
    ledger = new_ledger(tmp_path / "veil9.ledger", alpha="2", cap="4")
    with pytest.raises(InputError, match="one with a seed to none"):
        series(SETTINGS, SCALES[:1], ledger=ledger)
    assert ledger.charges == ()


def test_sites_that_follow_the_demands_are_refused(tmp_path):
    case = replace(load_case("veil9"), sites_declared=False)
    account = LedgerAccount(new_ledger(tmp_path / "veil9.ledger", alpha="2", cap="4"))
    with pytest.raises(InputError, match="--sites all"):
        release_series(case, [case.values], replace(SETTINGS, seed=None), account, workers=1)
    assert account.ledger.charges == ()
