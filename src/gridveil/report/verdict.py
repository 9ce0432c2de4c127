"""The answer before the details: a verdict in one line, its reasons, and four numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from gridveil.core.text import number, percent
from gridveil.report.promise import Promise


class Level(StrEnum):
    """How a verdict is coloured; each has its own sign, as colour alone is not enough."""

    GOOD = "good"
    CAUTION = "caution"
    STOP = "stop"


@dataclass(frozen=True, kw_only=True)
class KeyNumber:
    """One of the numbers that a reader should leave with. ``term`` names an entry of the glossary."""

    label: str
    value: str
    note: str
    term: str = ""


@dataclass(frozen=True, kw_only=True)
class Conclusion:
    """What to do with a release, why, and the numbers behind it."""

    level: Level
    headline: str
    reasons: tuple[str, ...]
    numbers: tuple[KeyNumber, ...]


def curator_verdict(
    *, simulation: bool, promise: Promise, solved: bool, revealing: int, numbers: tuple[KeyNumber, ...]
) -> Conclusion:
    """The verdict for the person who decides about publishing."""
    reasons = []
    if revealing:
        numbers_equal = "public number equals a demand" if revealing == 1 else "public numbers equal a demand"
        reasons.append(f"{revealing} {numbers_equal}; a reader may recognise it whatever the noise")
    if promise.cost_is_public:
        reasons.append("the true optimal cost is published, from which a demand can be worked back")
    if not solved:
        reasons.append(
            "the optimal flow at the true demands could not be solved, so costs and flows cannot be compared"
        )
    if simulation:
        return Conclusion(
            level=Level.STOP,
            headline="A simulation: do not publish it",
            reasons=("the noise came from a seed and protects nobody", *reasons),
            numbers=numbers,
        )
    if reasons:
        return Conclusion(
            level=Level.CAUTION,
            headline="Verified; decide on these points before you publish",
            reasons=tuple(reasons),
            numbers=numbers,
        )
    return Conclusion(
        level=Level.GOOD,
        headline="Verified: the folder public/ can be published",
        reasons=("its optimal flow was solved again from the written file and lies in the band",),
        numbers=numbers,
    )


def cost_number(true_cost: float, released: float, lower: float, upper: float, unit: str) -> KeyNumber:
    """How far the optimal cost moved from the true one, beside the band."""
    moved = (released - true_cost) / abs(true_cost) if true_cost else math.nan
    value = f"{'+' if moved > 0 else ''}{percent(moved)}" if math.isfinite(moved) else "unknown"
    note = f"{number(true_cost, 6)} → {number(released, 6)} {unit}; band {number(lower, 6)} to {number(upper, 6)}"
    return KeyNumber(label="Change of the optimal cost", value=value, note=note, term="band")


def odds_number(promise: Promise) -> KeyNumber:
    """The most that the release tells about one value."""
    if promise.cost_is_public:
        return KeyNumber(label="Odds", value="no limit", note="the true cost is published", term="odds")
    return KeyNumber(
        label="Odds, at most",
        value=promise.at_alpha.odds,
        note=f"for two {promise.fields} {promise.alpha} apart; a probability of {promise.at_alpha.probability} at most",
        term="odds",
    )


def card_verdict(card: Mapping[str, Any], promise: Promise) -> Conclusion:
    """The verdict for readers of a release: what they hold and whether it keeps its promise."""
    target, found = card["cost_target"], card["post_processing"]
    off = (float(found["optimal_cost"]) - float(target["value"])) / abs(float(target["value"]) or math.nan)
    numbers = (
        odds_number(promise),
        KeyNumber(
            label="Optimal cost",
            value=f"{number(found['optimal_cost'], 6)} {target['unit']}",
            note=f"{percent(abs(off)) if math.isfinite(off) else number(found['optimal_cost'])} from its target",
            term="band",
        ),
        KeyNumber(
            label=f"Noise on each {promise.field}",
            value=promise.typical_noise,
            note="typical size, before the adjustment",
            term="noise",
        ),
        KeyNumber(
            label=f"{promise.fields.capitalize()} made private",
            value=str(card["promise"]["participants"]),
            note=f"with ε = {promise.epsilon} at α = {promise.alpha}",
            term="ε",
        ),
    )
    if card["simulation"]:
        return Conclusion(
            level=Level.STOP,
            headline="A simulation: it protects nobody",
            reasons=("whoever knows the seed can remove the noise",),
            numbers=numbers,
        )
    if promise.cost_is_public:
        return Conclusion(
            level=Level.CAUTION,
            headline=f"Noisy {promise.fields}, with the true optimal cost published",
            reasons=(f"anyone who knows all other {promise.fields} can work the last one back from the cost",),
            numbers=numbers,
        )
    return Conclusion(
        level=Level.GOOD,
        headline=f"Private {promise.fields}; the optimal cost is verified",
        reasons=("the cost was computed from the published file, and anyone can repeat that",),
        numbers=numbers,
    )
