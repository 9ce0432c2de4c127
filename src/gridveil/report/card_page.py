"""The public card as a page: made from the values of card.yaml and nothing else, so no secret can enter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gridveil.report.page import plain, render
from gridveil.report.promise import promise_of
from gridveil.report.verdict import card_verdict

FILE = "card.html"
WORDS = {"dp": "DP", "epsilon": "ε", "alpha": "α", "beta": "β"}


def card_page(card: Mapping[str, Any]) -> str:
    """The page of a card."""
    promise = promise_of(card)
    return render(
        "card.html",
        title=str(card["name"]),
        card=card,
        promise=promise,
        verdict=card_verdict(card, promise),
        fields=list(_fields(card)),
    )


def _fields(values: Mapping[str, Any], above: str = "") -> Iterator[list[str]]:
    """List every field of the card as (name, value), with the groups it lies in before its name."""
    for key, value in values.items():
        name = above + " ".join(WORDS.get(word, word) for word in key.split("_"))
        if isinstance(value, Mapping):
            yield from _fields(value, f"{name}: ")
        else:
            items = value if isinstance(value, list) else [value]
            for number, item in enumerate(items, start=1):
                label = f"{name} {number}" if len(items) > 1 else name
                if isinstance(item, Mapping):
                    yield from _fields(item, f"{label}: ")
                else:
                    yield [label, plain(item)]
