"""The GPU engine's own part, with a stand-in for CuPy; what only a device can show is measured by bench/batch.py."""

from __future__ import annotations

import types

import numpy as np
import pytest
from batch_cases import batch_solver, needs_compiler, network_of, shaken
from test_batch_joint import made_tasks

from fake_cupy import FREE_BYTES, MULTIPROCESSORS, Device, RawModule
from gridveil.solvers.batch import engine_gpu
from gridveil.solvers.batch.device_kernels import BLOCK, ROUND
from gridveil.solvers.batch.engine_gpu import _IDLE, GpuEngine
from gridveil.solvers.batch.engine_hybrid import HybridEngine
from gridveil.solvers.batch.engine_native import NativeEngine
from gridveil.solvers.batch.joint import JointSolver
from gridveil.solvers.batch.layout import STRUCTURES, filled
from gridveil.solvers.batch.network import lower_network
from gridveil.solvers.batch.solver import BatchSolver
from together_settings import Setting

pytestmark = needs_compiler


def test_a_batch_through_the_gpu_engine_is_the_native_one(cupy):
    _, network, _, _ = network_of("case14_ieee")
    scenarios = shaken("case14_ieee", 6, branch_out=np.array([[-1], [2], [3], [-1], [4], [-1]]))
    engine = GpuEngine()
    found = BatchSolver(network, engine, tolerance=1e-7).dispatch(scenarios)
    expected = batch_solver(network).dispatch(scenarios)
    assert np.array_equal(found.cost, expected.cost) and np.array_equal(found.status, expected.status)
    assert np.array_equal(found.points.price_q, expected.points.price_q)
    assert engine.most_memory >= engine.last["memory"] > 0
    assert engine.last["lanes"] == 32 and engine.last["slots"] == 6  # few scenarios: a warp for each


def test_joint_tasks_through_the_gpu_engine_are_the_native_ones(cupy):
    """Each round of theirs has two kernels more, in their places, where lanes of several slots share a warp."""
    arrays, tasks, _ = made_tasks("case14_ieee", "push", 5)
    network = lower_network(arrays, joint=True)
    RawModule.launched.clear()
    found = JointSolver(network, GpuEngine(lanes=1)).solve(tasks)
    expected = JointSolver(network, NativeEngine(threads=1)).solve(tasks)
    assert np.array_equal(found.cost, expected.cost) and np.array_equal(found.points.demand_q, expected.points.demand_q)
    first = RawModule.launched[1 : RawModule.launched.index("step") + 1]
    assert [name for name in first if name in ROUND] == list(ROUND)
    assert first[first.index("factor") + 1] == "border" and first[first.index("correct") + 1] == "refine"


@pytest.mark.parametrize("count, lanes", [(100, 32), (1000, 2), (5000, 1)])
def test_slots_and_lanes_fill_the_device_and_no_more(cupy, count, lanes):
    values = {"n_slot": 1000, "n_limit": 100, "n_point": 10, "n_bus": 60}
    engine = GpuEngine()
    slots, found = engine._share(values, count, None, engine.fitting(values, count))
    full = MULTIPROCESSORS * engine_gpu.FULL * BLOCK
    assert found == lanes and slots <= count
    assert slots * lanes <= 2 * full
    if slots < count:
        assert slots * lanes % (MULTIPROCESSORS * BLOCK) == 0  # whole waves of blocks
    large = values | {"n_slot": 10**6}
    assert engine._share(large, count, None, engine.fitting(large, count))[0] <= FREE_BYTES // (8 * 10**6)
    with_points = engine.fitting(large | {"n_point": FREE_BYTES // (16 * count)}, count)
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
    return net, engine_gpu.Slots(kernels | {"lanes": 32 // per_tile}, memory.reshape(-1), np.zeros(0), work)


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
    wider = GpuEngine().spread(held, net, kernels)
    _, work, memory, _, width, source, without_work = asked["given"]
    assert wider.tiles == 2 and wider.per_tile == 4 and wider.memory.size == 2 * 4 * 4 and asked["grid"] == (8,)
    assert memory is held.memory and width == 2 and source.tolist() == [0, 3, 7, 8, 11, -1, -1, -1]
    assert without_work == _IDLE
    assert np.shares_memory(work, wider.work) and int(wider.work["memory"][0]) == wider.memory.ctypes.data


@pytest.mark.parametrize("busy, lanes", [(3000, None), (400, 8), (100, 32)])
def test_the_last_slots_get_as_many_lanes_as_keep_the_device_busy(cupy, busy, lanes):
    net, held = held_slots({})
    one = engine_gpu.Slots({"lanes": 1}, held.memory, held.softness, held.work)
    assert GpuEngine().wider(one, busy, net) == lanes
    assert GpuEngine(lanes=1).wider(one, busy, net) is None  # the caller's choice is kept to
    net["n_slot"] = FREE_BYTES
    assert GpuEngine().wider(one, busy, net) is None  # no room for a copy


def test_small_batches_run_on_the_processor(cupy):
    """One core takes 200/14 scenarios of 14 buses; arrays go there and come back."""
    _, network, _, _ = network_of("case14_ieee")
    large, small = GpuEngine(), NativeEngine(threads=1)
    solver = BatchSolver(network, HybridEngine(large, small, cores=1))
    for count, launched in ((14, False), (15, True)):
        RawModule.launched.clear()
        scenarios = shaken("case14_ieee", count)
        found, expected = solver.dispatch(scenarios), BatchSolver(network, small).dispatch(scenarios)
        assert bool(set(RawModule.launched) - {"check_rows"}) is launched
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


def test_a_stream_makes_sure_of_all_the_memory_that_more_lanes_take(cupy, monkeypatch):
    sure, took, slots, spread = [], [], GpuEngine.slots, GpuEngine.spread

    def noted(self, *given):
        made = slots(self, *given)
        took.append(made.memory.nbytes + made.softness.nbytes)
        return made

    def compared(self, *given, **more):
        made = spread(self, *given, **more)
        pairs.append((sure[-1], took[-1]))
        return made

    pairs = []
    monkeypatch.setattr(GpuEngine, "_is_free", lambda self, needed: sure.append(needed) or True)
    monkeypatch.setattr(
        GpuEngine, "most_lanes", lambda self, count, buses: 32 if count > 140 else 128 if count > 50 else 256
    )
    monkeypatch.setattr(GpuEngine, "slots", noted)
    monkeypatch.setattr(GpuEngine, "spread", compared)
    Setting("case14_ieee", [(0.1, "1%")], 400, engine=GpuEngine()).together()
    assert pairs and all(made_sure >= taken for made_sure, taken in pairs)


def test_what_lies_on_the_device_is_not_sent_again(cupy):
    """Large batches travel in two parts, but only from the host."""

    class OnDevice(np.ndarray):
        __cuda_array_interface__ = None

    engine = GpuEngine()
    many = np.ones((engine._full, 1), np.float32)
    (sent,), rest = engine.send(many)
    assert rest is not None and sent.dtype == np.float64
    (there,), rest = engine.send(many.view(OnDevice))
    assert rest is None and there.dtype == np.float64 and there.all()
