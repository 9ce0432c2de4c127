"""The series as an entry of the OpenDP deployments registry."""

from __future__ import annotations

from gridveil.core.choices import Protects
from gridveil.core.text import plural
from gridveil.service.registry_document import RegistryFacts, registry_document
from gridveil.service.series import SeriesRelease
from gridveil.service.series_card import plain_words, series_card


def series_registry_entry(release: SeriesRelease) -> dict[str, object]:
    """The entry of a series: one deployment, whose unit is an hour or the whole profile of a participant."""
    field, facts = release.case.field, series_card(release)
    promise = facts["promise"]
    assert isinstance(promise, dict)
    whole = release.settings.protects is Protects.PROFILE
    totals = [total.mechanism for total in (release.draw.totals or ()) if total is not None]
    return registry_document(
        field,
        RegistryFacts(
            slug="gridveil-series",
            name=str(facts["name"]),
            description=plain_words(release),
            data_domain=(
                f"one {field.name} ({field.meaning}) for each of {len(field)} {plural(field.participant)} at each of "
                f"{len(release.rows)} moments"
            ),
            unprotected=[str(item) for item in _listed(facts["unprotected"])],
            unit=f"one profile of one {field.participant}" if whole else f"one hour of one {field.participant}",
            unit_details=str(promise["privacy_unit"]),
            parameters={"epsilon": float(promise["epsilon"]), "delta": float(promise["delta"] or 0.0)},
            alpha=release.draw.mechanism.alpha * field.base,
            mechanisms=[release.draw.mechanism, *totals[:1]],
            is_first=release.spending is None or release.spending.draws <= 1,
            composition="one charge for all hours; sequential composition of all draws in the data set's ledger",
            software=str(facts["software"]),
            publication=release.publication,
        ),
    )


def _listed(items: object) -> list[object]:
    assert isinstance(items, list)
    return items
