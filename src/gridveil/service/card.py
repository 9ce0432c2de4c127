"""The card that goes with a release: what is promised, under which conditions, and what is not protected.

It is made from a ``PublicRelease`` and nothing else, so nothing secret can enter. Plain words come first.
"""

from __future__ import annotations

import math
from dataclasses import asdict

from gridveil import __version__
from gridveil.core.choices import CostTargetMode
from gridveil.core.kept import KeptSource
from gridveil.core.secret import SecretField
from gridveil.core.text import odds_above, plural
from gridveil.privacy.noisy import MechanismFacts
from gridveil.sectors.registry import sector_of
from gridveil.service.kept_card import DECLARED, GIVEN_TOTALS, GIVEN_TOTALS_TITLE, declared, kept_facts, kept_words
from gridveil.service.prepare import PublicCase
from gridveil.service.public_files import CARD_SCHEMA, proof_beside
from gridveil.service.release import PublicRelease
from gridveil.service.secret_card import field_words, secret_facts, secret_unit_words, secret_words
from gridveil.service.target import SMALL

SIMULATION_NOTICE = "SIMULATION, NOT PRIVATE: the noise was made from a seed and protects nobody"
TITLE = "Network with differentially private {fields}"
GIVEN_COST_TITLE = "Network with noisy {fields} and its true optimal cost"
PURE = "pure differential privacy: (epsilon, alpha)-indistinguishability"
GIVEN_COST = (
    "not differential privacy: the noise protects values only as far as the published true cost does not tell them"
)
NO_PROMISE = "none: a simulation"
ASSUMPTIONS = (
    "the curator, the curator's machine and its operating system's random numbers are trusted",
    "what is listed as unprotected tells nothing about the protected values",
    "nobody measures how long the curator's computation takes",
)
FOREIGN_MECHANISM = (
    "the mechanism {name!r} of {package} keeps the promise that it states; gridveil neither wrote nor audited it"
)
WORKED_BACK = (
    "The optimal cost of the true {fields} is published exactly, because the curator declared it public. Somebody who knows "
    "all other {fields} can work the last one back from it. The noise does not prevent that."
)
TARGET_WORDS = {
    CostTargetMode.PRIVATE: "estimated from a weighted sum with noise of its own, and from the noisy values",
    CostTargetMode.DERIVED: "derived from the noisy values alone",
    CostTargetMode.FORECAST: "a forecast, given by the curator",
    CostTargetMode.PUBLIC: "the optimal cost of the true values, declared public by the curator",
}

SCALE_WORDS = (
    "optimal cost of demands that were {origin}; beta, stated as a share, is one of the target or of {small:.0%} of this cost, "
    "whichever is larger"
)


def card(release: PublicRelease) -> dict[str, object]:
    """The card as plain values for YAML; the hashes of the public files join it when these are written."""
    field, draw, result, target = release.case.field, release.draw, release.released.result, release.target
    return {
        "name": title(release),
        "in_plain_words": plain_words(release),
        "simulation": release.simulation,
        "schema": CARD_SCHEMA,
        "software": f"gridveil {__version__}",
        "publication": release.publication.fields(),
        "variant": variant(release),
        "promise": {
            "field": field.name,
            "privacy_unit": f"one {field.participant}",
            "privacy_unit_details": unit_words(release),
            "epsilon": draw.epsilon,
            "alpha": draw.noisy.mechanism.alpha * field.base,
            "unit": field.unit,
            "participants": len(field),
        },
        **secret_facts(field, draw.noisy.mechanism.parts),
        "data_set": None if release.spending is None else asdict(release.spending),
        "mechanisms": [
            *_noise(draw.noisy.mechanism, field),
            *([_mechanism(draw.total.mechanism, field.base, release.cost_unit, is_sum=True)] if draw.total else []),
            *(
                _mechanism(totals.mechanism, field.base, field.unit) | {"of": totals.name, "groups": len(totals.labels)}
                for totals in draw.totals
                if totals.mechanism is not None
            ),
        ],
        "unprotected": unprotected(release),
        "assumptions": assumptions(release),
        "cost_target": {
            "mode": target.source.value,
            "meaning": TARGET_WORDS[target.source],
            "value": target.value,
            "beta": target.beta,
            "scale": _scale(release),
            "error_at_95_percent": release.target_error,
            "unit": release.cost_unit,
        },
        **kept_facts(release),
        "post_processing": {
            "method": release.settings.method.value,
            "demand_bounds": release.settings.demand_bounds.value,
            "optimal_cost": result.cost,
            **_checks(release),
            "squared_distance_to_noisy": result.delta,
            "monotone": result.monotonicity.holds,
        },
    }


def _noise(facts: MechanismFacts, field: SecretField) -> list[dict[str, object]]:
    """The noise on the values: one mechanism, or one of each secret."""
    if not facts.parts:
        return [_mechanism(facts, field.base, field.unit)]
    return [{"field": part.field} | _mechanism(part.facts, part.base, part.unit) for part in facts.parts]


def title(release: PublicRelease) -> str:
    """What the release is, without a word that does not hold."""
    if release.simulation:
        return SIMULATION_NOTICE
    if release.target.source is CostTargetMode.PUBLIC:
        return GIVEN_COST_TITLE.format(fields=field_words(release.case.field))
    words = GIVEN_TOTALS_TITLE if declared(release) else TITLE
    return words.format(fields=field_words(release.case.field))


def plain_words(release: PublicRelease) -> list[str]:
    """What a reader must know, in order of importance."""
    field, target = release.case.field, release.target
    if release.simulation:
        return [f"{SIMULATION_NOTICE}."]
    alpha, words = release.draw.noisy.mechanism.alpha * field.base, []
    if target.source is CostTargetMode.PUBLIC:
        words.append(WORKED_BACK.format(fields=field_words(field)))
    elif field.parts:
        words += secret_words(release.draw, field)
    elif declared(release):
        words.append(DECLARED.format(fields=plural(field.name), names=" and ".join(declared(release))))
    else:
        words.append(
            f"Somebody who knows the {plural(field.name)} of all other {plural(field.participant)}, and everything else in this "
            f"folder, cannot tell two values of one {field.name} up to {alpha:g} {field.unit} apart by odds of more than "
            f"{odds_above(release.draw.epsilon)} to 1 (epsilon = {release.draw.epsilon:g})."
        )
    if release.spending is not None:
        spent = release.spending
        words.append(
            f"All {spent.draws} draws on this data set together have spent epsilon = {spent.epsilon:.6g} at alpha = "
            f"{spent.alpha:g} {spent.unit}, of at most {spent.cap:g}."
        )
    words.append(
        f"The optimal cost of this network is {release.released.result.cost:.6g} {release.cost_unit}, within "
        f"{target.beta:.4g} of a target that is {TARGET_WORDS[target.source]}."
    )
    words += kept_words(release)
    words += _several_optima(release)
    if release.target_error:
        words.append(
            f"The target lies within {release.target_error:.3g} {release.cost_unit} of the true optimal cost with a "
            "probability of about 95 %: estimated from the noise and from replicas, not proved."
        )
    noise = release.draw.noisy.mechanism
    if noise.provided_by is not None:
        words.append(f"The noise comes from {noise.provided_by}, whose promise gridveil has not audited.")
    words.append("This holds under the assumptions below, and only for what is not listed as unprotected.")
    return words


def _checks(release: PublicRelease) -> dict[str, object]:
    """Who solved the released network, from where, and what each of them found."""
    checked = release.released.checked
    if checked is None:
        return {"checked_by": [], "spread": None}
    return {"checked_by": [asdict(check) for check in checked.checks], "spread": checked.spread}


def _several_optima(release: PublicRelease) -> list[str]:
    """Warn of local optima at which a reader's solver may stop instead, and of a solver that does not get there."""
    checked = release.released.checked
    if checked is None:
        return []
    words = []
    if checked.spread > 0:
        outside = checked.outside(release.target)
        words.append(
            f"The network has several local optima: solvers stopped at costs between {min(checked.costs):.6g} and "
            f"{max(checked.costs):.6g} {release.cost_unit}, {'not all' if outside else 'all'} of them within the stated "
            "distance of the target. The cheapest is the one stated above; a solver that starts elsewhere may stop at "
            "another."
        )
    lost = [check.solver for check in checked.checks if check.cost is None and check.is_readers]
    if lost:
        words.append(f"Its optimal flow is hard to find: from the usual start {' and '.join(lost)} did not converge.")
    return words


def variant(release: PublicRelease) -> str:
    """The kind of promise, in words."""
    if release.simulation:
        return NO_PROMISE
    if release.target.source is CostTargetMode.PUBLIC:
        return GIVEN_COST
    return GIVEN_TOTALS if declared(release) else PURE


def unit_words(release: PublicRelease) -> str:
    """What may change between two neighbouring data sets."""
    field = release.case.field
    if field.parts:
        return secret_unit_words(field)
    return (
        f"the {field.name} of one {field.participant} ({field.meaning}) may change by up to alpha, all others being known to "
        f"the attacker; the list of {plural(field.participant)} is public"
    )


def unprotected(release: PublicRelease) -> list[str]:
    """Everything that is published as it is."""
    facts = public_facts(release.case)
    if release.target.source is CostTargetMode.PUBLIC:
        facts.insert(0, f"the optimal cost of the true {field_words(release.case.field)}")
    facts = [f"the true {name}, declared public by the curator" for name in declared(release)] + facts
    if release.target.source is CostTargetMode.FORECAST:
        facts.append("the forecast of the cost, as given by the curator")
    facts += [
        f"the forecast of {number.name}, as given by the curator"
        for number in release.settings.keep.numbers
        if number.source is KeptSource.FORECAST
    ]
    return facts


def assumptions(release: PublicRelease) -> list[str]:
    """What the promise rests on; somebody else's mechanism is named."""
    noise = release.draw.noisy.mechanism
    if noise.provided_by is None:
        return list(ASSUMPTIONS)
    return [FOREIGN_MECHANISM.format(name=noise.name, package=noise.provided_by), *ASSUMPTIONS]


def public_facts(public: PublicCase) -> list[str]:
    """What a network publishes as it is, whatever the release."""
    return [*(fact.words for fact in sector_of(public.network).public_facts), *public.unprotected]


def _scale(release: PublicRelease) -> dict[str, object] | None:
    """The public cost that keeps β from vanishing, and where it comes from; None where β does not depend on one."""
    scale = release.prepared.cost_scale if release.settings.beta.relative else None
    return (
        None
        if scale is None
        else {"value": scale.value, "meaning": SCALE_WORDS.format(origin=scale.origin, small=SMALL)}
    )


def _mechanism(facts: MechanismFacts, base: float, unit: str, *, is_sum: bool = False) -> dict[str, object]:
    """One mechanism in physical units; the noise of a sum is in the unit of the sum."""
    size = 1.0 if is_sum else base
    return {
        "name": facts.name,
        "epsilon": facts.epsilon,
        "alpha": facts.alpha * base,
        "rounding": None if facts.rounding is None else facts.rounding * base,
        "scale": facts.scale * size,
        "lattice_step": facts.step * size,
        "root_mean_square_noise": math.sqrt(facts.expected_square) * size,
        "unit": unit,
        "proof": proof_beside(facts.proof_note),
        **({} if facts.provided_by is None else {"provided_by": facts.provided_by}),
    }
