"""The release as an entry of the OpenDP deployments registry."""

from __future__ import annotations

from gridveil.core.choices import CostTargetMode
from gridveil.core.text import plural
from gridveil.service.card import WORKED_BACK, card, plain_words, unit_words, unprotected
from gridveil.service.kept_card import DECLARED, declared
from gridveil.service.registry_document import RegistryFacts, registry_document
from gridveil.service.release import PublicRelease
from gridveil.service.secret_card import field_words


def registry_entry(release: PublicRelease) -> dict[str, object]:
    """The entry as plain values."""
    field, draw, facts = release.case.field, release.draw, card(release)
    noise = [part.facts for part in draw.noisy.mechanism.parts] or [draw.noisy.mechanism]
    of_totals = [totals.mechanism for totals in draw.totals if totals.mechanism is not None]
    return registry_document(
        field,
        RegistryFacts(
            slug="gridveil-release",
            name=str(facts["name"]),
            description=plain_words(release),
            data_domain=f"one {field.name} ({field.meaning}) for each of {len(field)} {plural(field.participant)}",
            unprotected=_warned(release),
            unit=f"one {field.participant}",
            unit_details=unit_words(release),
            parameters={"epsilon": draw.epsilon, "delta": 0.0},
            alpha=draw.noisy.mechanism.alpha * field.base,
            mechanisms=[*noise, *([draw.total.mechanism] if draw.total else []), *of_totals],
            is_first=_is_first(release),
            composition="sequential composition of all draws, in exact fractions, in the data set's ledger",
            software=str(facts["software"]),
            publication=release.publication,
        ),
    )


def _warned(release: PublicRelease) -> list[str]:
    items = unprotected(release)
    names = declared(release)
    if names:
        items = [DECLARED.format(fields=plural(release.case.field.name), names=" and ".join(names)), *items]
    if release.target.source is CostTargetMode.PUBLIC:
        return [WORKED_BACK.format(fields=field_words(release.case.field)), *items]
    return items


def _is_first(release: PublicRelease) -> bool:
    parts = 1 + (release.draw.total is not None) + any(totals.mechanism for totals in release.draw.totals)
    return release.spending is None or release.spending.draws <= parts
