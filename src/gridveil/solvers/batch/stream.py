"""What streams of problems are made of, on either engine: the arrays of the kernels, and the host's count of what is under way."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridveil.solvers.batch.engine import Array, RawInput, RawOutput, batch_values, outputs
from gridveil.solvers.batch.network import BatchNetwork

Ints = NDArray[np.int64]

PUT, AVAILABLE = 2, 3  # of the enumeration Counter in start.cuh
EMPTY = 7  # of the enumeration State in slot.cuh
OWN_FIELDS = 5
"""Numbers about each local variable of a joint task."""
ROW_BOUNDS = 5
"""Numbers about its dense rows."""


@dataclass(frozen=True, eq=False)
class StreamArrays:
    """What the kernels of a stream read and write, in the memory of their processor."""

    given: RawInput
    made: dict[str, Array]
    queue: Array
    """(rows,) ring of the rows whose problems are to be begun."""
    ended: Array
    """(rows,) how many problems of a row have ended."""

    @classmethod
    def empty(cls, xp: Any, network: BatchNetwork, rows: int) -> StreamArrays:
        """For so many rows, none of which has a problem."""
        n_load, n_point = len(network.grid.load_bus), network.sizes(bool(network.rows))["n_point"]
        joint = network.rows > 0
        given = RawInput(
            demand_p=xp.zeros((rows, n_load)),
            demand_q=xp.zeros((rows, n_load)),
            local=xp.zeros((rows, OWN_FIELDS, network.n_local)) if joint else None,
            outage=None,
            warm=xp.zeros((rows, n_point)),
            rows=xp.zeros((rows, ROW_BOUNDS)) if joint else None,
            start=xp.zeros((rows, 6)),
        )
        return cls(given, outputs(xp, rows, n_point), xp.zeros(rows, xp.int32), xp.zeros(rows, xp.int32))

    def batch_values(self, working: Array | None) -> dict[str, Any]:
        """The fields of ``Batch``; ``working`` counts threads of a processor."""
        return batch_values(self.given, self.made) | {"queue": self.queue, "ended": self.ended, "working": working}

    def write(self, at: Array, given: RawInput) -> None:
        """Keep the data of problems at their rows."""
        for field in ("demand_p", "demand_q", "local", "warm", "rows", "start"):
            mine, new = getattr(self.given, field), getattr(given, field)
            if new is not None and mine is not None:
                mine[at] = new

    def read(self, at: Array) -> RawOutput:
        """What the problems of some rows came to."""
        names = {one.name for one in fields(RawOutput)} & set(self.made)
        return RawOutput(**{name: self.made[name][at] for name in names}, seconds=0.0)


class RowCounts:
    """Which rows of a stream have a problem under way, on the host."""

    def __init__(self, rows: int) -> None:
        self._begun, self._under_way = np.zeros(rows, np.int32), np.zeros(rows, bool)
        self.put = 0
        """Problems that were ever begun: the end of the ring."""

    @property
    def busy(self) -> int:
        """How many are under way."""
        return int(self._under_way.sum())

    def begin(self, rows: Ints) -> Ints:
        """The places of new problems in the ring."""
        if self._under_way[rows].any():
            raise RuntimeError("a row has a problem under way")
        self._under_way[rows] = True
        self._begun[rows] += 1
        places = (self.put + np.arange(len(rows))) % len(self._begun)
        self.put += len(rows)
        return places

    def count(self, ended: NDArray[np.int32]) -> int:
        """How many have ended, by the counts of the kernels."""
        return int((self._under_way & (ended == self._begun)).sum())

    def end(self, ended: NDArray[np.int32]) -> Ints:
        """Rows whose problems have ended; they have none any more."""
        rows = np.flatnonzero(self._under_way & (ended == self._begun))
        self._under_way[rows] = False
        return rows
