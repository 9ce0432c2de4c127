"""Problems of many rows under way at once, on a GPU that is none and on the processor's cores."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gridveil.bilevel.methods.settings import AutoSettings, BisectionSettings
from gridveil.bilevel.together.rows import SearchRows
from gridveil.solvers.batch import engine_gpu, engine_gpu_stream, stream_turns
from gridveil.solvers.batch.device_kernels import missing_gpu
from gridveil.solvers.batch.engine_gpu import GpuEngine
from gridveil.solvers.batch.engine_hybrid import STREAM_BUSES_PER_CORE, HybridEngine
from gridveil.solvers.batch.engine_native import NativeEngine, missing_compiler
from gridveil.solvers.batch.stream import RowCounts
from gridveil.solvers.batch.stream_turns import take_turns
from together_settings import Setting

pytestmark = pytest.mark.skipif(missing_compiler() is not None, reason=str(missing_compiler()))

SETTINGS = [(0.1, "1%"), (0.3, "0.5%")]


def assert_equal_rows(found, expected):
    assert np.array_equal(found.d, expected.d, equal_nan=True)
    assert np.array_equal(found.cost, expected.cost, equal_nan=True)
    assert np.array_equal(found.handed_over, expected.handed_over)


def test_rows_on_a_gpu_are_the_native_ones(cupy):
    found = Setting("case14_ieee", SETTINGS, 5, engine=GpuEngine()).together()
    expected = Setting("case14_ieee", SETTINGS, 5).together()
    assert_equal_rows(found, expected)
    assert len(found.turns) > len(expected.turns)  # the host looks before all have ended


def test_slots_are_spread_over_more_lanes_while_problems_are_under_way(cupy, monkeypatch):
    """As rows end for good, those that are left get more threads each; their problems go on where they stood."""
    spread, usual = [], GpuEngine.spread

    def noted(*given, **more):
        spread.append(more["least"])
        return usual(*given, **more)

    monkeypatch.setattr(GpuEngine, "spread", noted)
    monkeypatch.setattr(GpuEngine, "wider", lambda *given, **more: 32)
    found = Setting("case14_ieee", SETTINGS, 5, engine=GpuEngine()).together()
    assert len(spread) > 12 and spread[0] == 10 > spread[-1]
    assert_equal_rows(found, Setting("case14_ieee", SETTINGS, 5).together())


def test_more_rows_than_slots_wait_in_a_ring(cupy, monkeypatch):
    monkeypatch.setattr(GpuEngine, "fitting", lambda *given: 4)
    found = Setting("case14_ieee", SETTINGS, 5, engine=GpuEngine()).together()
    assert_equal_rows(found, Setting("case14_ieee", SETTINGS, 5).together())


def test_the_host_looks_when_enough_have_ended_or_one_has_waited(cupy, monkeypatch):
    """With a share that is never reached, a while after the first end is enough."""
    monkeypatch.setattr(engine_gpu_stream, "ENOUGH", 2.0)
    monkeypatch.setattr(engine_gpu_stream, "AS_LONG", 20.0)
    found = Setting("case14_ieee", SETTINGS, 5, engine=GpuEngine()).together()
    monkeypatch.setattr(engine_gpu_stream, "ENOUGH", 0.0)
    eager = Setting("case14_ieee", SETTINGS, 5, engine=GpuEngine()).together()
    assert len(found.turns) < len(eager.turns)
    assert_equal_rows(found, eager)


@pytest.mark.parametrize("count, runs_on", [(2, "native"), (3, "gpu")])
def test_few_rows_are_for_the_processor(cupy, count, runs_on):
    cores = 28 / STREAM_BUSES_PER_CORE  # for two rows of 14 buses
    engine = HybridEngine(GpuEngine(), NativeEngine(threads=1), cores=cores)
    assert missing_gpu() is None
    setting = Setting("case14_ieee", [(0.1, "1%")], count, engine=engine)
    assert setting.batches.rows.suited(count).engine.name == runs_on
    assert_equal_rows(setting.together(), Setting("case14_ieee", [(0.1, "1%")], count).together())


def test_rows_that_fill_a_gpu_take_turns_and_end_the_same(cupy, monkeypatch):
    monkeypatch.setattr(engine_gpu, "TURNS_FROM", 1)
    found = Setting("case14_ieee", SETTINGS, 6, engine=GpuEngine()).together()
    expected = Setting("case14_ieee", SETTINGS, 6).together()
    assert_equal_rows(found, expected)
    # A turn is a batch of one kind, of all that waits for it.
    assert all(not (sum(turn.joint) and sum(turn.dispatches)) for turn in found.turns)
    assert sum(found.turns[0].joint) == 12 and sum(found.turns[1].dispatches) == 12


def test_streams_take_turns_where_both_have_problems():
    """Joint problems and dispatches one after the other, however many of either there are; one that has none is passed over."""
    order = []

    class Waits:
        rows, waiting, busy = 10, 5, 5

        def __init__(self, name, is_next):
            self.name, self.is_next = name, is_next

        def turn(self, *, hurried):
            assert hurried
            order.append(self.name)

    joint, dispatches = Waits("joint", True), Waits("dispatches", False)
    for _ in range(4):
        take_turns([joint, dispatches])
    joint.waiting = joint.busy = 0
    take_turns([joint, dispatches])
    take_turns([joint, dispatches])
    assert order == ["joint", "dispatches"] * 2 + ["dispatches"] * 2


def test_problems_that_take_long_are_put_off_until_little_else_is_left(cupy, monkeypatch):
    monkeypatch.setattr(engine_gpu, "TURNS_FROM", 1)
    usual = Setting("case14_ieee", SETTINGS, 6, engine=GpuEngine()).together()
    monkeypatch.setattr(stream_turns, "FIRST_ITERATIONS", 9)
    found = Setting("case14_ieee", SETTINGS, 6, engine=GpuEngine()).together()
    assert sum(found.turns[0].joint) < 12 and len(found.turns) > len(usual.turns)
    # A run that the limit ends is solved all the same if the check finds its point sound: last digits may differ.
    assert found.d == pytest.approx(usual.d, abs=1e-5, nan_ok=True) and np.array_equal(found.finished, usual.finished)


def test_problems_that_a_turn_does_not_wait_for_end_the_same(cupy, monkeypatch):
    """As a GPU leaves its stragglers, without a status."""
    monkeypatch.setattr(engine_gpu, "TURNS_FROM", 1)
    usual, left = Setting("case14_ieee", SETTINGS, 6, engine=GpuEngine()).together(), []
    monkeypatch.setattr(stream_turns, "LEFT", 0.25)
    run = GpuEngine.run_rows

    def hasty(self, network, arrays, rows, options):
        run(self, network, arrays, rows, replace(options, left=0.0))
        undone = rows[: int(options.left * len(rows))]
        left.append(len(undone))
        for name, nothing in (("status", -1), ("iterations", 0), ("point", np.nan), ("cost", np.nan)):
            arrays.made[name][undone] = nothing

    monkeypatch.setattr(GpuEngine, "run_rows", hasty)
    found = Setting("case14_ieee", SETTINGS, 6, engine=GpuEngine()).together()
    assert left[0] == 3 and left[-1] == 0
    assert_equal_rows(found, usual)


@pytest.mark.parametrize("name, count, few", [("case14_ieee", 8, 6), ("case30_ieee", 12, 8)])
def test_the_last_rows_go_on_at_the_processor(name, count, few, cupy, monkeypatch):
    """With all that is known of them, and of no others: a hundred thousand that have ended would take seconds to bring along."""
    moved, move = [], SearchRows.move

    def noted(rows, power):
        moved.append(rows.under_way)
        move(rows, power)
        noisy, places = (rows.problems._state[part].reshape(len(rows), -1).any(axis=1) for part in ("noisy", "places"))
        assert np.array_equal(np.flatnonzero(noisy), moved[-1])
        assert np.isin(np.flatnonzero(places), moved[-1]).all()  # a row may have no point yet

    monkeypatch.setattr(SearchRows, "move", noted)
    buses = int(name[4:6])
    engine = HybridEngine(GpuEngine(), NativeEngine(threads=1), cores=few * buses / STREAM_BUSES_PER_CORE)
    for method in (AutoSettings(), BisectionSettings()):
        found = Setting(name, SETTINGS, count, engine=engine).together(settings=method)
        expected = Setting(name, SETTINGS, count).together(settings=method)
        (last,) = moved
        assert 0 < len(last) <= few and found.finished[last].any()
        assert_equal_rows(found, expected)
        assert np.array_equal(found.x, expected.x, equal_nan=True)
        assert np.array_equal(found.highpoint_d, expected.highpoint_d, equal_nan=True)
        moved.clear()


def test_a_row_has_one_problem_at_a_time():
    rows = RowCounts(4)
    rows.begin(np.array([2, 0]))
    assert rows.ring[:2].tolist() == [2, 0] and rows.busy == 2 == rows.put
    with pytest.raises(RuntimeError, match="under way"):
        rows.begin(np.array([0]))
    ended = np.array([1, 0, 0, 0], np.int32)
    assert rows.count(ended) == 1 and rows.end(ended).tolist() == [0] and rows.end(ended).tolist() == []
    rows.begin(np.array([0, 1, 3]))
    assert rows.ring.tolist() == [3, 0, 0, 1] and rows.busy == 4 and rows.put == 5  # the ring goes round
    assert rows.end(ended).tolist() == []  # the second problem of the first row has not ended
    assert rows.end(np.array([2, 1, 1, 1], np.int32)).tolist() == [0, 1, 2, 3]
