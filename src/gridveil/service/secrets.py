"""Further secrets of a release: from what a user declares to a case that hides it, and what its draws cost."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from gridveil.core.errors import InputError
from gridveil.core.quantity import physical
from gridveil.core.secret import SecretField
from gridveil.core.secret_choice import DEMAND, SecretChoice
from gridveil.privacy.curator import published_values
from gridveil.privacy.ledger_file import ChargePart
from gridveil.privacy.mechanisms.product import ProductNoise
from gridveil.sectors.case import Case
from gridveil.sectors.registry import hide


def with_secrets(case: Case, secrets: Sequence[SecretChoice]) -> Case:
    """The case with everything declared secret hidden; as it is where nothing is declared, or is hidden already.

    Demands that are not declared become public: their owner says so by leaving them out.
    """
    if not secrets or case.field.parts:
        return case
    declared = any(choice.name == DEMAND for choice in secrets)
    demand: NDArray[np.complex128] | None = None if declared else published_values(case)
    return hide(case, tuple(secrets), demand)


def noise_parts(mechanism: ProductNoise) -> tuple[ChargePart, ...]:
    """What the draw of all values costs, secret by secret; the parts add up to its ε."""
    return tuple(
        ChargePart(
            field=part.field.name,
            unit=part.field.unit,
            epsilon=one.epsilon,
            alpha=physical(part.alpha, part.field),
            rounding=None if one.rounding is None else physical(one.rounding, part.field),
        )
        for part, one in mechanism.each
    )


def divided(field: SecretField, epsilon: Fraction) -> tuple[ChargePart, ...]:
    """ε by the shares of all secrets: what a draw would cost whose parts are not known yet. None without secrets."""
    return tuple(
        ChargePart(
            field=part.field.name,
            unit=part.field.unit,
            epsilon=part.share * epsilon,
            alpha=physical(part.alpha, part.field),
            rounding=None,
        )
        for part in field.parts
    )


def sum_parts(field: SecretField, steepness: Sequence[Fraction], epsilon: Fraction) -> tuple[ChargePart, ...]:
    """What a weighted sum over all values costs: ε divided in proportion to what each secret can move the sum by.

    Each part then states the definition's law, so that its ε at another α is never less than the truth (section 4 of
    docs/proofs/secrets.md).
    """
    moves = [part.alpha * steep for part, steep in zip(field.parts, steepness, strict=True)]
    total = sum(moves, Fraction(0))
    if total == 0:
        raise InputError("the weights of a private sum must not all be zero")
    return tuple(
        ChargePart(
            field=part.field.name,
            unit=part.field.unit,
            epsilon=epsilon * move / total,
            alpha=physical(part.alpha, part.field),
            rounding=None,
        )
        for part, move in zip(field.parts, moves, strict=True)
        if move
    )
