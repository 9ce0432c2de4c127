"""The card of a series: which change is hidden, one hour or a whole profile, and what that means for the other."""

from __future__ import annotations

import math
from dataclasses import asdict

from gridveil import __version__
from gridveil.core.choices import Protects
from gridveil.core.text import odds_above, plural
from gridveil.privacy.mechanisms import SHARED_SHAPE
from gridveil.service.card import (
    ASSUMPTIONS,
    NO_PROMISE,
    PURE,
    SIMULATION_NOTICE,
    TARGET_WORDS,
    public_facts,
)
from gridveil.service.public_files import CARD_SCHEMA, proof_beside
from gridveil.service.series import SeriesRelease
from gridveil.solvers.checks import CheckedCost

APPROXIMATE = "approximate differential privacy: (epsilon, delta)-indistinguishability at alpha, from rho-zCDP"
UNITS = {
    Protects.HOUR: "one hour of one {participant}: the {name} of one hour may change by up to alpha",
    Protects.PROFILE: "the whole profile of one {participant}: the {name} of every hour may change by up to alpha at once",
}


def series_card(release: SeriesRelease) -> dict[str, object]:
    """The card as plain values for YAML."""
    field, draw, settings = release.case.field, release.draw, release.settings
    epsilon, hours = float(settings.release.exact_epsilon), len(release.rows)
    whole = epsilon if settings.protects is Protects.PROFILE else hours * epsilon
    modes = {row.target.source for row in release.rows if row.target is not None}
    return {
        "name": SIMULATION_NOTICE
        if draw.simulation
        else f"Series of networks with differentially private {plural(field.name)}",
        "in_plain_words": plain_words(release),
        "simulation": draw.simulation,
        "schema": CARD_SCHEMA,
        "software": f"gridveil {__version__}",
        "publication": release.publication.fields(),
        "variant": NO_PROMISE if draw.simulation else APPROXIMATE if draw.mechanism.delta else PURE,
        "promise": {
            "field": field.name,
            "protects": settings.protects.value,
            "privacy_unit": UNITS[settings.protects].format(participant=field.participant, name=field.name),
            "epsilon": epsilon,
            "delta": draw.mechanism.delta,
            "rho": draw.mechanism.rho,
            "epsilon_of_one_hour": epsilon,
            "epsilon_of_a_whole_profile": whole,
            "alpha": draw.mechanism.alpha * field.base,
            "unit": field.unit,
            "participants": len(field),
        },
        "data_set": None if release.spending is None else asdict(release.spending),
        "mechanism": {
            "name": draw.mechanism.name,
            "epsilon": draw.mechanism.epsilon,
            "basis": release.basis.name,
            "numbers_per_profile": 1 if shares_shape(release) else release.basis.blocks,
            "lattice_step": draw.mechanism.step * field.base,
            "root_mean_square_noise": math.sqrt(draw.mechanism.expected_square) * field.base,
            "unit": field.unit,
            "proof": proof_beside(draw.mechanism.proof_note),
        },
        "hours": hours,
        "hours_verified": sum(row.verified for row in release.rows),
        "hours_checked_as_readers": len(checked_hours(release)),
        "largest_spread": max((checked.spread for checked in checked_hours(release)), default=None),
        "unprotected": [*public_facts(release.case), "the timestamps, and the public basis of the profiles"],
        "assumptions": list(ASSUMPTIONS),
        "cost_targets": {mode.value: TARGET_WORDS[mode] for mode in sorted(modes, key=lambda mode: mode.value)},
    }


def checked_hours(release: SeriesRelease) -> list[CheckedCost]:
    """What readers find in the hours that were solved as they would."""
    found = [row.released.checked for row in release.rows if row.released is not None]
    return [checked for checked in found if checked is not None]


def shares_shape(release: SeriesRelease) -> bool:
    """Whether all profiles have the shape of their noisy sum."""
    return release.settings.mechanism == SHARED_SHAPE


def plain_words(release: SeriesRelease) -> list[str]:
    """What a reader must know, in order of importance."""
    if release.draw.simulation:
        return [f"{SIMULATION_NOTICE}."]
    field, facts, spent = release.case.field, release.draw.mechanism, release.spending
    epsilon, hours = float(release.settings.release.exact_epsilon), len(release.rows)
    size = f"{facts.alpha * field.base:g} {field.unit}"
    odds = f"by odds of more than {odds_above(epsilon)} to 1 (epsilon = {epsilon:g}"
    if release.settings.protects is Protects.HOUR:
        words = [
            f"One hour of one {field.participant}: somebody who knows everything else cannot tell two values up to {size} apart "
            f"{odds}).",
            f"The whole profile of one {field.participant} is not protected at that level: the losses of all {hours} hours add "
            f"up to epsilon = {hours * epsilon:.6g}.",
        ]
    else:
        but = f"; this may fail with a probability of up to delta = {facts.delta:g})." if facts.delta else ")."
        words = [
            f"The whole profile of one {field.participant}: somebody who knows everything else cannot tell two profiles whose "
            f"every hour differs by up to {size} {odds}{but} This covers all {hours} hours together.",
            f"A profile was measured by its mean, and the sum of all profiles by {release.basis.blocks} numbers (basis: "
            f"{release.basis.name}), whose shape every profile is given."
            if shares_shape(release)
            else f"A profile was measured by {release.basis.blocks} numbers (basis: {release.basis.name}); what the hours of one "
            "block differ by comes from the public basis alone.",
        ]
    if spent is not None:
        delta = f" and delta = {spent.delta:g}" if spent.delta else ""
        whom = "one hour of one" if spent.protects == Protects.HOUR.value else "everything about one"
        words.append(
            f"All {spent.draws} draws on this data set together have spent epsilon = {spent.epsilon:.6g}{delta} at alpha = "
            f"{spent.alpha:g} {spent.unit}, of at most {spent.cap:g}, for {whom} {field.participant}."
        )
    verified = sum(row.verified for row in release.rows)
    words.append(
        f"In {verified} of {hours} hours the optimal cost was verified in the band around the target of that hour."
    )
    checked = checked_hours(release)
    apart = max((one.spread for one in checked), default=0.0)
    words.append(
        f"{len(checked)} of them, from the lowest demand to the highest, were solved as a reader would: by several solvers, from "
        + (
            f"several starts. These stopped at costs up to {apart:.6g} {release.cost_unit} apart; the cheapest is stated."
            if apart
            else "several starts, which all led to the same cost."
        )
    )
    words.append("This holds under the assumptions below, and only for what is not listed as unprotected.")
    return words
