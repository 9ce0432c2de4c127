"""Names of buses and loads, which a file may state. They are published by choice: a name may tell who a customer is."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True)
class GivenNames:
    """What a network's parts are called beyond their numbers; an empty tuple stands for no names at all.

    ``bus`` and ``load`` hold one name for each bus and load site, "" where there is none. ``grid_connections`` are the
    positions of the generators that pandapower keeps in a table of their own (ext_grid).
    """

    bus: tuple[str, ...] = ()
    load: tuple[str, ...] = ()
    grid_connections: tuple[int, ...] = ()

    def unnamed(self) -> GivenNames:
        """Leave out all names: buses and loads go by their numbers, in the order of the file."""
        return replace(self, bus=(), load=())

    @property
    def words(self) -> str:
        """What has a name: ``14 buses and 3 loads``; empty where nothing has."""
        counts = [
            (sum(bool(name) for name in names), kind) for names, kind in ((self.bus, "buses"), (self.load, "loads"))
        ]
        return " and ".join(f"{count} {kind}" for count, kind in counts if count)


NO_NAMES = GivenNames()
