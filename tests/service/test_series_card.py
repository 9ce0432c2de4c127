"""A series has one card, which states the loss of an hour and that of a whole profile."""

from __future__ import annotations

import pytest

from gridveil.core.band import Tolerance
from gridveil.sectors.registry import load_case
from gridveil.service.account import NoAccount
from gridveil.service.prepare import PublicCase
from gridveil.service.series import release_series
from gridveil.service.series_card import series_card
from gridveil.service.settings import ReleaseSettings


def test_losses_of_hours_add_up_to_the_loss_of_a_profile():
    case = load_case("veil2")
    settings = ReleaseSettings(epsilon="0.5", alpha="10MVA", beta=Tolerance.parse("5%"), seed=3)
    rows = release_series(
        case, [case.values.scaled(share) for share in (0.9, 1.0, 1.1)], settings, NoAccount(), workers=1
    )
    card = series_card(PublicCase.of(case), rows, None)
    assert card["hours"] == 3 and card["hours_verified"] == sum(row.verified for row in rows)
    assert card["promise"]["epsilon"] == pytest.approx(0.5)
    assert card["promise"]["epsilon_of_a_whole_profile"] == pytest.approx(1.5)
    assert card["simulation"] and "NOT PRIVATE" in card["name"]
