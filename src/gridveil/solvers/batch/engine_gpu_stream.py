"""Streams on a GPU: rounds of all slots go on while the host looks at what has ended and prepares what comes next."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gridveil.solvers.batch.device_kernels import WARP, block_size, kernels_for
from gridveil.solvers.batch.engine import Ints, RawInput, RawOutput, RunOptions, net_values
from gridveil.solvers.batch.layout import filled
from gridveil.solvers.batch.network import BatchNetwork
from gridveil.solvers.batch.stream import EMPTY, PUT, RowCounts, StreamArrays

if TYPE_CHECKING:
    from gridveil.solvers.batch.engine_gpu import GpuEngine

ENOUGH = 1 / 2
"""Share of the problems under way that have ended, from which on the host looks at them: it takes as long for one as for many."""
AS_LONG = 1.0
"""Once one has ended, the host waits for others as long as its last look took it, times this: it may be all that is left."""
ROUNDS_AT_ONCE = 4
"""Rounds between two looks, if there is a block for each slot at work; fewer where blocks have several."""
HOST_SHARE = 0.1
"""Part of the device that rounds leave to the kernels of the host's own work, each of which would wait for a block to end."""
MOST_LOOKS = 500_000
JOINT_SHARE = 2
"""Part of the memory that joint problems leave to dispatches."""


class _Shares:
    """Who has how much of the device: streams of several networks are at work there side by side."""

    def __init__(self) -> None:
        self._wanted: dict[int, int] = {}
        self._lock = threading.Lock()

    def of(self, who: int, wanted: int, blocks: int) -> int:
        """Of so many blocks those for one who wants so many, at least one."""
        with self._lock:
            self._wanted[who] = wanted
            return max(1, min(wanted, blocks * wanted // sum(self._wanted.values())))

    def none_for(self, who: int) -> None:
        """Somebody wants none any more."""
        with self._lock:
            self._wanted.pop(who, None)


_shares = _Shares()


class GpuStream:
    """Problems under way in slots of the device."""

    def __init__(self, engine: GpuEngine, network: BatchNetwork, rows: int, options: RunOptions) -> None:
        self._engine, self._rows, xp = engine, RowCounts(rows), engine.xp
        self._arrays, self._dense = StreamArrays.empty(xp, network, rows), network.rows
        values = net_values(network, engine.tables(network), network.rows > 0, options)
        slots = min(rows, engine.fitting(values, 0) // (JOINT_SHARE if network.rows else 1))
        # A release is at a joint problem half of the time, at a dispatch the other half.
        lanes = max(WARP, engine.most_lanes(-(-slots // 2), int(values["n_bus"])))
        self._held = engine.slots(slots, kernels_for(lanes, engine.bounds, network.rows), values)
        self._net, self._batch = filled("Net", values), filled("Batch", self._arrays.batch_values(None))
        self._cuda, self._flying = xp.cuda.Stream(non_blocking=True), False
        self._copied = engine.pinned(rows)
        self._seen: NDArray[np.int32] = np.zeros(rows, np.int32)
        self._event = xp.cuda.Event(disable_timing=True)
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
        return self._rows.count(self._seen)

    def put(self, rows: Ints, given: RawInput) -> None:
        """Begin problems; that they are there is said last."""
        xp = self._engine.xp
        self._arrays.write(xp.asarray(rows), given)
        self._arrays.queue[xp.asarray(self._rows.begin(rows))] = xp.asarray(rows.astype(np.int32))
        self._arrays.made["counter"][PUT] = self._rows.put

    def ended(self) -> Ints:
        """Rows whose problems have ended."""
        return self._rows.end(self._seen)

    def take(self, rows: Ints) -> RawOutput:
        """What their problems came to."""
        return self._arrays.read(self._engine.xp.asarray(rows))

    def launch(self, rows_left: int) -> None:
        """Send a few rounds on their way, and after them a copy of what has ended; ``rows_left`` have not finished for good."""
        if self._flying:
            return
        self._follow_host()
        with self._cuda:
            self._widen(rows_left)
            rounds, blocks = self._share()
            self._engine.launch(self._held, ("latch", "rounds"), (self._net, self._batch), rounds, blocks)
            self._arrays.ended.get(stream=self._cuda, out=self._copied, blocking=False)
        self._flying = True

    def wait(self) -> None:
        """Until these rounds are over."""
        if self._flying:
            self._cuda.synchronize()
            self._seen, self._flying = self._copied.copy(), False

    def rest(self) -> None:
        """Wait, and leave the device to others for a while."""
        self.wait()
        _shares.none_for(id(self))

    def _share(self) -> tuple[int, int]:
        """How many rounds, by how many blocks."""
        lanes = self._held.lanes
        per_block = block_size(lanes) // lanes
        wanted = -(-min(self.busy, self._held.tiles * self._held.per_tile) // per_block)
        blocks = _shares.of(id(self), wanted, int((1 - HOST_SHARE) * self._engine.resident(lanes)))
        return max(1, ROUNDS_AT_ONCE * blocks // wanted), blocks

    def _follow_host(self) -> None:
        """Begin nothing before what the host has asked of the device is done."""
        self._event.record()
        self._cuda.wait_event(self._event)

    def _widen(self, rows_left: int) -> None:
        """Give more lanes to fewer rows; slots without a problem stay empty."""
        slots = min(rows_left, self._held.tiles * self._held.per_tile)
        lanes = self._engine.wider(self._held, -(-slots // 2), self._net)
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
    for stream in streams:
        if not stream.busy:
            stream.rest()
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
