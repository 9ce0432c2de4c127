"""The GPU engine's own part, with a stand-in for CuPy whose first graph runs the native library on the same structures.

What only a device can show, its compiler and its warps, is measured by bench/batch.py.
"""

from __future__ import annotations

import ctypes
import sys
import types

import numpy as np
import pytest
from batch_cases import batch_solver, needs_compiler, network_of, shaken
from test_batch_joint import made_tasks

from gridveil.solvers.batch import device_kernels, engine_gpu
from gridveil.solvers.batch.device_kernels import BLOCK, PATIENT_ROUND
from gridveil.solvers.batch.engine_gpu import _IDLE, GpuEngine
from gridveil.solvers.batch.engine_hybrid import HybridEngine
from gridveil.solvers.batch.engine_native import NativeEngine
from gridveil.solvers.batch.joint import JointSolver
from gridveil.solvers.batch.layout import STRUCTURES, filled
from gridveil.solvers.batch.network import lower_network
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
        return types.SimpleNamespace(launch=lambda stream: RawModule.solve())

    def synchronize(self) -> None:
        pass


class Device:
    compute_capability = "90"
    mem_info = (FREE_BYTES, FREE_BYTES)
    attributes = {"MultiProcessorCount": MULTIPROCESSORS}  # noqa: RUF012

    def synchronize(self) -> None:
        pass


class RawModule:
    """Compiles nothing: the first graph after "init" solves the batch natively, kernels do nothing."""

    waiting = None
    launched: list[str] = []  # noqa: RUF012
    started: list[int] = []  # noqa: RUF012
    """Tiles that each kernel "start" was launched for."""

    @classmethod
    def solve(cls) -> None:
        if cls.waiting is None:
            return
        (net, batch, work), rows = cls.waiting
        cls.waiting = None
        library = NativeEngine(threads=1)._library(rows)
        library.gridveil_run(*(ctypes.c_void_p(one.ctypes.data) for one in (net, batch, work)))

    def __init__(self, code: str, options: tuple[str, ...], backend: str) -> None:
        assert backend == "nvrtc" and "struct Net" in code and "#define BLOCKS_FACTOR 3" in code
        self._rows = 2 if "#define ROWS 2" in code else 0

    def get_function(self, name: str):
        def launch(grid, block, arguments) -> None:
            RawModule.launched.append(name)
            if name == "start":
                RawModule.started.append(int(arguments[2]["n_tiles"][0]))
            if name == "init":
                RawModule.waiting = arguments, self._rows

        return launch


class Array(np.ndarray):
    """An array that is told what to hold, as CuPy's are."""

    def set(self, values: np.ndarray, stream: object = None) -> None:
        self[:] = values


@pytest.fixture
def cupy(monkeypatch):
    stand_in = types.ModuleType("cupy")
    stand_in.__getattr__ = lambda name: getattr(np, name)  # type: ignore[method-assign]
    stand_in.cuda = types.SimpleNamespace(Device=Device, Stream=Stream, runtime=types.SimpleNamespace())
    stand_in.cuda.runtime.CUDARuntimeError = RuntimeError
    stand_in.asnumpy, stand_in.RawModule = np.asarray, RawModule
    stand_in.empty = lambda *given: np.full(*given[:1], np.nan, *given[1:]).view(Array)
    stand_in.get_default_memory_pool = lambda: types.SimpleNamespace(free_bytes=lambda: 0)
    monkeypatch.setitem(sys.modules, "cupy", stand_in)
    device_kernels.kernels_for.cache_clear()
    yield stand_in
    device_kernels.kernels_for.cache_clear()


def test_a_batch_through_the_gpu_engine_is_the_native_one(cupy):
    _, network, _, _ = network_of("case14_ieee")
    scenarios = shaken("case14_ieee", 6, branch_out=np.array([[-1], [2], [3], [-1], [4], [-1]]))
    engine = GpuEngine()
    found = BatchSolver(network, engine, tolerance=1e-7).dispatch(scenarios)
    expected = batch_solver(network).dispatch(scenarios)
    assert np.array_equal(found.cost, expected.cost) and np.array_equal(found.status, expected.status)
    assert np.array_equal(found.points.price_q, expected.points.price_q)
    assert engine.last["lanes"] == 32 and engine.last["slots"] == 6  # few scenarios: a warp for each


def test_joint_tasks_through_the_gpu_engine_are_the_native_ones(cupy):
    """Each round of theirs has two kernels more, in their places."""
    arrays, tasks, _ = made_tasks("case14_ieee", "push", 5)
    network = lower_network(arrays, joint=True)
    RawModule.launched.clear()
    found = JointSolver(network, GpuEngine()).solve(tasks)
    expected = JointSolver(network, NativeEngine(threads=1)).solve(tasks)
    assert np.array_equal(found.cost, expected.cost) and np.array_equal(found.points.demand_q, expected.points.demand_q)
    first = RawModule.launched[1 : RawModule.launched.index("step") + 1]
    assert [name for name in first if name in PATIENT_ROUND] == list(PATIENT_ROUND)
    assert first[first.index("factor") + 1] == "border" and first[first.index("correct") + 1] == "refine"


@pytest.mark.parametrize("count, lanes", [(100, 32), (1000, 2), (5000, 1)])
def test_slots_and_lanes_fill_the_device_and_no_more(cupy, count, lanes):
    values = {"n_slot": 1000, "n_limit": 100, "n_point": 10, "n_bus": 60}
    slots, found = GpuEngine()._share(values, count, None)
    full = MULTIPROCESSORS * engine_gpu.FULL * BLOCK
    assert found == lanes and slots <= count
    assert slots * lanes <= 2 * full
    if slots < count:
        assert slots * lanes % (MULTIPROCESSORS * BLOCK) == 0  # whole waves of blocks
    large = values | {"n_slot": 10**6}
    assert GpuEngine()._share(large, count, None)[0] <= FREE_BYTES // (8 * 10**6)
    with_points = GpuEngine()._share(large | {"n_point": FREE_BYTES // (16 * count)}, count, None)[0]
    assert with_points <= FREE_BYTES // (16 * 10**6)  # half of the memory is taken by points


def test_the_rest_of_the_demands_is_there_when_slots_want_it(cupy):
    """The stand-in's memory holds no numbers before they are sent."""
    _, network, _, _ = network_of("case3_lmbd")
    scenarios = shaken("case3_lmbd", 2 * MULTIPROCESSORS * engine_gpu.FULL * BLOCK + 10)
    engine = GpuEngine()
    (sent, _), rest = engine.send(scenarios.demand_p, scenarios.demand_q)
    assert rest is not None and np.isnan(sent[-1]).all() and not np.isnan(sent[: engine._first(len(sent))]).any()
    RawModule.started.clear()
    found = BatchSolver(network, engine, tolerance=1e-7).dispatch(scenarios, keep=False)
    first, *later = RawModule.started
    assert (
        32 * first <= engine._first(len(sent)) < 32 * min(later)
    )  # who starts before the rest is there has its demands
    assert np.array_equal(found.cost, batch_solver(network).dispatch(scenarios, keep=False).cost)


def held_slots(kernels, per_tile: int = 2):
    """Six tiles of two slots, of which five slots still work; each knows its number."""
    n_slot, states = 4, np.full(12, float(_IDLE))
    states[[0, 3, 7, 8, 11]] = 0.0
    memory = np.zeros((6, n_slot, per_tile))
    memory[:, 0] = states.reshape(6, 2)
    memory[:, 1] = np.arange(12).reshape(6, 2)
    fields = [name for name, _ in STRUCTURES["Net"]]
    net = filled("Net", dict.fromkeys(fields, 0) | {"n_slot": n_slot, "o_scalar": 0})
    work = filled("Work", {"memory": 0, "softness": 0, "n_tiles": 6})
    return net, engine_gpu._Slots(kernels | {"lanes": 32 // per_tile}, memory.reshape(-1), np.zeros(0), work)


def test_slots_at_work_move_to_the_front(cupy):
    """Three tiles are kept, and every one of the five slots is in them."""
    moved = {}
    kernels = {
        "move_slots": lambda grid, block, given: moved.update(zip(*map(np.ndarray.tolist, given[2:]), strict=True))
    }
    net, held = held_slots(kernels)
    GpuEngine()._compact(held, net)
    assert held.tiles == 3
    assert sorted(moved) == [7, 8, 11] and sorted(moved.values()) == [1, 2, 4]


def test_slots_at_work_are_spread_over_more_lanes(cupy):
    """Five slots with eight lanes each take two tiles of four, in their order; the other three of these stay idle."""
    asked = {}
    net, held = held_slots({})
    kernels = {"lanes": 8, "take_slots": lambda grid, block, given: asked.update(grid=grid, given=given)}
    wider = GpuEngine()._spread(held, net, kernels)
    _, work, memory, _, width, source = asked["given"]
    assert wider.tiles == 2 and wider.per_tile == 4 and wider.memory.size == 2 * 4 * 4 and asked["grid"] == (8,)
    assert memory is held.memory and width == 2 and source.tolist() == [0, 3, 7, 8, 11, -1, -1, -1]
    assert work is wider.work and int(work["memory"][0]) == wider.memory.ctypes.data


@pytest.mark.parametrize("busy, lanes", [(3000, None), (400, 8), (100, 32)])
def test_the_last_slots_get_as_many_lanes_as_keep_the_device_busy(cupy, busy, lanes):
    net, held = held_slots({})
    one = engine_gpu._Slots({"lanes": 1}, held.memory, held.softness, held.work)
    assert GpuEngine()._wider(one, busy, net) == lanes
    assert GpuEngine(lanes=1)._wider(one, busy, net) is None  # the caller's choice is kept to
    net["n_slot"] = FREE_BYTES
    assert GpuEngine()._wider(one, busy, net) is None  # no room for a copy


def test_small_batches_run_on_the_processor(cupy):
    """One core takes 200/14 scenarios of 14 buses; arrays go there and come back."""
    _, network, _, _ = network_of("case14_ieee")
    large, small = GpuEngine(), NativeEngine(threads=1)
    solver = BatchSolver(network, HybridEngine(large, small, cores=1))
    for count, launched in ((14, False), (15, True)):
        RawModule.launched.clear()
        scenarios = shaken("case14_ieee", count)
        found, expected = solver.dispatch(scenarios), BatchSolver(network, small).dispatch(scenarios)
        assert bool(RawModule.launched) is launched
        assert np.array_equal(found.cost, expected.cost) and np.array_equal(found.points.va, expected.points.va)


def test_memory_that_the_pool_keeps_in_pieces_is_let_go_before_slots_are_spread(cupy, monkeypatch):
    """As much as the pool keeps counts only once it is free in one piece."""
    kept = {"bytes": 9 * FREE_BYTES}

    def let_go() -> None:
        monkeypatch.setattr(Device, "mem_info", (FREE_BYTES + kept.pop("bytes"), 10 * FREE_BYTES))

    pool = types.SimpleNamespace(free_bytes=lambda: kept.get("bytes", 0), free_all_blocks=let_go)
    monkeypatch.setattr(cupy, "get_default_memory_pool", lambda: pool)
    engine = GpuEngine()
    assert engine._is_free(FREE_BYTES // 2) and "bytes" in kept  # enough beside what is kept
    assert not engine._is_free(20 * FREE_BYTES) and "bytes" in kept  # in vain
    assert engine._is_free(5 * FREE_BYTES) and "bytes" not in kept
