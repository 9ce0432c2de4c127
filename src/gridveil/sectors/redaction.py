"""Redaction of parser messages, which may quote a demand."""

from __future__ import annotations

import re

_QUOTED = re.compile(r"`[^`]*`|\"[^\"]*\"|'[^']*'")
_WORD = re.compile(r"[A-Za-z_][A-Za-z_./-]*$")
_NUMBER = re.compile(r"(?<![A-Za-z_\d])(?<!utf-)[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?", re.IGNORECASE)
# A whole number right after one of these words is a place in the file, never a quantity.
_PLACE = re.compile(r"\b(bus|id|row|line|column|index|section|record|byte)s?\s+(\d+)\b(?!\.\d)", re.IGNORECASE)


def redact(message: str) -> str:
    """Put the message on one line and mask quoted values and numbers that do not name a field or a position."""
    line = " ".join(message.split())
    line = _QUOTED.sub(lambda m: m.group() if _WORD.match(m.group()[1:-1]) else "<hidden>", line)
    places: list[str] = []

    def keep(match: re.Match[str]) -> str:
        places.append(match.group())
        return f"\0{'_' * len(places)}\0"

    line = _NUMBER.sub("<hidden>", _PLACE.sub(keep, line))
    return re.sub("\0(_+)\0", lambda m: places[len(m.group(1)) - 1], line)
