"""What a user chooses for a series of releases."""

from __future__ import annotations

from dataclasses import dataclass

from gridveil.core.choices import CostTargetMode, Protects
from gridveil.core.errors import InputError
from gridveil.service.settings import ReleaseSettings


@dataclass(frozen=True, kw_only=True)
class SeriesSettings:
    """The settings of every hour, and whose change is hidden.

    ε and α of ``release`` are the promise for one hour, or for a whole profile. ``mechanism``, ``basis`` (None
    chooses them) and ``delta`` belong to profiles.
    """

    release: ReleaseSettings
    protects: Protects
    mechanism: str | None = None
    basis: str | None = None
    delta: str | None = None

    def __post_init__(self) -> None:
        mode = self.release.target.mode
        if mode is CostTargetMode.PUBLIC:
            raise InputError("a series has no declared public costs; use the private, derived or forecast cost target")
        if self.protects is Protects.HOUR and (self.mechanism, self.basis, self.delta) != (None, None, None):
            raise InputError(
                "mechanism, basis and delta are choices for whole profiles; leave them out, or protect profiles"
            )
        if self.protects is Protects.PROFILE and mode is CostTargetMode.PRIVATE:
            raise InputError(
                "a private cost target is drawn hour by hour, which does not protect a profile; use the derived or forecast "
                "cost target"
            )
