"""Streams on a GPU: rounds of all slots go on while the host looks at what has ended and prepares what comes next."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from gridveil.solvers.batch.device_kernels import WARP, kernels_for
from gridveil.solvers.batch.engine import Ints, RunOptions, net_values
from gridveil.solvers.batch.layout import filled
from gridveil.solvers.batch.network import BatchNetwork
from gridveil.solvers.batch.stream import EMPTY, TOLD, RowCounts, RowNumbers, StreamArrays

if TYPE_CHECKING:
    from gridveil.solvers.batch.engine_gpu import GpuEngine

ENOUGH = 1 / 2
"""Share of the problems under way that have ended, from which on the host looks at them: it takes as long for one as for many."""
AS_LONG = 1.0
"""Once one has ended, the host waits for others as long as its last look took it, times this: it may be all that is left."""
MOST_LOOKS = 500_000
JOINT_SHARE = 2
"""Part of the memory that joint problems leave to dispatches."""


class GpuStream:
    """Problems under way in slots of the device."""

    def __init__(self, engine: GpuEngine, network: BatchNetwork, rows: int, options: RunOptions) -> None:
        self._engine, self._rows, xp = engine, RowCounts(rows), engine.xp
        self.arrays, self._dense = StreamArrays.empty(xp, network, rows), network.rows
        values = net_values(network, engine.tables(network), network.rows > 0, options)
        slots = min(rows, engine.fitting(values, 0) // (JOINT_SHARE if network.rows else 1))
        # A release is at a joint problem half of the time, at a dispatch the other half.
        lanes = max(WARP, engine.most_lanes(-(-slots // 2), int(values["n_bus"])))
        self._held = engine.slots(slots, kernels_for(lanes, engine.bounds, network.rows), values)
        self._net, self._batch = filled("Net", values), filled("Batch", self.arrays.batch_values(None))
        self._cuda, self._flying = xp.cuda.Stream(non_blocking=True), False
        self._rows.ring = engine.pinned(np.int32, rows)
        self._copied = engine.pinned(np.int32, len(TOLD), rows), engine.pinned(np.float64, rows)
        self._seen = np.zeros((len(TOLD), rows), np.int32), np.zeros(rows)
        self._event = xp.cuda.Event(disable_timing=True)
        # Rounds take milliseconds: a thread that sleeps meanwhile leaves its core to worker processes.
        self._over = xp.cuda.Event(block=True, disable_timing=True)
        self.looked = perf_counter()
        """When the host was last told what has ended."""
        self._follow_host()
        with self._cuda:
            engine.launch(self._held, ("init",), (self._net, self._batch))

    @property
    def busy(self) -> int:
        """How many problems are under way, as far as the host has looked."""
        return self._rows.busy

    @property
    def done(self) -> int:
        """How many of these have ended meanwhile."""
        return self._rows.count(self._seen[0][0])

    def begin(self, rows: Ints) -> None:
        """Begin problems: rounds that are sent on their way from now on take them."""
        self._rows.begin(rows)

    def ended(self) -> Ints:
        """Rows whose problems have ended."""
        return self._rows.end(self._seen[0][0])

    def numbers(self, rows: Ints) -> RowNumbers:
        """What their problems came to."""
        return RowNumbers.of(*self._seen, rows)

    def launch(self, rows_left: int) -> None:
        """Send a few rounds on their way, and after them a copy of what has ended; ``rows_left`` have not finished for good."""
        if self._flying:
            return
        self._follow_host()
        with self._cuda:
            self._widen(rows_left)
            self.arrays.queue.set(self._rows.ring, stream=self._cuda)
            self._engine.launch(self._held, ("latch", "rounds"), (self._net, self._batch), self._rows.put)
            for array, copy in zip((self.arrays.told, self.arrays.made["cost"]), self._copied, strict=True):
                array.get(stream=self._cuda, out=copy, blocking=False)
            self._over.record()
        self._flying = True

    def wait(self) -> None:
        """Until these rounds are over."""
        if self._flying:
            self._over.synchronize()
            told, cost = self._copied
            self._seen, self._flying = (told.copy(), cost.copy()), False

    def _follow_host(self) -> None:
        """Begin nothing before what the host has asked of the device is done."""
        self._event.record()
        self._cuda.wait_event(self._event)

    def _widen(self, rows_left: int) -> None:
        """Give more lanes to fewer rows; slots without a problem stay empty."""
        slots = min(rows_left, self._held.tiles * self._held.per_tile)
        lanes = self._engine.wider(self._held, -(-slots // 2), self._net, copied=slots)
        if lanes is not None:
            kernels = kernels_for(lanes, self._engine.bounds, self._dense)
            self._held = self._engine.spread(self._held, self._net, kernels, EMPTY, least=slots)


def advance(streams: Sequence[GpuStream]) -> None:
    """Rounds of all streams until enough problems have ended; the next are on their way while the caller looks at these."""
    busy, begin = [stream for stream in streams if stream.busy], perf_counter()
    left, patience = (
        sum(stream.busy for stream in busy),
        AS_LONG * min((begin - one.looked for one in busy), default=0.0),
    )
    for _ in range(MOST_LOOKS if busy else 0):
        for stream in busy:
            stream.launch(left)
        for stream in busy:
            stream.wait()
        done = sum(stream.done for stream in busy)
        if done and (done >= ENOUGH * left or perf_counter() - begin >= patience):
            break
    else:
        if busy:
            raise RuntimeError("the kernels do not come to an end")
    for stream in busy:
        if stream.done < stream.busy:
            stream.launch(left)
    for stream in streams:
        stream.looked = perf_counter()
