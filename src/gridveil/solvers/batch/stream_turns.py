"""Streams for so many rows that they fill a GPU: whole batches in turns, joint problems and dispatches one after the other.

Where thousands of problems end in every round, kernels that leave out what has ended, and a host that looks at all of it at once,
are worth more than that nobody waits. Only the few slowest problems are not waited for: they are put off until little else is
left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from gridveil.solvers.batch.contract import BatchStatus
from gridveil.solvers.batch.engine import Ints, RunOptions
from gridveil.solvers.batch.network import BatchNetwork
from gridveil.solvers.batch.solver import host
from gridveil.solvers.batch.stream import RowNumbers, StreamArrays

FIRST_ITERATIONS = 40
"""Iterations of a problem while others wait for it; one that needs more is put off."""
LEFT = 0.01
"""Share of a batch that is not waited for either."""
FEW = 0.01
"""Share of all rows that is too few for a batch of their own: what was put off then goes on with them."""
_NONE = np.zeros(0, np.int64)


class Runs(Protocol):
    """What turns need of an engine."""

    @property
    def xp(self) -> Any:
        """Its array module."""
        ...

    def run_rows(self, network: BatchNetwork, arrays: StreamArrays, rows: Ints, options: RunOptions) -> None:
        """Solve the problems of some rows; those that were left have no status, −1."""
        ...


class TurnStream:
    """Problems that wait for the next turn. One that is put off begins anew, from what still stands in its row."""

    def __init__(self, engine: Runs, network: BatchNetwork, rows: int, options: RunOptions) -> None:
        self._engine, self._network, self._options, self.rows = engine, network, options, rows
        self.arrays = StreamArrays.empty(engine.xp, network, rows)
        self._waiting, self._late, self._ended = _NONE, _NONE, _NONE
        self._seen = np.zeros((1, rows), np.int32), np.zeros(rows)
        self.is_next = network.rows > 0
        """Whether the next turn is this stream's, if it has something to do: joint problems come first."""

    @property
    def waiting(self) -> int:
        """Problems that have not been tried."""
        return len(self._waiting)

    @property
    def busy(self) -> int:
        """How many problems have not ended."""
        return len(self._waiting) + len(self._late)

    def begin(self, rows: Ints) -> None:
        """Let problems wait for the next turn."""
        self._waiting = np.concatenate([self._waiting, rows])

    def ended(self) -> Ints:
        """Rows whose problems ended in the last turn."""
        ended, self._ended = self._ended, _NONE
        return np.sort(ended)

    def numbers(self, rows: Ints) -> RowNumbers:
        """What they came to."""
        return RowNumbers.of(*self._seen, rows)

    def turn(self, *, hurried: bool) -> None:
        """One batch of all that waits; unless ``hurried``, of what was put off as well, to the end."""
        rows, xp = self._waiting if hurried else np.concatenate([self._waiting, self._late]), self._engine.xp
        options = replace(self._options, max_iterations=FIRST_ITERATIONS, left=LEFT) if hurried else self._options
        self._engine.run_rows(self._network, self.arrays, rows, options)
        self._seen = host(xp, self.arrays.told), host(xp, self.arrays.made["cost"])
        late = self._too_late(rows) if hurried else np.zeros(len(rows), bool)
        self._late = np.concatenate([self._late, rows[late]]) if hurried else _NONE
        self._waiting, self._ended = _NONE, rows[~late]

    def _too_late(self, rows: Ints) -> Any:
        found = self.numbers(rows)
        limited = (found.status == int(BatchStatus.ITERATION_LIMIT)) & (found.iterations >= FIRST_ITERATIONS)
        return limited | (found.status < 0)


def take_turns(streams: Sequence[TurnStream]) -> None:
    """A turn of the stream that is next and has something to do; nothing may have ended, if all of it was put off."""
    new, rows = sum(stream.waiting for stream in streams), max(stream.rows for stream in streams)
    hurried = new > FEW * rows
    able = [stream for stream in streams if (stream.waiting if hurried else stream.busy)]
    if not able:
        return
    chosen = next((stream for stream in able if stream.is_next), able[0])
    for stream in streams:
        stream.is_next = stream is not chosen
    chosen.turn(hurried=hurried)
