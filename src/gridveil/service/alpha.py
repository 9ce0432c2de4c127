"""α of a release: what a user states with a unit, per unit of the field."""

from __future__ import annotations

from fractions import Fraction

from gridveil.core.quantity import parse_distance
from gridveil.core.secret import SecretField
from gridveil.service.settings import ReleaseSettings


def alpha_of(settings: ReleaseSettings, field: SecretField) -> Fraction:
    """α per unit of the field; of several secrets each has its own, and the whole is measured in units of them."""
    if field.parts:
        return field.parts[0].alpha if len(settings.secrets) == 1 else Fraction(1)
    return parse_distance(settings.alpha, field)
