"""The card of a series of releases: one promise for one hour, another for the whole profile of a participant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from gridveil import __version__
from gridveil.service.account import Spending
from gridveil.service.card import ASSUMPTIONS, NO_PROMISE, PURE, SIMULATION_NOTICE, TARGET_WORDS, public_facts
from gridveil.service.prepare import PublicCase
from gridveil.service.series import HourlyRelease


def series_card(public: PublicCase, rows: Sequence[HourlyRelease], spending: Spending | None) -> dict[str, object]:
    """The card of a series as plain values. It needs at least one hour."""
    field, simulation = public.field, any(row.draw.simulation for row in rows)
    hourly = max(row.draw.epsilon for row in rows)
    total = sum(row.draw.epsilon for row in rows)
    alpha = rows[0].draw.noisy.mechanism.alpha * field.base
    modes = sorted({row.target.source.value for row in rows if row.target is not None})
    words = [
        f"One hour of one {field.name}: two values up to {alpha:g} {field.unit} apart are {hourly:g}-indistinguishable.",
        f"The whole profile of one {field.participant}, every hour within {alpha:g} {field.unit}: the losses of all "
        f"{len(rows)} hours add up to epsilon = {total:.6g}.",
    ]
    return {
        "name": SIMULATION_NOTICE if simulation else f"Series of networks with differentially private {field.name}s",
        "in_plain_words": [f"{SIMULATION_NOTICE}."] if simulation else words,
        "simulation": simulation,
        "software": f"gridveil {__version__}",
        "variant": NO_PROMISE if simulation else PURE,
        "promise": {
            "privacy_unit": f"one hour of one {field.participant}",
            "epsilon": hourly,
            "epsilon_of_a_whole_profile": total,
            "alpha": alpha,
            "unit": field.unit,
            "participants": len(field),
        },
        "data_set": None if spending is None else asdict(spending),
        "hours": len(rows),
        "hours_verified": sum(row.verified for row in rows),
        "unprotected": public_facts(public),
        "assumptions": list(ASSUMPTIONS),
        "cost_targets": {mode.value: words for mode, words in TARGET_WORDS.items() if mode.value in modes},
    }
