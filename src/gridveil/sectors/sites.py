"""Sites of a file: declared, never inferred from non-zero demands.

A site that appears when its demand is 0.3 MW and vanishes when it is 0 tells one from the other, whatever the noise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from pathlib import Path

from gridveil.core.errors import InputError


class SiteKind(Enum):
    """Where the list of sites comes from.

    ROWS: the rows that state a demand. Formats with a table of loads declare their sites so, zero or not. MATPOWER has no
    such table, and a bus without demand is no site there; MatGas has one, but transfers without flow are no sites: these
    lists follow the demands, so they serve for solving and for studies, and a release needs another.
    ALL: every place that can state one: each bus of a power file, each delivery and transfer of a MatGas file.
    LISTED: the places named in a list.
    """

    ROWS = "rows"
    ALL = "all"
    LISTED = "listed"


@dataclass(frozen=True, kw_only=True)
class SiteRule:
    """How the sites of a file are found; ``places`` are the bus or junction ids of a list, as the file names them."""

    kind: SiteKind = SiteKind.ROWS
    places: tuple[str, ...] = ()

    def wants(self, place: str) -> bool:
        """Whether demands stated at this place belong to a site."""
        return self.kind is not SiteKind.LISTED or place in self._listed

    @cached_property
    def _listed(self) -> frozenset[str]:
        return frozenset(self.places)


AS_STATED = SiteRule()


def site_rule(words: str) -> SiteRule:
    """Parse a user's rule: ``all``, or the path of a list with one bus or junction id per line.

    In a list, ``#`` begins a comment, of several columns the first counts, and a header is passed over: a first line whose
    first column is ``id``, ``bus``, ``bus_id``, ``site``, ``junction`` or ``junction_id``.
    """
    if words == SiteKind.ALL.value:
        return SiteRule(kind=SiteKind.ALL)
    path = Path(words)
    if not path.is_file():
        raise InputError(f"{words}: no such list of sites; give a file with one id per line, or {SiteKind.ALL.value!r}")
    try:
        lines = [line.partition("#")[0].strip() for line in path.read_text(encoding="utf-8-sig").splitlines()]
    except (OSError, UnicodeDecodeError):
        raise InputError(f"{path.name}: the list of sites cannot be read as text; save it as UTF-8") from None
    places = [line.replace(";", ",").partition(",")[0].strip().strip("\"'") for line in lines if line]
    if places and places[0].lower() in HEADERS:
        places = places[1:]
    if not places or "" in places:
        raise InputError(f"{path.name}: the list of sites is empty or has a line without an id; give one id per line")
    twice = [place for place, count in Counter(places).items() if count > 1]
    if twice:
        raise InputError(f"{path.name}: {twice[0]} appears twice in the list of sites; name each place once")
    return SiteRule(kind=SiteKind.LISTED, places=tuple(places))


HEADERS = {"id", "bus", "bus_id", "site", "junction", "junction_id"}


def listed_sites(places: Sequence[str]) -> SiteRule:
    """The rule that finds the sites of a network again in a file of it, whatever their demands are."""
    return SiteRule(kind=SiteKind.LISTED, places=tuple(dict.fromkeys(places)))


def places_without_row(rule: SiteRule, stated: Sequence[str], known: Sequence[str], kind: str) -> list[str]:
    """Find the places that the rule makes sites though no row states a demand there, in the order of ``known``.

    A list must name places that exist, and every place where a demand is ``stated``. The message names the place alone.
    """
    if rule.kind is SiteKind.ROWS:
        return []
    existing, covered = set(known), set(stated)
    for place in rule.places:
        if place not in existing:
            raise InputError(f"the list of sites names {kind} {place}, which does not exist; correct the list")
    for place in stated:
        if not rule.wants(place):
            raise InputError(f"{kind} {place} has a demand but is not in the list of sites; add it to the list")
    wanted = existing if rule.kind is SiteKind.ALL else set(rule.places)
    return [place for place in known if place in wanted and place not in covered]
