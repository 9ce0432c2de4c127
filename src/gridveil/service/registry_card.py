"""The release as an entry of the OpenDP deployments registry, in the fields of its schema and no others."""

from __future__ import annotations

from datetime import UTC, datetime

from gridveil.core.choices import CostTargetMode
from gridveil.core.text import plural
from gridveil.service.card import ASSUMPTIONS, WORKED_BACK, card, plain_words, unit_words, unprotected
from gridveil.service.kept_card import DECLARED, declared
from gridveil.service.release import PublicRelease

TO_BE_STATED = "to be stated by the publisher"


def registry_entry(release: PublicRelease) -> dict[str, object]:
    """The entry as plain values. What only the publisher knows is left to be stated, in words that say so."""
    field, draw = release.case.field, release.draw
    of_totals = [totals.mechanism for totals in draw.totals if totals.mechanism is not None]
    parts = [draw.noisy.mechanism, *([draw.total.mechanism] if draw.total else []), *of_totals]
    return {
        "url_slug": "gridveil-release",
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": {
                "name": str(card(release)["name"]),
                "data_curators": [{"data_curator_name": TO_BE_STATED, "data_curator_type": TO_BE_STATED}],
                "intended_use": f"optimal flow studies on a network whose {plural(field.name)} are protected",
                "data_product_type": "Synthetic data",
                "data_product_region": TO_BE_STATED,
                "description": " ".join(plain_words(release)),
                "publication_date": datetime.now(UTC).date().isoformat(),
                "data_product_sector": "Energy",
            },
            "dp_variant": {
                "variant_name": "Custom",
                "data_domain": (
                    f"one {field.name} ({field.meaning}) for each of {len(field)} {plural(field.participant)}, in {field.unit}"
                ),
                "unprotected_quantities": _lines(_warned(release)),
            },
            "privacy_loss": {
                "privacy_unit": f"one {field.participant}",
                "privacy_unit_details": unit_words(release),
                "privacy_parameters": {"epsilon": draw.epsilon, "delta": 0.0},
                "privacy_parameters_details": (
                    f"(epsilon, alpha)-indistinguishability with alpha = {draw.noisy.mechanism.alpha * field.base:g} {field.unit}; "
                    + "; ".join(f"{part.name}: epsilon = {part.epsilon:g}" for part in parts)
                ),
            },
            "deployment_model": {
                "model_name": "Central",
                "actors": _lines(
                    [
                        "the curator, who holds the data and runs the software",
                        "readers, who are not trusted",
                        *ASSUMPTIONS,
                    ]
                ),
                "release_type": "One release" if _is_first(release) else "Multiple releases",
                "data_source_type": "Static",
                "access_type": "Non-interactive",
            },
            "accounting": {
                "composition": "sequential composition of all draws, in exact fractions, in the data set's ledger",
                "post_processing": (
                    "values nearest to the noisy ones whose optimal flow exists and has a cost within the stated band, found "
                    "from the noisy numbers and public data alone"
                ),
            },
            "implementation": {
                "mechanisms": _lines(
                    [
                        f"{part.name}, scale {part.scale:.6g}, drawn exactly on a lattice ({part.proof_note})"
                        for part in parts
                    ]
                ),
                "preprocessing_and_hyperparameter_tuning": "none on true values; settings were chosen without looking at them",
                "justification": "docs/proofs/release.md of the software walks from the data to every published byte",
            },
            "administrative": {"sources": str(card(release)["software"])},
        },
    }


def _warned(release: PublicRelease) -> list[str]:
    items = unprotected(release)
    names = declared(release)
    if names:
        items = [DECLARED.format(fields=plural(release.case.field.name), names=" and ".join(names)), *items]
    if release.target.source is CostTargetMode.PUBLIC:
        return [WORKED_BACK.format(fields=plural(release.case.field.name)), *items]
    return items


def _is_first(release: PublicRelease) -> bool:
    parts = 1 + (release.draw.total is not None) + any(totals.mechanism for totals in release.draw.totals)
    return release.spending is None or release.spending.draws <= parts


def _lines(items: list[str]) -> str:
    return "\n".join(f"- {item}" for item in items)
