"""A series of hours is what its hours are one by one, and no hour goes missing."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from gridveil.core.band import TargetSource, Tolerance
from gridveil.core.errors import InputError
from gridveil.privacy.ledger import Ledger
from gridveil.sectors.load import load_case
from gridveil.service.choices import CostTargetMode
from gridveil.service.pipeline import make_release
from gridveil.service.series import hour_seed, release_series
from gridveil.service.settings import CostTargetSettings, ReleaseSettings

SETTINGS = ReleaseSettings(epsilon="1", alpha="0.1", beta=Tolerance.parse("1%"), seed=3)
SCALES = (0.7, 1.0, 60.0, 0.85)
TOO_MUCH = 2  # the hour whose demands no generator can meet


def series(settings: ReleaseSettings, scales=SCALES, **options):
    case = load_case("veil9")
    ledger = options.pop("ledger", None)
    demands = [case.demand.scaled(scale) for scale in scales]
    return release_series(case, demands, settings, ledger, workers=options.pop("workers", 1), **options)


@pytest.mark.parametrize(
    ("workers", "target"),
    [
        (1, CostTargetSettings()),
        (2, CostTargetSettings()),
        (1, CostTargetSettings(mode=CostTargetMode.DERIVED)),
        (1, CostTargetSettings(mode=CostTargetMode.FORECAST, forecast=5000.0)),
    ],
)
def test_hours_are_released_as_if_alone(workers, target):
    settings = replace(SETTINGS, target=target)
    scales = SCALES if target.mode is CostTargetMode.PUBLIC else SCALES[:2]
    rows = series(settings, scales, workers=workers)
    assert [row.hour for row in rows] == list(range(len(scales)))
    case = load_case("veil9")
    for row, scale in zip(rows, scales, strict=True):
        if row.hour == TOO_MUCH:
            assert not row.verified and row.draw is None and "was not solved" in row.status
            continue
        hour = replace(case, demand=case.demand.scaled(scale))
        alone = make_release(hour, replace(settings, seed=hour_seed(3, row.hour)), None)
        assert row.verified and row.status == "verified" and row.released is not None and row.target is not None
        np.testing.assert_array_equal(row.released.values, alone.released.values)
        assert (row.target.value, row.target.beta) == (alone.target.value, alone.target.beta)
        assert row.target.contains(row.released.result.cost)
    noise = [row.draw.noisy.values - s * case.demand.reveal() for row, s in zip(rows, scales, strict=True) if row.draw]
    assert all(np.abs(one - two).min() > 0 for i, one in enumerate(noise) for two in noise[:i])


def test_every_hour_is_charged_and_kept_before_its_repair(tmp_path):
    ledger = Ledger.create(tmp_path / "veil9.ledger", alpha="0.1", cap="3")
    kept: dict[int, str | None] = {}
    rows = series(
        replace(SETTINGS, seed=None), ledger=ledger, keep=lambda hour, draw: kept.update({hour: draw.noisy.charge_id})
    )
    assert [row.verified for row in rows] == [True, True, False, True]
    assert [charge.purpose for charge in ledger.charges] == [f"release of veil9, hour {hour}" for hour in (0, 1, 3)]
    assert list(kept.values()) == [charge.id for charge in ledger.charges] and list(kept) == [0, 1, 3]
    assert ledger.spent == Fraction(3)
    assert not any(row.draw.noisy.simulation for row in rows if row.draw)


def test_a_budget_that_does_not_cover_the_series_is_left_untouched(tmp_path):
    ledger = Ledger.create(
        tmp_path / "veil9.ledger", alpha="0.2", cap="5.99"
    )  # an hour at α 0.1 costs about 2 at α 0.2
    with pytest.raises(InputError, match=r"over budget, nothing was drawn: 3 hours need ε = .*remaining ε = 5\.99"):
        series(replace(SETTINGS, seed=None), ledger=ledger)
    assert ledger.charges == ()
    series(replace(SETTINGS, seed=None), SCALES[:2], ledger=ledger)
    assert 3.9 < ledger.spent <= 4


def test_the_planned_price_is_the_one_charged(tmp_path):
    """Private costs are charged too: the cap that covers the series exactly is enough, and nothing of it is left."""
    private = CostTargetSettings(mode=CostTargetMode.PRIVATE, sensitivity="500")
    settings = replace(SETTINGS, seed=None, target=private, beta=Tolerance.parse("200"))
    trial = Ledger.create(tmp_path / "trial.ledger", alpha="0.3")
    series(settings, SCALES[:1], ledger=trial)
    exact = Ledger.create(tmp_path / "exact.ledger", alpha="0.3", cap=2 * trial.spent)
    rows = series(settings, SCALES[:2], ledger=exact)
    assert exact.remaining == 0 and len(exact.charges) == 4
    assert all(row.target is not None and row.target.source is TargetSource.PRIVATE for row in rows)


def test_bad_series_are_refused(tmp_path):
    case, other = load_case("veil9"), load_case("veil2")
    with pytest.raises(InputError, match="hour 1: its demands do not match"):
        release_series(case, [case.demand, other.demand], SETTINGS, None, workers=1)
    with pytest.raises(InputError, match="must be charged to a ledger"):
        series(replace(SETTINGS, seed=None))
    assert release_series(case, [], SETTINGS, None, workers=2) == []
