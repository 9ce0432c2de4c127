"""The GPU engine's own part, with a stand-in for CuPy whose first kernel runs the native library on the same structures.

What only a device can show, its compiler and its warps, is measured by bench/batch.py.
"""

from __future__ import annotations

import ctypes
import sys
import types

import numpy as np
import pytest
from batch_cases import batch_solver, needs_compiler, network_of, shaken

from gridveil.solvers.batch import engine_gpu
from gridveil.solvers.batch.engine_gpu import _IDLE, WAVES, GpuEngine
from gridveil.solvers.batch.engine_native import NativeEngine
from gridveil.solvers.batch.layout import STRUCTURES, filled
from gridveil.solvers.batch.solver import BatchSolver

pytestmark = needs_compiler

MULTIPROCESSORS, FREE_BYTES = 2, 10**9


class Stream:
    def __init__(self, non_blocking: bool) -> None:
        pass

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def begin_capture(self) -> None:
        pass

    def end_capture(self) -> types.SimpleNamespace:
        return types.SimpleNamespace(launch=lambda stream: None)

    def synchronize(self) -> None:
        pass


class Device:
    compute_capability = "90"
    mem_info = (FREE_BYTES, FREE_BYTES)
    attributes = {"MultiProcessorCount": MULTIPROCESSORS}  # noqa: RUF012

    def synchronize(self) -> None:
        pass


class RawModule:
    """Compiles nothing: "init" solves the whole batch natively, every other kernel does nothing."""

    def __init__(self, code: str, options: tuple[str, ...], backend: str) -> None:
        assert backend == "nvrtc" and "struct Net" in code and "#define BLOCKS_FACTOR 3" in code

    def get_function(self, name: str):
        def launch(grid, block, arguments) -> None:
            if name == "init":
                library = NativeEngine(threads=1)._library
                library.gridveil_run(*(ctypes.c_void_p(one.ctypes.data) for one in arguments))

        return launch


@pytest.fixture
def cupy(monkeypatch):
    stand_in = types.ModuleType("cupy")
    stand_in.__getattr__ = lambda name: getattr(np, name)  # type: ignore[method-assign]
    stand_in.cuda = types.SimpleNamespace(Device=Device, Stream=Stream, runtime=types.SimpleNamespace())
    stand_in.cuda.runtime.CUDARuntimeError = RuntimeError
    stand_in.asnumpy, stand_in.RawModule = np.asarray, RawModule
    stand_in.get_default_memory_pool = lambda: types.SimpleNamespace(free_bytes=lambda: 0)
    monkeypatch.setitem(sys.modules, "cupy", stand_in)
    engine_gpu._kernels.cache_clear()
    yield stand_in
    engine_gpu._kernels.cache_clear()


def test_a_batch_through_the_gpu_engine_is_the_native_one(cupy):
    _, network, _, _ = network_of("case14_ieee")
    scenarios = shaken("case14_ieee", 6, branch_out=np.array([[-1], [2], [3], [-1], [4], [-1]]))
    engine = GpuEngine()
    found = BatchSolver(network, engine, tolerance=1e-7).dispatch(scenarios)
    expected = batch_solver(network).dispatch(scenarios)
    assert np.array_equal(found.cost, expected.cost) and np.array_equal(found.status, expected.status)
    assert np.array_equal(found.points.price_q, expected.points.price_q)
    assert engine.last["lanes"] == 32 and engine.last["slots"] == 6  # few scenarios: a warp for each


@pytest.mark.parametrize("count, lanes", [(100, 32), (1000, 2), (5000, 1)])
def test_slots_and_lanes_fill_the_device_and_no_more(cupy, count, lanes):
    values = {"n_slot": 1000, "n_limit": 100}
    slots, found = GpuEngine()._share(values, count, None)
    full = MULTIPROCESSORS * WAVES[0] * engine_gpu.BLOCK
    assert found == lanes and slots <= count
    assert slots * lanes <= 1.1 * full or slots == count
    if slots < count:
        assert slots * lanes % (MULTIPROCESSORS * engine_gpu.BLOCK) == 0  # whole waves of blocks
    assert GpuEngine()._share({"n_slot": 10**6, "n_limit": 0}, count, None)[0] <= FREE_BYTES // (8 * 10**6)


def test_slots_at_work_move_to_the_front(cupy):
    """Of six tiles of two slots, five slots still work: three tiles are kept, and every one of the five is in them."""
    n_slot, per_tile, states = 4, 2, np.full(12, float(_IDLE))
    states[[0, 3, 7, 8, 11]] = 0.0
    memory = np.zeros((6, n_slot, per_tile))
    memory[:, 0] = states.reshape(6, 2)
    memory[:, 1] = np.arange(12).reshape(6, 2)
    moved = {}
    kernels = {
        "move_slots": lambda grid, block, given: moved.update(zip(*map(np.ndarray.tolist, given[2:]), strict=True))
    }
    fields = [name for name, _ in STRUCTURES["Net"]]
    net = filled("Net", dict.fromkeys(fields, 0) | {"n_slot": n_slot, "o_scalar": 0})
    work = filled("Work", {"memory": 0, "softness": 0, "n_tiles": 6})
    GpuEngine()._compact(kernels, (net, None, work), memory.reshape(-1), per_tile)
    assert int(work["n_tiles"][0]) == 3
    assert sorted(moved) == [7, 8, 11] and sorted(moved.values()) == [1, 2, 4]
