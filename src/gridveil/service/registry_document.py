"""The fields of the OpenDP deployments registry, in the words of its schema and no others."""

from __future__ import annotations

from dataclasses import dataclass

from gridveil.core.secret import SecretField
from gridveil.privacy.noisy import MechanismFacts
from gridveil.service.card import ASSUMPTIONS
from gridveil.service.public_files import proof_beside
from gridveil.service.publication import Publication
from gridveil.service.secret_card import field_words

TO_BE_STATED = "to be stated by the publisher"


@dataclass(frozen=True, kw_only=True)
class RegistryFacts:
    """What differs between the entry of one release and that of a series."""

    slug: str
    name: str
    description: list[str]
    data_domain: str
    unprotected: list[str]
    unit: str
    unit_details: str
    parameters: dict[str, float]
    alpha: float
    """In the unit of the field."""
    mechanisms: list[MechanismFacts]
    is_first: bool
    composition: str
    software: str
    publication: Publication


def registry_document(field: SecretField, facts: RegistryFacts) -> dict[str, object]:
    """The entry as plain values. What only the publisher knows is left to be stated, in words that say so."""
    return {
        "url_slug": facts.slug,
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": {
                "name": facts.name,
                "data_curators": [
                    {
                        "data_curator_name": facts.publication.publisher or TO_BE_STATED,
                        "data_curator_type": TO_BE_STATED,
                    }
                ],
                "intended_use": f"optimal flow studies on a network whose {field_words(field)} are protected",
                "data_product_type": "Synthetic data",
                "data_product_region": TO_BE_STATED,
                "description": " ".join(facts.description),
                "publication_date": facts.publication.date,
                "data_product_sector": "Energy",
            },
            "dp_variant": {
                "variant_name": "Custom",
                "data_domain": f"{facts.data_domain}, in {field.unit}",
                "unprotected_quantities": _lines(facts.unprotected),
            },
            "privacy_loss": {
                "privacy_unit": facts.unit,
                "privacy_unit_details": facts.unit_details,
                "privacy_parameters": facts.parameters,
                "privacy_parameters_details": (
                    f"(epsilon, alpha)-indistinguishability with alpha = {facts.alpha:g} {field.unit}; "
                    + "; ".join(f"{part.name}: epsilon = {part.epsilon:g}" for part in facts.mechanisms)
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
                "release_type": "One release" if facts.is_first else "Multiple releases",
                "data_source_type": "Static",
                "access_type": "Non-interactive",
            },
            "accounting": {
                "composition": facts.composition,
                "post_processing": (
                    "values nearest to the noisy ones whose optimal flow exists and has a cost within the stated band, found "
                    "from the noisy numbers and public data alone"
                ),
            },
            "implementation": {
                "mechanisms": _lines(
                    [
                        f"{part.name}, scale {part.scale:.6g}, drawn exactly on a lattice ({proof_beside(part.proof_note)})"
                        for part in facts.mechanisms
                    ]
                ),
                "preprocessing_and_hyperparameter_tuning": "none on true values; settings were chosen without looking at them",
                "justification": "proofs/release.md, beside this file, walks from the data to every published byte",
            },
            "administrative": {"sources": facts.software},
        },
    }


def _lines(items: list[str]) -> str:
    return "\n".join(f"- {item}" for item in items)
