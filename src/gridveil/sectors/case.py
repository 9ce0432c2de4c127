"""A case: the public network and, separately, the secrets of its participants."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

from gridveil.core.secret import Secret, SecretField, SecretValues


class Network(Protocol):
    """Everything public of a case; ``kind`` names the sector that knows the rest."""

    kind: ClassVar[str]


@dataclass(frozen=True, eq=False, kw_only=True)
class Case:
    """One network and the true values of its secret field (per unit), in the order of the field's places.

    ``file_format`` is the format it was read in, so that a release can be written in the same one.
    ``notes`` says what the reader simplified. ``sites_declared`` is False where the list of sites follows the demands
    (a site vanishes with its demand), which no release may do. ``unprotected`` names what draws power or gas outside the
    secret field and is published as the file states it.
    """

    name: str
    network: Network
    secret: Secret
    file_format: str
    notes: tuple[str, ...] = ()
    sites_declared: bool = True
    unprotected: tuple[str, ...] = ()

    @property
    def field(self) -> SecretField:
        """What is hidden. Public."""
        return self.secret.field

    @property
    def values(self) -> SecretValues:
        """The true values."""
        return self.secret.values

    def with_values(self, values: SecretValues) -> Case:
        """Replace the true values, keeping everything public."""
        return replace(self, secret=Secret(field=self.field, values=values))
