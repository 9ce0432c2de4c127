"""Plug-ins: what other packages add under entry points, found when a name is unknown or asked for, and loaded one by one.

Looking through all installed packages takes some hundredths of a second, so nothing does it that gridveil's own names
satisfy. A plug-in that cannot be loaded is named in one line, and does not touch any other.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from gridveil.core.errors import InputError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

SECTORS, BACKENDS, METHODS, MECHANISMS = (
    f"gridveil.{kind}" for kind in ("sectors", "backends", "methods", "mechanisms")
)
GROUPS = (SECTORS, BACKENDS, METHODS, MECHANISMS)
"""Each with what its entry points name: a ``Sector``, a ``BackendEntry``, a ``BilevelMethod``, a ``Make``."""


@dataclass(frozen=True, kw_only=True)
class PlugIn:
    """An entry point of another package."""

    group: str
    name: str
    package: str
    """Name and version of the package that brings it."""
    point: EntryPoint

    def load(self) -> Any:
        """Import the object. InputError, in one line, if that fails for whatever reason."""
        try:
            return self.point.load()
        except Exception as error:
            raise InputError(
                f"plug-in {self.name!r} ({self.group}) of {self.package} cannot be loaded ({type(error).__name__}: {error}); "
                "update or remove that package"
            ) from None


@cache
def found_in(group: str) -> Mapping[str, PlugIn]:
    """The plug-ins of a group by name, not loaded; of two with one name neither, as nobody could tell which was meant."""
    from importlib.metadata import entry_points

    found: dict[str, PlugIn] = {}
    twice: set[str] = set()
    for point in entry_points(group=group):
        dist = point.dist
        package = "an unknown package" if dist is None else f"{dist.name} {dist.version}"
        twice |= {point.name} & found.keys()
        found[point.name] = PlugIn(group=group, name=point.name, package=package, point=point)
    for name in sorted(twice):
        logging.getLogger("gridveil").warning("two plug-ins are called %r (%s); neither is used", name, group)
        del found[name]
    return dict(sorted(found.items()))


def plugged_in(group: str, name: str) -> Any | None:
    """The object that a plug-in brings under a name; None if none does."""
    plug_in = found_in(group).get(name)
    return None if plug_in is None else plug_in.load()


@cache
def working(group: str) -> tuple[Any, ...]:
    """The objects of all plug-ins of a group that can be loaded; the others are told, each in one line."""
    loaded = []
    for plug_in in found_in(group).values():
        try:
            loaded.append(plug_in.load())
        except InputError as error:
            logging.getLogger("gridveil").warning("%s", error)
    return tuple(loaded)


def unknown(what: str, name: str, own: Iterable[str], group: str) -> InputError:
    """The error for a name that neither gridveil nor a plug-in knows."""
    known = dict.fromkeys([*own, *found_in(group)])
    return InputError(f"there is no {what} {name!r}; known are {', '.join(known)}")
