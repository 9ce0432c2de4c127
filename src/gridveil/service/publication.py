"""What the publisher states about a release: who, where to ask, under which licence, and when."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime

from gridveil.core.errors import InputError

LONGEST = 300  # characters: a line on the card


@dataclass(frozen=True, kw_only=True)
class Publication:
    """Words of the publisher for the card, each one line; None where nothing is stated. ``network`` names the network.

    A file's own name is not published unless it is stated here.
    """

    publisher: str | None = None
    contact: str | None = None
    licence: str | None = None
    network: str | None = None
    day: date | None = None

    def __post_init__(self) -> None:
        for name in ("publisher", "contact", "licence", "network"):
            text = getattr(self, name)
            if text is not None and not (text.strip() and text.isprintable() and len(text) <= LONGEST):
                raise InputError(f"{name}: must be one line of text of at most {LONGEST} characters")

    @property
    def date(self) -> str:
        """The day of publication, today unless stated; no time of day, which could tell how long the computation took."""
        return (self.day or datetime.now(UTC).date()).isoformat()

    def fields(self) -> dict[str, object]:
        """The fields of the card."""
        return {
            "publisher": self.publisher,
            "contact": self.contact,
            "licence": self.licence,
            "network": self.network,
            "date": self.date,
        }


UNSTATED = Publication()
