"""The public card of a series as a page: made from the values of card.yaml and nothing else, so no secret can enter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gridveil.core.text import number
from gridveil.report.page import render


def series_page(card: Mapping[str, Any]) -> str:
    """The page of a series' card."""
    return render("series.html", title=str(card["name"]), card=card, facts=_facts(card), network=card["network_file"])


def _facts(card: Mapping[str, Any]) -> list[tuple[str, str]]:
    promise, noise = card["promise"], card["mechanism"]
    delta = [("δ", number(promise["delta"]))] if promise["delta"] else []
    return [
        ("Hides", f"one {promise['protects']}"),
        ("ε", number(promise["epsilon"])),
        ("α", f"{number(promise['alpha'])} {promise['unit']}"),
        *delta,
        ("ε of a whole profile", number(promise["epsilon_of_a_whole_profile"])),
        ("Noise", str(noise["name"])),
        ("Basis", str(noise["basis"])),
        ("Typical noise per value", f"{number(noise['root_mean_square_noise'])} {noise['unit']}"),
        ("Hours verified", f"{card['hours_verified']} of {card['hours']}"),
        ("Software", str(card["software"])),
    ]
