"""A case: the public network and, separately, the secrets of its participants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

from gridveil.core.secret import Secret, SecretField, SecretValues


class Network(Protocol):
    """Everything public of a case; ``kind`` names the sector that knows the rest."""

    kind: ClassVar[str]


@dataclass(frozen=True, eq=False, kw_only=True)
class ValuesOverTime:
    """True values of a case at several moments: snapshots or profiles that its file holds.

    ``replace_values`` says that there are no others: the case's own values are those of the first moment and stand for nothing.
    """

    timestamps: tuple[str, ...]
    values: tuple[SecretValues, ...]
    replace_values: bool

    def __len__(self) -> int:
        return len(self.timestamps)

    def scaled(self, factor: float) -> ValuesOverTime:
        """The same values in another unit."""
        return replace(self, values=tuple(one.scaled(factor) for one in self.values))

    def at(self, positions: Sequence[int]) -> ValuesOverTime:
        """The values at these positions, and zero where one is negative."""
        return replace(self, values=tuple(one.at(positions) for one in self.values))


@dataclass(frozen=True, eq=False, kw_only=True)
class Case:
    """One network and the true values of its secret field (per unit), in the order of the field's places.

    ``file_format`` is the format it was read in, so that a release can be written in the same one.
    ``notes`` says what the reader simplified. ``sites_declared`` is False where the list of sites follows the demands
    (a site vanishes with its demand), which no release may do. ``unprotected`` names what draws power or gas outside the
    secret field and is published as the file states it. ``over_time`` holds the values of a file that states several
    moments; they are released as a series.
    """

    name: str
    network: Network
    secret: Secret
    file_format: str
    notes: tuple[str, ...] = ()
    sites_declared: bool = True
    unprotected: tuple[str, ...] = ()
    over_time: ValuesOverTime | None = None

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
        return replace(self, secret=Secret(field=self.field, values=values), over_time=None)
