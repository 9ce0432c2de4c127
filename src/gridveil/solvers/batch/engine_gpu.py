"""The kernels on a GPU: rounds of all slots, a few threads per scenario."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridveil.core.errors import InputError
from gridveil.solvers.batch.compiled_check import check_structures
from gridveil.solvers.batch.device_kernels import (
    BLOCK,
    BORDERED,
    BOUNDS,
    RESIDENT,
    ROUND,
    WARP,
    block_size,
    check_kernel,
    kernels_for,
    missing_gpu,
    row_kernels,
)
from gridveil.solvers.batch.device_slots import Plain, Slots, per_tile_of
from gridveil.solvers.batch.engine import (
    Array,
    Ints,
    RawInput,
    RawOutput,
    RunOptions,
    batch_values,
    net_values,
    outputs,
)
from gridveil.solvers.batch.engine_gpu_stream import GpuStream, advance
from gridveil.solvers.batch.layout import by_value, filled
from gridveil.solvers.batch.network import BatchNetwork
from gridveil.solvers.batch.row_kernels import row_structures
from gridveil.solvers.batch.stream import EMPTY, StreamArrays
from gridveil.solvers.batch.stream_turns import TurnStream, take_turns

GPU = "gpu"
FULL = 12
"""Blocks per multiprocessor that keep the device busy."""
WAVES = (24, FULL, 8, 6, 4, 3, 2, 1)
"""Blocks per multiprocessor that slots fill: with these no kernel ends with a wave of few blocks."""
HELD = ROUND[2:]
"""Kernels of a round in which no slot takes a scenario."""
FIRST_SHARE = 4
"""Part of a large batch that is sent before its first round; the rest travels while these scenarios are at work."""
HELD_ROUNDS = 6
"""Rounds that are launched before demands are sent that no slot needs yet; hardly a scenario ends before."""
WIDEST = 256
SPREAD = (8, WARP, 128, WIDEST)
"""Lanes to which the last slots at work are spread, as soon as these fill the device: few lanes take long for a round."""
LOOK_EVERY = 2
"""Rounds between two looks at how many scenarios are done."""
ROUNDS_AT_ONCE = 4
"""The same where slots go through rounds on their own."""
STREAM_ROUNDS = 8
"""The same for streams, whose host has more to do after a look."""
MEMORY_SHARE = 0.85
"""Share of the free memory of the device that slots may take."""
STATE_SHARE = 0.2
"""Share of the memory of the device that callers may take for what they keep between batches."""
CROWDED = 0.75
"""Share of slots with work below which these are moved together."""
LANE_SHARE = 1.1
"""Threads, as a share of those that fill the device, up to which more lanes per scenario are taken."""
LEAST_TILES = 1024
"""Tiles that run at the same time anyway, so that moving slots together saves nothing."""
MOST_ROUNDS = 1_000_000
TURNS_FROM = 5000
"""Rows that fill the device: whole batches in turns use it better than problems that come and go."""
FIRST_PRIORITY = -5
"""Of CUDA streams: the highest."""
_IDLE = 6  # of the enumeration State in slot.cuh


class GpuEngine:
    """The kernels on the current CUDA device. ``lanes`` threads share a scenario; by default as many as keep it busy."""

    name = GPU

    def __init__(self, lanes: int | None = None, bounds: tuple[int, ...] = BOUNDS) -> None:
        missing = missing_gpu()
        if missing:
            raise InputError(missing)
        self._lanes = lanes
        self.bounds = bounds
        self.most_memory = 0
        """Bytes that slots took at most, over all passes."""
        self.phases: dict[str, float] | None = None
        """Seconds of each kernel, if a caller sets this to a dictionary; every kernel is then waited for."""

    def _note(self, name: str) -> None:
        if self.phases is not None:
            self.wait()
            now = perf_counter()
            self.phases[name] = self.phases.get(name, 0.0) + now - self.phases.get("last", now)
            self.phases["last"] = now

    @cached_property
    def xp(self) -> Any:
        """CuPy."""
        import cupy

        return cupy

    def wait(self) -> None:
        """Until the device has done all that this thread has asked of it; others may be at work there too."""
        self.xp.cuda.get_current_stream().synchronize()

    def send(self, *arrays: Array) -> tuple[list[Array], Callable[[], None] | None]:
        """Of large batches first the rows that slots begin with; the rest travels while they are at work."""
        xp, first = self.xp, self._first(len(arrays[0]))
        there_already = any(hasattr(array, "__cuda_array_interface__") for array in arrays)
        if first == len(arrays[0]) or there_already:
            return [xp.ascontiguousarray(xp.asarray(array), dtype=np.float64) for array in arrays], None
        given = [np.ascontiguousarray(array, np.float64) for array in arrays]
        there = [xp.empty(array.shape) for array in given]
        for array, place in zip(given, there, strict=True):
            place[:first].set(array[:first])

        def rest() -> None:
            stream = xp.cuda.Stream(non_blocking=True)
            for array, place in zip(given, there, strict=True):
                place[first:].set(array[first:], stream=stream)
            stream.synchronize()

        return there, rest

    def _first(self, n_scenarios: int) -> int:
        """Scenarios of a batch whose demands are there when it begins."""
        return n_scenarios if n_scenarios <= self._full // FULL else min(self._full, n_scenarios // FIRST_SHARE)

    @cached_property
    def state_bytes(self) -> int:
        """A share of the device's memory; slots take what is left."""
        _, total = self.xp.cuda.Device().mem_info
        return int(STATE_SHARE * total)

    @cached_property
    def _full(self) -> int:
        """Threads that fill the device."""
        return int(self.xp.cuda.Device().attributes["MultiProcessorCount"]) * FULL * BLOCK

    def resident(self, lanes: int) -> int:
        """Blocks that are at work at the same time, where slots go through rounds on their own."""
        return self._full * RESIDENT // (FULL * BLOCK * block_size(lanes))

    def is_short_of_memory(self, network: BatchNetwork, given: RawInput) -> bool:
        """Whether slots with everything would take more than there is."""
        sizes, count = network.sizes(given.local is not None), len(given.demand_p)
        return bool(min(self._full, count) > self.fitting(sizes, count))

    def fitting(self, sizes: dict[str, Any], n_scenarios: int) -> int:
        """Slots for which there is memory beside the points of all scenarios."""
        free, _ = self.xp.cuda.Device().mem_info
        free += self.xp.get_default_memory_pool().free_bytes()
        free -= 8 * sizes["n_point"] * n_scenarios
        return max(32, int(MEMORY_SHARE * free) // int(8 * sizes["n_slot"] + 4 * sizes["n_limit"]))

    def run(self, network: BatchNetwork, given: RawInput, options: RunOptions) -> RawOutput:
        """Solve a batch in rounds of all slots; finished slots take the next scenario."""
        xp, n_scenarios = self.xp, len(given.demand_p)
        values = net_values(network, self.tables(network), given.local is not None, options)
        made = outputs(xp, n_scenarios, values["n_point"])
        share = self._share(values, n_scenarios, options.slots, self.fitting(values, n_scenarios))
        seconds = self._solve(network, values, batch_values(given, made), n_scenarios, options, share, given.rest)
        made.pop("counter")
        return RawOutput(**made, seconds=seconds)

    def run_rows(self, network: BatchNetwork, arrays: StreamArrays, rows: Ints, options: RunOptions) -> None:
        """Solve the problems of some rows of a stream; those that were left have no status, −1."""
        xp, count = self.xp, len(rows)
        values = net_values(network, self.tables(network), network.rows > 0, options)
        at = xp.asarray(rows.astype(np.int32))
        arrays.queue[:count], arrays.made["status"][at] = at, -1
        arrays.made["counter"][:] = xp.asarray(np.array([0, 0, count], np.int32))
        share = self._share(values, count, options.slots, self.fitting(values, 0))
        self._solve(network, values, arrays.batch_values(None), count, options, share)

    def _solve(
        self,
        network: BatchNetwork,
        values: dict[str, Any],
        batch: dict[str, Any],
        count: int,
        options: RunOptions,
        share: tuple[int, int],
        rest: Callable[[], None] | None = None,
    ) -> float:
        """So many scenarios, in slots with lanes by ``share``; the seconds of the kernels."""
        slots, lanes = share
        held = self.slots(slots, kernels_for(lanes, self.bounds, network.rows), values)
        self.wait()
        begin, least = perf_counter(), count - int(options.left * count)
        arguments = (filled("Net", values), filled("Batch", batch))
        rounds = self._finish_all(held, arguments, network.rows, batch["counter"], (least, count), rest)
        seconds = perf_counter() - begin
        size = held.memory.nbytes + held.softness.nbytes
        self.most_memory = max(self.most_memory, size)
        if not options.soften:
            self.last = {"slots": slots, "lanes": lanes, "rounds": rounds, "memory": size, "lean": options.lean}
        return seconds

    def check(self, net: dict[str, Any], batch: dict[str, Any]) -> None:
        """Check answers, a block of threads for each."""
        given = tuple(by_value(one) for one in check_structures(net, batch))
        check_kernel()((batch["n_rows"],), (BLOCK,), given)

    def on_rows(self, operation: int, net: dict[str, Any], state: dict[str, Any], asked: Array, told: Array) -> None:
        """An operation, a block of threads for each row."""
        given = tuple(by_value(one) for one in row_structures(net, state))
        row_kernels()[int(operation)]((len(asked),), (BLOCK,), (*given, asked, told))

    def open(self, network: BatchNetwork, rows: int, options: RunOptions) -> GpuStream | TurnStream:
        """A stream for so many rows."""
        kind = GpuStream if rows < TURNS_FROM else TurnStream
        return kind(self, network, rows, options)

    def advance(self, streams: Sequence[Any]) -> None:
        """Rounds of all streams until enough problems have ended, or a turn of one."""
        (take_turns if isinstance(streams[0], TurnStream) else advance)(streams)

    @contextmanager
    def attending(self, streams: Sequence[Any]) -> Iterator[None]:
        """What the caller does goes before rounds, which may fill the device; at the end, wait for those on their way."""
        self.xp.cuda.get_current_stream().synchronize()
        own = self.xp.cuda.Stream(non_blocking=True, priority=FIRST_PRIORITY)
        try:
            with own:
                yield
        finally:
            own.synchronize()
            for stream in streams:
                if isinstance(stream, GpuStream):
                    stream.wait()

    def suited(self, network: BatchNetwork, rows: int) -> GpuEngine:
        """Itself, for all that it is asked."""
        return self

    def pinned(self, kind: type[np.generic], *shape: int) -> NDArray[Any]:
        """An array in memory of the host that the device can copy from and to while both work."""
        count = int(np.prod(shape))
        memory = self.xp.cuda.alloc_pinned_memory(np.dtype(kind).itemsize * count)
        return np.frombuffer(memory, kind, count).reshape(shape)

    def slots(self, count: int, kernels: dict[str, Any], values: Any) -> Slots:
        """Memory for so many slots; ``values`` are those of ``Net``."""
        per_tile = per_tile_of(kernels["lanes"])
        tiles, xp = -(-count // per_tile), self.xp
        memory = xp.empty(tiles * per_tile * int(values["n_slot"]))
        softness = xp.empty(tiles * per_tile * int(values["n_limit"]), xp.float32)
        return Slots(
            kernels, memory, softness, filled("Work", {"memory": memory, "softness": softness, "n_tiles": tiles})
        )

    def _finish_all(
        self,
        held: Slots,
        arguments: tuple[Any, Any],
        rows: int,
        counter: Array,
        least_and_wanted: tuple[int, int],
        rest: Callable[[], None] | None,
    ) -> int:
        """Rounds until at least so many of all scenarios are done; the count of rounds.

        Slots without work are left out towards the end.
        """
        least, wanted = least_and_wanted
        stream = self.xp.cuda.Stream(non_blocking=True)
        with stream:
            self.launch(held, ("init",), arguments)
            rounds, few = self._begin(held, arguments, wanted, rest), None
            while True:
                few = few or self._few_rounds(stream, held, arguments)
                few.launch(stream)
                stream.synchronize()
                rounds += ROUNDS_AT_ONCE if held.on_its_own else LOOK_EVERY
                taken, done = counter[:2].tolist()
                if done >= least and taken >= wanted:
                    return rounds
                if rounds > MOST_ROUNDS:
                    raise RuntimeError("the kernels do not come to an end")
                if taken < wanted:
                    continue
                lanes = self.wider(held, wanted - done, arguments[0])
                if lanes is not None:
                    held, few = self.spread(held, arguments[0], kernels_for(lanes, self.bounds, rows)), None
                elif held.tiles > LEAST_TILES and wanted - done < CROWDED * held.tiles * held.per_tile:
                    self._compact(held, arguments[0])
                    few = None

    def _begin(self, held: Slots, arguments: tuple[Any, Any], wanted: int, rest: Callable[[], None] | None) -> int:
        """See to the rest of the demands, while slots work that need none of it where rounds can be held; rounds of these."""
        if rest is None or held.on_its_own:
            if rest is not None:
                rest()
            return 0
        tiles = held.tiles
        held.work["n_tiles"] = max(1, min(tiles, self._first(wanted) // held.per_tile))  # their demands are there
        self.launch(held, ROUND + HELD * HELD_ROUNDS, arguments)
        rest()
        held.work["n_tiles"] = tiles
        return 1 + HELD_ROUNDS

    def wider(self, held: Slots, busy: int, net: Any, copied: int | None = None) -> int | None:
        """More lanes for the slots that are left, if these fill the device and a copy of them fits beside the others.

        ``copied`` are the slots of that copy, if more than have work.
        """
        most = self.most_lanes(busy, int(net["n_bus"][0]))
        found = [lanes for lanes in SPREAD if held.lanes < lanes <= most]
        needed = ((copied or busy) + 32) * (8 * int(net["n_slot"][0]) + 4 * int(net["n_limit"][0]))
        return found[-1] if found and self._lanes is None and self._is_free(needed) else None

    def _is_free(self, needed: int) -> bool:
        """Whether so many bytes can be had in one piece: those that the pool keeps may lie in pieces, and are let go."""
        device, pool = self.xp.cuda.Device(), self.xp.get_default_memory_pool()
        if needed < MEMORY_SHARE * device.mem_info[0]:
            return True
        if needed < MEMORY_SHARE * (device.mem_info[0] + pool.free_bytes()):
            pool.free_all_blocks()
        return bool(needed < MEMORY_SHARE * device.mem_info[0])

    def _few_rounds(self, stream: Any, held: Slots, arguments: tuple[Any, Any]) -> Any:
        """A few rounds, as one graph where they are many kernels: launching each from Python would take longer than these."""
        names = ("rounds",) if held.on_its_own else ROUND * LOOK_EVERY
        if held.on_its_own or self.phases is not None:
            return Plain(lambda: self.launch(held, names, arguments))
        stream.begin_capture()
        self.launch(held, names, arguments)
        return stream.end_capture()

    def launch(self, held: Slots, names: tuple[str, ...], arguments: tuple[Any, Any], put: int | None = None) -> None:
        """Kernels by name, one after the other, on all slots; ``arguments`` are ``Net`` and ``Batch``.

        ``put`` is how many problems were ever put into a stream, if it is for one.
        """
        block, given = block_size(held.lanes), tuple(by_value(one) for one in (*arguments, held.work))
        grid = ((held.tiles * max(WARP, held.lanes) + block - 1) // block,)
        for name in names:
            if name == "latch":
                held.kernels[name]((1,), (1,), (given[1], np.int32(put or 0)))
                continue
            more = (np.int32(ROUNDS_AT_ONCE if put is None else STREAM_ROUNDS),) if name == "rounds" else ()
            for one in (name, BORDERED.get(name)):
                if one in held.kernels:
                    held.kernels[one](grid, (block,), given + more)
                    self._note(one)

    def _busy(self, held: Slots, net: Any) -> NDArray[np.bool_]:
        """Which slots are at work."""
        n_slot = int(net["n_slot"][0])
        slots = held.memory[: held.tiles * held.per_tile * n_slot].reshape(held.tiles, n_slot, held.per_tile)
        state = self.xp.asnumpy(slots[:, int(net["o_scalar"][0])].reshape(-1))
        busy: NDArray[np.bool_] = (state != _IDLE) & (state != EMPTY)
        return busy

    def _compact(self, held: Slots, net: Any) -> None:
        """Move the slots at work to the first tiles, and forget the others: a warp takes as long for one slot as for all."""
        busy = self._busy(held, net)
        kept = max(1, -(-int(busy.sum()) // held.per_tile))
        to = np.flatnonzero(~busy[: kept * held.per_tile])
        moved = np.flatnonzero(busy[kept * held.per_tile :]) + kept * held.per_tile
        if len(moved):
            lists = [self.xp.asarray(places.astype(np.int32)) for places in (moved, to[: len(moved)])]
            held.kernels["move_slots"]((len(moved),), (BLOCK,), (by_value(net), by_value(held.work), *lists))
        held.work["n_tiles"] = kept

    def spread(
        self, held: Slots, net: Any, kernels: dict[str, Any], without_work: int = _IDLE, least: int = 1
    ) -> Slots:
        """The slots at work in tiles of fewer, with more lanes each; others, of at least so many, are ``without_work``."""
        busy = np.flatnonzero(self._busy(held, net))
        wider = self.slots(max(len(busy), least), kernels, {name: net[name][0] for name in ("n_slot", "n_limit")})
        source = np.full(wider.tiles * wider.per_tile, -1, np.int32)
        source[: len(busy)] = busy
        lists = (np.int32(held.per_tile), self.xp.asarray(source), np.int32(without_work))
        given = (by_value(net), by_value(wider.work), held.memory, held.softness, *lists)
        kernels["take_slots"]((len(source),), (BLOCK,), given)
        return wider

    def most_lanes(self, slots: int, n_bus: int) -> int:
        """Lanes that fill the device: one per scenario in large batches, a whole block in small ones of a large network."""
        if self._lanes is not None:
            return self._lanes
        lanes = 1
        while lanes < WARP and 2 * lanes * slots <= LANE_SHARE * self._full:
            lanes *= 2
        while WARP <= lanes < WIDEST and slots <= self.resident(2 * lanes) and 2 * lanes <= n_bus:
            lanes *= 2
        return lanes

    def tables(self, network: BatchNetwork) -> dict[str, Array]:
        """The network's arrays on the device, sent once."""
        kept = self.__dict__.setdefault("_sent", {})
        if id(network) not in kept:
            kept[id(network)] = (network, {name: self.xp.asarray(array) for name, array in network.tables.items()})
        tables: dict[str, Array] = kept[id(network)][1]
        return tables

    def _share(self, values: dict[str, Any], n_scenarios: int, wanted: int | None, fitting: int) -> tuple[int, int]:
        """Slots, and lanes per slot: enough threads to fill the device, of as many scenarios as fit."""
        full = self._full
        most = full * WAVES[0] // FULL
        slots = min(wanted or most, fitting, n_scenarios)
        lanes = self.most_lanes(slots, int(values["n_bus"]))
        per_wave = full // (FULL * lanes)
        if wanted is None and 0 < per_wave <= slots < n_scenarios:
            slots = per_wave * next(count for count in WAVES if count * per_wave <= slots)
        return slots, lanes
