"""The kernels on a GPU: compiled by NVRTC through CuPy for the device at hand, a few threads per scenario."""

from __future__ import annotations

from functools import cache, cached_property
from time import perf_counter
from typing import Any

import numpy as np

from gridveil.core.errors import InputError
from gridveil.solvers.batch.engine import Array, RawInput, RawOutput, RunOptions, batch_values, net_values, outputs
from gridveil.solvers.batch.layout import filled, kernel_source
from gridveil.solvers.batch.network import BatchNetwork

GPU = "gpu"
BLOCK = 128
LEAST_CAPABILITY = 70
BOUNDED = ("ASSEMBLE", "FACTOR", "SOLVE", "RECOVER", "OTHER")
BOUNDS = (2, 3, 4, 4, 4)
"""Blocks per multiprocessor that the kernels of each group are compiled for: more blocks leave fewer registers."""
WAVES = (12, 6, 4, 3, 2, 1)
"""Blocks per multiprocessor that slots fill: with these no kernel ends with a wave of few blocks."""
ROUND = ("assemble", "start", "assemble", "factor", "predict", "aim", "surplus", "correct", "recover", "search", "step")
"""Kernels of a round, in their order."""
LOOK_EVERY = 2
"""Rounds between two looks at how many scenarios are done."""
MEMORY_SHARE = 0.85
"""Share of the free memory of the device that slots may take."""
CROWDED = 0.5
"""Share of slots with work below which these are moved together."""
LANE_SHARE = 1.1
"""Threads, as a share of those that fill the device, up to which more lanes per scenario are taken."""
LEAST_TILES = 1024
"""Tiles that run at the same time anyway, so that moving slots together saves nothing."""
MOST_ROUNDS = 1_000_000
_IDLE = 6  # of the enumeration State in slot.cuh


def missing_gpu() -> str | None:
    """What the GPU engine lacks, in one line, or None."""
    try:
        import cupy
    except ImportError:
        return "the GPU batch solver needs CuPy: pip install 'gridveil[gpu]'"
    try:
        capability = int(cupy.cuda.Device().compute_capability)
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"the GPU batch solver needs a CUDA device, and CuPy finds none ({error})"
    if capability < LEAST_CAPABILITY:
        return f"the GPU batch solver needs compute capability 7.0, and the device has {capability / 10:.1f}"
    return None


class GpuEngine:
    """The kernels on the current CUDA device. ``lanes`` threads share a scenario; by default as many as keep it busy."""

    name = GPU

    def __init__(self, lanes: int | None = None, bounds: tuple[int, ...] = BOUNDS) -> None:
        missing = missing_gpu()
        if missing:
            raise InputError(missing)
        self._lanes = lanes
        self._bounds = bounds
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
        """Until the device has done all it was asked to."""
        self.xp.cuda.Device().synchronize()

    def run(self, network: BatchNetwork, given: RawInput, options: RunOptions) -> RawOutput:
        """Solve a batch in rounds of all slots; finished slots take the next scenario."""
        xp, n_scenarios = self.xp, len(given.demand_p)
        values = net_values(network, self._tables(network), given.local is not None, options)
        made = outputs(xp, n_scenarios, values["n_point"])
        slots, lanes = self._share(values, n_scenarios, options.slots)
        kernels = _kernels(lanes, self._bounds)
        per_tile = 32 // lanes
        tiles = -(-slots // per_tile)
        memory = xp.empty(tiles * per_tile * values["n_slot"])
        softness = xp.empty(tiles * per_tile * values["n_limit"], xp.float32)
        work: dict[str, Any] = {"memory": memory, "softness": softness, "n_tiles": tiles}
        arguments = (filled("Net", values), filled("Batch", batch_values(given, made)), filled("Work", work))
        self.wait()
        begin = perf_counter()
        rounds = self._finish_all(kernels, arguments, memory, made["counter"], n_scenarios)
        seconds = perf_counter() - begin
        made.pop("counter")
        if not options.soften:
            size = memory.nbytes + softness.nbytes
            self.last = {"slots": tiles * per_tile, "lanes": lanes, "rounds": rounds, "memory": size}
        return RawOutput(**made, seconds=seconds)

    def _finish_all(
        self, kernels: dict[str, Any], arguments: tuple[Any, ...], memory: Array, counter: Array, wanted: int
    ) -> int:
        """Rounds until all scenarios are done; the count of rounds. Slots without work are left out towards the end."""
        xp, work = self.xp, arguments[2]
        stream = xp.cuda.Stream(non_blocking=True)
        with stream:
            self._launch(kernels, ("init", *ROUND), arguments)
            rounds, graph = 1, None
            while True:
                graph = graph or self._captured(stream, kernels, arguments)
                graph.launch(stream)
                stream.synchronize()
                rounds += LOOK_EVERY
                taken, done = counter[:2].tolist()
                if done >= wanted:
                    return rounds
                if rounds > MOST_ROUNDS:
                    raise RuntimeError("the kernels do not come to an end")
                tiles, per_tile = int(work["n_tiles"][0]), 32 // kernels["lanes"]
                if taken >= wanted and tiles > LEAST_TILES and wanted - done < CROWDED * tiles * per_tile:
                    self._compact(kernels, arguments, memory, per_tile)
                    graph = None

    def _captured(self, stream: Any, kernels: dict[str, Any], arguments: tuple[Any, ...]) -> Any:
        """A few rounds as one graph: a launch each from Python would take longer than the kernels of a small batch."""
        if self.phases is not None:
            return _Plain(lambda: self._launch(kernels, ROUND * LOOK_EVERY, arguments))
        stream.begin_capture()
        self._launch(kernels, ROUND * LOOK_EVERY, arguments)
        return stream.end_capture()

    def _launch(self, kernels: dict[str, Any], names: tuple[str, ...], arguments: tuple[Any, ...]) -> None:
        grid = ((int(arguments[2]["n_tiles"][0]) * 32 + BLOCK - 1) // BLOCK,)
        for name in names:
            kernels[name](grid, (BLOCK,), arguments)
            self._note(name)

    def _compact(self, kernels: dict[str, Any], arguments: tuple[Any, ...], memory: Array, per_tile: int) -> None:
        """Move the slots at work to the first tiles, and forget the others: a warp takes as long for one slot as for all."""
        net, _, work = arguments
        tiles, n_slot = int(work["n_tiles"][0]), int(net["n_slot"][0])
        slots = memory[: tiles * per_tile * n_slot].reshape(tiles, n_slot, per_tile)
        busy = self.xp.asnumpy(slots[:, int(net["o_scalar"][0])].reshape(-1)) != _IDLE
        kept = max(1, -(-int(busy.sum()) // per_tile))
        to = np.flatnonzero(~busy[: kept * per_tile])
        moved = np.flatnonzero(busy[kept * per_tile :]) + kept * per_tile
        if len(moved):
            lists = [self.xp.asarray(places.astype(np.int32)) for places in (moved, to[: len(moved)])]
            kernels["move_slots"]((len(moved),), (BLOCK,), (net, work, *lists))
        work["n_tiles"] = kept

    def _tables(self, network: BatchNetwork) -> dict[str, Array]:
        """The network's arrays on the device, sent once."""
        kept = self.__dict__.setdefault("_sent", {})
        if id(network) not in kept:
            kept[id(network)] = (network, {name: self.xp.asarray(array) for name, array in network.tables.items()})
        tables: dict[str, Array] = kept[id(network)][1]
        return tables

    def _share(self, values: dict[str, Any], n_scenarios: int, wanted: int | None) -> tuple[int, int]:
        """Slots, and lanes per slot: enough threads to fill the device, of as many scenarios as fit."""
        xp = self.xp
        free, _ = xp.cuda.Device().mem_info
        free += xp.get_default_memory_pool().free_bytes()
        per_slot = 8 * values["n_slot"] + 4 * values["n_limit"]
        fitting = max(32, int(MEMORY_SHARE * free) // per_slot)
        processors = xp.cuda.Device().attributes["MultiProcessorCount"]
        full = processors * WAVES[0] * BLOCK
        slots = min(wanted or full, fitting, n_scenarios)
        lanes = self._lanes or _fewest_lanes(full, slots)
        per_wave = processors * BLOCK // lanes
        if wanted is None and per_wave <= slots < n_scenarios:
            slots = per_wave * next(count for count in WAVES if count * per_wave <= slots)
        return slots, lanes


def _fewest_lanes(full: int, slots: int) -> int:
    """Lanes that fill the device: one per scenario in large batches, a whole warp in small ones."""
    lanes = 1
    while lanes < 32 and 2 * lanes * slots <= LANE_SHARE * full:
        lanes *= 2
    return lanes


class _Plain:
    """Stands for a graph while each kernel is timed."""

    def __init__(self, launch: Any) -> None:
        self._launch = launch

    def launch(self, stream: Any) -> None:
        """Launch everything."""
        self._launch()


@cache
def _kernels(lanes: int, bounds: tuple[int, ...]) -> dict[str, Any]:
    import cupy

    least = "\n".join(f"#define BLOCKS_{name} {count}" for name, count in zip(BOUNDED, bounds, strict=True))
    source = f"#define LANES {lanes}\n#define BLOCK {BLOCK}\n{least}\n{kernel_source()}"
    module = cupy.RawModule(code=source, options=("--std=c++17",), backend="nvrtc")
    functions = {name: module.get_function(name) for name in ("init", *dict.fromkeys(ROUND), "move_slots")}
    return functions | {"lanes": lanes}


def registers(lanes: int, bounds: tuple[int, ...] = BOUNDS) -> dict[str, tuple[int, int]]:
    """Registers per thread, and bytes per thread that did not fit into them, of each kernel."""
    return {
        name: (kernel.num_regs, kernel.local_size_bytes)
        for name, kernel in _kernels(lanes, bounds).items()
        if name != "lanes"
    }


def device_facts() -> dict[str, Any]:
    """Name, memory and driver of the current device."""
    import cupy

    properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)
    return {
        "device": properties["name"].decode(),
        "memory_bytes": int(properties["totalGlobalMem"]),
        "multiprocessors": int(properties["multiProcessorCount"]),
        "runtime": int(cupy.cuda.runtime.runtimeGetVersion()),
        "cupy": cupy.__version__,
        "numpy": np.__version__,
    }
