"""Streams for so many rows that they fill a GPU: whole batches in turns, joint problems and dispatches one after the other.

Where thousands of problems end in every round, kernels that leave out what has ended, and a host that looks at all of it at once,
are worth more than that nobody waits. Only the few slowest problems are not waited for: they are put off until little else is
left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, Protocol

import numpy as np

from gridveil.solvers.batch.contract import BatchStatus
from gridveil.solvers.batch.engine import Array, Ints, RawInput, RawOutput, RunOptions
from gridveil.solvers.batch.network import BatchNetwork
from gridveil.solvers.batch.solver import host

FIRST_ITERATIONS = 40
"""Iterations of a problem while others wait for it; one that needs more is put off."""
LEFT = 0.01
"""Share of a batch that is not waited for either."""
FEW = 0.01
"""Share of all rows that is too few for a batch of their own: what was put off then goes on with them."""


class Runs(Protocol):
    """What turns need of an engine."""

    @property
    def xp(self) -> Any:
        """Its array module."""
        ...

    def run(self, network: BatchNetwork, given: RawInput, options: RunOptions) -> RawOutput:
        """Solve a batch."""
        ...


class TurnStream:
    """Problems that wait for the next turn."""

    def __init__(self, engine: Runs, network: BatchNetwork, rows: int, options: RunOptions) -> None:
        self._engine, self._network, self._options, self.rows = engine, network, options, rows
        self._waiting: list[tuple[Ints, RawInput]] = []
        self._late: list[tuple[Ints, RawInput]] = []
        self._ended, self._place = np.zeros(0, np.int64), np.zeros(rows, np.int64)
        self._found: RawOutput | None = None
        self.is_next = network.rows > 0
        """Whether the next turn is this stream's, if it has something to do: joint problems come first."""

    @property
    def waiting(self) -> int:
        """Problems that have not been tried."""
        return sum(len(rows) for rows, _ in self._waiting)

    @property
    def busy(self) -> int:
        """How many problems have not ended."""
        return self.waiting + sum(len(rows) for rows, _ in self._late)

    def put(self, rows: Ints, given: RawInput) -> None:
        """Let problems wait for the next turn."""
        self._waiting.append((rows, given))

    def ended(self) -> Ints:
        """Rows whose problems ended in the last turn."""
        ended, self._ended = self._ended, np.zeros(0, np.int64)
        return np.sort(ended)

    def take(self, rows: Ints) -> RawOutput:
        """What they came to."""
        if self._found is None:
            raise RuntimeError("no turn has been taken")
        at, found = self._engine.xp.asarray(self._place[rows]), self._found
        arrays = {one.name: getattr(found, one.name) for one in fields(found) if one.name != "seconds"}
        return RawOutput(**{name: array[at] for name, array in arrays.items()}, seconds=found.seconds)

    def turn(self, *, hurried: bool) -> None:
        """One batch of all that waits; unless ``hurried``, of what was put off as well, to the end."""
        parts = self._waiting if hurried else [*self._waiting, *self._late]
        rows, given = np.concatenate([part for part, _ in parts]), _joined([part for _, part in parts], self._engine.xp)
        self._waiting, self._late = [], self._late if hurried else []
        options = replace(self._options, max_iterations=FIRST_ITERATIONS, left=LEFT) if hurried else self._options
        self._found = self._engine.run(self._network, given, options)
        late = self._too_late(self._found) if hurried else np.zeros(len(rows), bool)
        if late.any():
            self._late.append((rows[late], _some(given, self._engine.xp.asarray(np.flatnonzero(late)))))
        self._place[rows], self._ended = np.arange(len(rows)), rows[~late]

    def _too_late(self, found: RawOutput) -> Any:
        status, iterations = (host(self._engine.xp, array) for array in (found.status, found.iterations))
        return (status == int(BatchStatus.ITERATION_LIMIT)) & (iterations >= FIRST_ITERATIONS)


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


def _joined(parts: Sequence[RawInput], xp: Any) -> RawInput:
    """Problems of several parts as one batch; those that start from scratch may come without points."""
    whole: dict[str, Any] = {}
    for one in fields(RawInput):
        given = [getattr(part, one.name) for part in parts]
        known = next((array for array in given if array is not None), None)
        if known is not None:
            sizes = [len(part.demand_p) for part in parts]
            filled = [
                xp.zeros((size, *known.shape[1:])) if array is None else array
                for size, array in zip(sizes, given, strict=True)
            ]
            whole[one.name] = xp.ascontiguousarray(filled[0] if len(filled) == 1 else xp.concatenate(filled))
    return RawInput(**{"local": None, "outage": None, **whole})


def _some(given: RawInput, at: Array) -> RawInput:
    found = {one.name: getattr(given, one.name) for one in fields(given)}
    return replace(given, **{name: array[at] for name, array in found.items() if array is not None})
