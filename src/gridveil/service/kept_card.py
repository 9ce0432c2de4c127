"""What the card says about kept totals and losses: their targets, how far they are off, and how private they are."""

from __future__ import annotations

from gridveil.core.kept import LOSS, KeptSource
from gridveil.core.secret import SecretField
from gridveil.core.text import plural
from gridveil.sectors.partition import RULE
from gridveil.service.losses import losses_at
from gridveil.service.release import PublicRelease

GIVEN_TOTALS_TITLE = "Network with noisy {fields} and true totals"
GIVEN_TOTALS = (
    "not differential privacy: the noise protects values only as far as the published true totals do not tell them"
)
DECLARED = (
    "True {names} are published exactly, because the curator declared them public. Somebody who knows all other {fields} "
    "can work the last one back from them. The noise does not prevent that."
)
SOURCE_WORDS = {
    KeptSource.PRIVATE: "a sum with noise of its own; all groups together spend its epsilon, as each participant is in one of them",
    KeptSource.PUBLIC: "the true number, declared public by the curator",
    KeptSource.FORECAST: "a forecast, given by the curator",
    KeptSource.DERIVED: "derived from the noisy values",
}


def declared(release: PublicRelease) -> list[str]:
    """Names of the kept numbers that are published as they are."""
    return [number.name for number in release.settings.keep.numbers if number.source is KeptSource.PUBLIC]


def kept_words(release: PublicRelease) -> list[str]:
    """One sentence on everything that is kept besides the cost."""
    numbers = release.settings.keep.numbers
    if not numbers:
        return []
    listed = ", ".join(
        f"{number.name} within {number.tolerance.amount:.3g} of {_whose(number.source)}" for number in numbers
    )
    return [
        f"Kept as well: {listed} (shares of the target); each is stated below and can be added up again from the file."
    ]


def _whose(source: KeptSource) -> str:
    return {
        KeptSource.PRIVATE: "a private target",
        KeptSource.PUBLIC: "the true value",
        KeptSource.FORECAST: "a forecast",
        KeptSource.DERIVED: "a derived target",
    }[source]


def kept_facts(release: PublicRelease) -> dict[str, object]:
    """The part ``kept`` of the card, in physical units: whatever a reader needs to check it. Nothing if nothing is kept."""
    if release.keeping.nothing:
        return {}
    by_rule = {number.name for number in release.settings.keep.numbers if number.parts is not None}
    rule = {"zones_are": RULE} if by_rule else {}
    sources = {number.name: SOURCE_WORDS[number.source] for number in release.settings.keep.numbers}
    return {"kept": {"targets_are": sources} | rule | {"numbers": [*_totals(release, by_rule), *_losses(release)]}}


def _totals(release: PublicRelease, by_rule: set[str]) -> list[dict[str, object]]:
    field, values = release.case.field, release.values
    documents = []
    for target in release.keeping.totals:
        document: dict[str, object] = {
            "what": target.words,
            "target_is": target.source.value,
            "target": _parts(target.value, field, target.active_only),
            "released": _parts(complex(values[target.members].sum()), field, target.active_only),
            "off_by": target.off(values) * field.base,
            "at_most": target.half_width * field.base,
            "error_of_target_at_95_percent": None if target.error is None else target.error * field.base,
            "unit": field.unit,
            plural(field.participant).replace(" ", "_"): int(target.members.sum()),
        }
        if target.name in by_rule:
            document["places"] = [
                place for place, member in zip(field.places, target.members.tolist(), strict=True) if member
            ]
        documents.append(document)
    return documents


def _losses(release: PublicRelease) -> list[dict[str, object]]:
    """Losses at the optimum of the released network."""
    target, x = release.keeping.losses, release.released.result.x
    if target is None or x is None:
        return []
    field, model = release.case.field, release.prepared.model
    losses = losses_at(model, x, model.layout.to_program(release.values))
    return [
        {
            "what": LOSS,
            "target_is": target.source.value,
            "target": target.value * field.base,
            "released": losses * field.base,
            "off_by": abs(losses - target.value) * field.base,
            "at_most": target.half_width * field.base,
            "error_of_target_at_95_percent": None,
            "unit": "MW",
        }
    ]


def _parts(value: complex, field: SecretField, active_only: bool) -> object:
    if not field.is_complex or active_only:
        return value.real * field.base
    return {"active": value.real * field.base, "reactive": value.imag * field.base}
