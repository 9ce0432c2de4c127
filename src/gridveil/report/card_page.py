"""The public card as a page: made from the values of card.yaml and nothing else, so no secret can enter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gridveil.core.text import number
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
        publication=_publication(card),
        files=[[one["file"], number(one["bytes"]), one["sha256"]] for one in card.get("files", ())],
        kept=_kept(card),
        secrets=_secrets(card),
    )


def _publication(card: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What the publisher states; what is not stated is left out."""
    names = {"network": "Network", "publisher": "Publisher", "contact": "Contact", "licence": "Licence", "date": "Date"}
    stated = card.get("publication", {})
    return [(words, str(stated[name])) for name, words in names.items() if stated.get(name)]


def _kept(card: Mapping[str, Any]) -> list[list[str]]:
    """What is kept besides the cost: how far each number is off its target, and how far it may be."""
    return [
        [
            one["what"],
            one["target_is"],
            _amount(one["target"], one["unit"]),
            _amount(one["released"], one["unit"]),
            f"{number(one['off_by'])} of at most {number(one['at_most'])} {one['unit']}",
        ]
        for one in card.get("kept", {}).get("numbers", ())
    ]


def _amount(value: float | Mapping[str, float], unit: str) -> str:
    if isinstance(value, Mapping):
        return f"{number(value['active'])} MW, {number(value['reactive'])} MVAr"
    return f"{number(value)} {unit}"


def _secrets(card: Mapping[str, Any]) -> list[list[str]]:
    """Each of several secrets with its own α and share of ε."""
    return [
        [one["field"], one["privacy_unit"], str(one["participants"]), number(one["epsilon"]),
         f"{number(one['alpha'])} {one['unit']}", one["published_as"]]
        for one in card.get("secrets", ())
    ]  # fmt: skip


def _fields(values: Mapping[str, Any], above: str = "") -> Iterator[list[str]]:
    """List every field of the card as (name, value), with the groups it lies in before its name."""
    for key, value in values.items():
        name = above + " ".join(WORDS.get(word, word) for word in key.split("_"))
        if isinstance(value, Mapping):
            yield from _fields(value, f"{name}: ")
        else:
            items = value if isinstance(value, list) else [value]
            for place, item in enumerate(items, start=1):
                label = f"{name} {place}" if len(items) > 1 else name
                if isinstance(item, Mapping):
                    yield from _fields(item, f"{label}: ")
                else:
                    yield [label, plain(item)]
