"""What streams of problems are made of, on either engine: the arrays of the kernels, and the host's count of what is under way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridveil.solvers.batch.engine import Array, RawInput, batch_values, outputs
from gridveil.solvers.batch.network import BatchNetwork

Ints = NDArray[np.int64]

AVAILABLE = 2  # of the enumeration Counter in start.cuh
EMPTY = 7  # of the enumeration State in slot.cuh
TOLD = ("ended", "status", "iterations", "feasible")
"""What the kernels say of each row in whole numbers, beside each other so that all of it is copied at once."""


@dataclass(frozen=True, eq=False)
class RowNumbers:
    """What the last problems of R rows came to."""

    cost: NDArray[np.float64]
    """(R,) in $/h, without that of generators at no output."""
    status: NDArray[np.int32]
    iterations: NDArray[np.int32]
    feasible: NDArray[np.bool_]
    """Whether the start that was chosen was feasible."""

    @classmethod
    def of(cls, told: NDArray[np.int32], cost: NDArray[np.float64], rows: Ints) -> RowNumbers:
        """Of some rows; ``told`` (4, n) are those named in ``TOLD``, ``cost`` (n,)."""
        _, status, iterations, feasible = told[:, rows]
        return cls(cost=cost[rows], status=status, iterations=iterations, feasible=feasible.astype(bool))


@dataclass(frozen=True, eq=False)
class StreamArrays:
    """What the kernels of a stream read and write, in the memory of their processor: a row each for all that it needs."""

    given: RawInput
    made: dict[str, Array]
    told: Array
    """(4, rows) see ``TOLD``; the first, ``ended``, is how many problems of a row have ended."""
    queue: Array
    """(rows,) ring of the rows whose problems are to be begun."""

    @classmethod
    def empty(cls, xp: Any, network: BatchNetwork, rows: int) -> StreamArrays:
        """For so many rows, none of which has a problem."""
        n_load, n_point = len(network.grid.load_bus), network.sizes(bool(network.rows))["n_point"]
        joint = network.rows > 0
        given = RawInput(
            demand_p=xp.zeros((rows, n_load)),
            demand_q=xp.zeros((rows, n_load)),
            local=xp.zeros((rows, network.own_fields, network.n_local)) if joint else None,
            outage=None,
            warm=xp.zeros((rows, n_point)),
            rows=xp.zeros((rows, network.row_bounds)) if joint else None,
            start=xp.zeros((rows, 6)),
        )
        told = xp.zeros((len(TOLD), rows), xp.int32)
        made = outputs(xp, rows, n_point) | {name: told[k] for k, name in enumerate(TOLD) if k}
        return cls(given, made, told, xp.zeros(rows, xp.int32))

    def batch_values(self, working: Array | None) -> dict[str, Any]:
        """The fields of ``Batch``; ``working`` counts threads of a processor."""
        of_stream = {"queue": self.queue, "ended": self.told[0], "working": working}
        return batch_values(self.given, self.made) | of_stream


class RowCounts:
    """Which rows of a stream have a problem under way, on the host."""

    def __init__(self, rows: int) -> None:
        self._begun, self._under_way = np.zeros(rows, np.int32), np.zeros(rows, bool)
        self.ring: NDArray[np.int32] = np.zeros(rows, np.int32)
        """Rows in the order in which their problems were begun."""
        self.put = 0
        """Problems that were ever begun: the end of the ring."""

    @property
    def busy(self) -> int:
        """How many are under way."""
        return int(self._under_way.sum())

    def begin(self, rows: Ints) -> None:
        """Put new problems into the ring."""
        if self._under_way[rows].any():
            raise RuntimeError("a row has a problem under way")
        self._under_way[rows] = True
        self._begun[rows] += 1
        self.ring[(self.put + np.arange(len(rows))) % len(self._begun)] = rows
        self.put += len(rows)

    def count(self, ended: NDArray[np.int32]) -> int:
        """How many have ended, by the counts of the kernels."""
        return int((self._under_way & (ended == self._begun)).sum())

    def end(self, ended: NDArray[np.int32]) -> Ints:
        """Rows whose problems have ended; they have none any more."""
        rows = np.flatnonzero(self._under_way & (ended == self._begun))
        self._under_way[rows] = False
        return rows
