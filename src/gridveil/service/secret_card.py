"""What a card says of several secrets: the promise of each, their limits, and what the whole adds up to."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gridveil.core.secret import SecretField, SecretPart
from gridveil.core.text import odds_above, plural
from gridveil.privacy.noisy import Draw, PartFacts

MEANINGS = {
    "cost": "every cost is published as a straight line; bend, constant and reactive cost of a curve are not published",
    "limit": "ratings B and C are not published",
    "impedance": "the logarithm of r + jx: alpha is a relative change; other shunts of a branch are not published",
    "charging": "the logarithm of the charging susceptance, half of it at either end",
}


def secret_facts(field: SecretField, parts: Sequence[PartFacts]) -> dict[str, object]:
    """One entry per secret, in physical units; nothing where demands alone are hidden."""
    if not field.parts:
        return {}
    return {
        "secrets": [
            {
                "field": part.field.name,
                "meaning": part.field.meaning,
                "privacy_unit": f"one {part.field.participant}",
                "participants": len(part.field),
                "epsilon": facts.facts.epsilon,
                "alpha": float(part.alpha) * part.field.base,
                "unit": part.field.unit,
                "public_limits": _limits(part),
                "published_as": MEANINGS.get(part.field.name, "noisy and repaired values"),
            }
            for part, facts in zip(field.parts, parts, strict=True)
        ]
    }


def secret_words(draw: Draw, field: SecretField) -> list[str]:
    """The promise in plain words: for each secret, and for somebody who owns one participant of every kind."""
    each = [
        f"two values of the {part.field.name} of one {part.field.participant} up to "
        f"{float(part.alpha) * part.field.base:g} {part.field.unit} apart (epsilon = {facts.facts.epsilon:g} of the noise)"
        for part, facts in zip(field.parts, draw.noisy.mechanism.parts, strict=True)
    ]
    return [
        "Somebody who knows all other values, and everything else in this folder, cannot tell apart "
        f"{'; or '.join(each)}. For all of these at once, of one participant of each kind, the odds change by a factor of at "
        f"most {odds_above(draw.epsilon)} (epsilon = {draw.epsilon:g} in all, which is what was charged)."
    ]


def secret_unit_words(field: SecretField) -> str:
    """What may change between two neighbouring data sets."""
    each = [
        f"the {part.field.name} of one {part.field.participant} by up to {float(part.alpha) * part.field.base:g} "
        f"{part.field.unit}"
        for part in field.parts
    ]
    kinds = ", ".join(dict.fromkeys(plural(part.field.participant) for part in field.parts))
    return (
        f"{', and '.join(each)} may change, all at once, everything else being known to the attacker; the lists of {kinds} are "
        "public"
    )


def field_words(field: SecretField) -> str:
    """What is hidden, in the plural: demands, or demands, costs and limits."""
    names = [plural(part.field.name) for part in field.parts if part.field.name != "charging"]
    if len(names) < 2:
        return plural(field.name)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _limits(part: SecretPart) -> list[float] | None:
    """Limits that released values are kept in, in the field's unit; those of a logarithm per unit of its number."""
    ends = [part.lower.real, part.upper.real]
    if not all(math.isfinite(end) for end in ends):
        return None
    return [math.exp(end) if part.field.unit == "%" else end * part.field.base for end in ends]
