"""Studies in batches with what they leave over: worker processes, networks side by side, and endings before the end."""

from __future__ import annotations

import os
import threading
import time
from contextlib import closing
from types import SimpleNamespace

import pytest
from study_tools import asked_together, assert_same_rows, hand_over_every_second, jobs_of, rows_of, write_study

from device_arrays import DeviceEngine, DeviceModule
from gridveil.bilevel import bulk
from gridveil.bilevel.together.releases import TogetherReleases
from gridveil.core.choices import BatchEngine
from gridveil.core.deadline import check_time
from gridveil.core.errors import InputError
from gridveil.core.parallel import Failure
from gridveil.solvers.batch.engine_native import NativeEngine, missing_compiler
from gridveil.study import batches, engine_batch
from gridveil.study.engine_batch import BatchTaskEngine, run_tasks
from gridveil.study.engine_local import LocalEngine
from gridveil.study.portions import portions_of
from gridveil.study.runner import run_study
from gridveil.study.store import read_outcomes
from gridveil.study.study_file import read_study
from gridveil.study.trial import prepare

pytestmark = pytest.mark.skipif(missing_compiler() is not None, reason=str(missing_compiler()))

HERE = f"process {os.getpid()}"


def study_of(path, networks, seeds=4, methods=("auto",)):
    return read_study(write_study(path / "s.toml", networks=networks, seeds=seeds, methods=list(methods)))


def on_cores(monkeypatch):
    """Let the choice of a GPU be the native engine, in this process: there is no GPU here."""
    monkeypatch.setattr(BatchTaskEngine, "_apart", False)
    for module in (bulk, batches, engine_batch):
        monkeypatch.setattr(module, "engine_for", lambda choice: NativeEngine(threads=1))


def assert_alike(found, expected):
    """Fail unless two rows agree within the tolerance of the solvers."""
    assert (found.network, found.seed, found.method) == (expected.network, expected.seed, expected.method)
    assert found.verified and expected.verified and found.true_cost == expected.true_cost
    assert found.delta == pytest.approx(expected.delta, rel=1e-3, abs=1e-6)
    assert found.cost == pytest.approx(expected.cost, rel=1e-4)
    assert found.noisy_distance == expected.noisy_distance


@pytest.mark.parametrize("choice, workers", [(BatchEngine.NATIVE, 1), (BatchEngine.GPU, 2)])
def test_what_batches_hand_over_is_done_by_worker_processes(tmp_path, monkeypatch, choice, workers):
    """Every second release is handed over, and batches do not know a gas network."""
    on_cores(monkeypatch)
    monkeypatch.setattr(engine_batch, "GPU_WORTH", 0)
    monkeypatch.setattr(TogetherReleases, "answer", TogetherReleases.answer)  # put back afterwards
    hand_over_every_second()
    study = study_of(tmp_path, ("veil9", "case14_ieee", "veilgas"))
    found = rows_of(study, BatchTaskEngine(choice=choice, workers=workers))
    expected = rows_of(study, LocalEngine(workers=1))
    for row, alone in zip(found, expected, strict=True):
        assert_alike(row, alone)
    there = [row for row in found if row.worker != HERE]
    if workers == 1:
        assert not there
        return
    assert sum(row.network == "veilgas" for row in there) == 4
    for name in ("veil9", "case14_ieee"):
        assert 2 <= sum(row.network == name for row in there) < 4
    for row, alone in zip(found, expected, strict=True):  # those are the rows of single releases to the last bit
        if row in there:
            assert (row.delta, row.cost, row.optimisations) == (alone.delta, alone.cost, alone.optimisations)


def test_networks_side_by_side_give_the_rows_of_one_by_one(tmp_path, monkeypatch):
    on_cores(monkeypatch)
    study = study_of(tmp_path, ("veil2", "veil9", "case14_ieee"))
    answer, meeting = TogetherReleases.answer, threading.Barrier(3)
    at_work, most = [], []

    def attended(self, asked, give):
        at_work.append(1)
        most.append(len(at_work))
        if meeting is not None:
            meeting.wait(timeout=60)  # none goes on before all three are at work
        yield from answer(self, asked, give)
        at_work.pop()

    monkeypatch.setattr(TogetherReleases, "answer", attended)
    run_study(study, tmp_path / "three.sqlite", BatchTaskEngine(choice=BatchEngine.GPU, workers=1))
    assert max(most) == 3
    meeting, most[:] = None, []
    run_study(study, tmp_path / "one.sqlite", BatchTaskEngine(choice=BatchEngine.NATIVE, workers=1))
    assert most == [1, 1, 1]  # native batches fill the cores one network at a time
    assert_same_rows(tmp_path / "three.sqlite", tmp_path / "one.sqlite")
    assert read_outcomes(tmp_path / "three.sqlite")["verified"].all()


def test_each_network_has_a_stream_of_the_device_to_itself(tmp_path, monkeypatch):
    """Kernels of a batch run in the stream of their network's thread, and in no other."""
    streams, used = [], []

    class Stream:
        def __init__(self, *, non_blocking):
            assert non_blocking  # one that blocks would wait for the common stream
            streams.append(self)

        def __enter__(self):
            current.stream = self

        def __exit__(self, *error):
            current.stream = None

    class WithStreams(DeviceEngine):
        xp = DeviceModule()

        def advance(self, streams):
            used.append((streams[0]._network.grid.n_bus, current.stream))
            super().advance(streams)

    current = threading.local()
    WithStreams.xp.cuda = SimpleNamespace(Stream=Stream)
    for module in (bulk, batches):
        monkeypatch.setattr(module, "engine_for", lambda choice: WithStreams(threads=1))
    study = study_of(tmp_path, ("veil9", "case14_ieee"))
    rows = rows_of(study, BatchTaskEngine(choice=BatchEngine.GPU, workers=1))
    assert len(rows) == 8 and len(streams) == 2
    assert (
        {one for one, _ in used} == {9, 14} and len(set(used)) == 2 and {stream for _, stream in used} == set(streams)
    )


def test_networks_that_a_gpu_is_not_worth_go_to_the_processes(tmp_path, monkeypatch):
    on_cores(monkeypatch)
    study = study_of(tmp_path, ("veil9", "case14_ieee"))
    monkeypatch.setattr(engine_batch, "GPU_WORTH", 4 * 14)
    asked = []
    answer = TogetherReleases.answer
    monkeypatch.setattr(
        TogetherReleases,
        "answer",
        lambda self, given, give: asked.append(len(given[0].noisy)) or answer(self, given, give),
    )
    rows = rows_of(study, BatchTaskEngine(choice=BatchEngine.GPU, workers=2))
    assert len(asked) == 1 and all(row.worker != HERE for row in rows if row.network == "veil9")
    assert any(row.worker == HERE for row in rows if row.network == "case14_ieee")
    asked.clear()
    again = rows_of(study, BatchTaskEngine(choice=BatchEngine.GPU, workers=1))
    assert len(asked) == 2
    for row, other in zip(again, rows, strict=True):
        assert_alike(row, other)


def test_without_a_gpu_processes_take_small_networks_together_and_large_ones_task_by_task(tmp_path, monkeypatch):
    monkeypatch.setattr(engine_batch, "TOGETHER_TO", 10)
    study, engine = study_of(tmp_path, ("veil9", "case14_ieee")), BatchTaskEngine(choice=BatchEngine.NATIVE, workers=2)
    _, jobs = jobs_of(study)
    assert {one.network.entry.label: engine._most(one) for one in portions_of(jobs)} == {"veil9": 50, "case14_ieee": 1}
    found, expected = rows_of(study, engine), rows_of(study, LocalEngine(workers=1))
    assert all(row.worker != HERE for row in found)
    for row, alone in zip(found, expected, strict=True):
        assert_alike(row, alone)
        if row.network == "case14_ieee":
            assert (row.delta, row.cost, row.optimisations) == (alone.delta, alone.cost, alone.optimisations)


def test_whoever_stops_listening_leaves_no_process_and_no_thread(tmp_path, monkeypatch):
    """One network in processes, the other in a batch that ends only when it is stopped."""
    on_cores(monkeypatch)
    monkeypatch.setattr(engine_batch, "GPU_WORTH", 50 * 14)
    begun = threading.Event()

    def endless(self, asked, give):
        begun.set()
        while True:
            check_time()
            time.sleep(0.01)

    monkeypatch.setattr(TogetherReleases, "answer", endless)
    rules, jobs = jobs_of(study_of(tmp_path, ("veil9", "case14_ieee"), seeds=50))
    before = threading.active_count()
    with closing(BatchTaskEngine(choice=BatchEngine.GPU, workers=2).run(rules, jobs)) as rows:
        _, row = next(rows)[0]
        assert begun.wait(60)
    pid = int(row.worker.removeprefix("process "))
    assert pid != os.getpid()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    deadline = time.monotonic() + 30
    while threading.active_count() != before and time.monotonic() < deadline:
        time.sleep(0.02)
    assert threading.active_count() == before


@pytest.mark.parametrize("choice, workers", [(BatchEngine.NATIVE, 1), (BatchEngine.GPU, 2)])
def test_an_error_of_the_engine_ends_the_study(tmp_path, monkeypatch, choice, workers):
    on_cores(monkeypatch)
    monkeypatch.setattr(engine_batch, "GPU_WORTH", 0)

    def broken(self, asked, give):
        raise InputError("planted")

    monkeypatch.setattr(TogetherReleases, "answer", broken)
    study = study_of(tmp_path, ("veil9", "case14_ieee"))
    with pytest.raises(InputError, match="planted"):
        run_study(study, tmp_path / "s.sqlite", BatchTaskEngine(choice=choice, workers=workers))


def test_portions_hold_every_job_once_and_one_network_each(tmp_path):
    _, jobs = jobs_of(study_of(tmp_path, ("veil9", "case14_ieee"), seeds=7))
    found = portions_of(jobs, 3)
    assert [(one.network.entry.label, len(one.tasks)) for one in found] == [
        (name, size) for name in ("case14_ieee", "veil9") for size in (3, 3, 1)
    ]
    for one in found:
        assert [(one.network, task) for task in one.tasks] == [jobs[position] for position in one.positions]
    assert sorted(position for one in found for position in one.positions) == list(range(len(jobs)))
    assert [one.buses for one in portions_of(jobs)] == [7 * 14, 7 * 9]


@pytest.mark.parametrize("there", [True, False])
def test_a_worker_makes_its_portion_together_and_says_what_is_left_over(tmp_path, monkeypatch, there):
    """Without a compiler it makes all of it one by one, and a task that fails is the only one to fail."""
    monkeypatch.setattr(TogetherReleases, "answer", TogetherReleases.answer)  # put back afterwards
    hand_over_every_second()
    before, alone = asked_together(), []
    usual = engine_batch.run_trial

    def noted(rules, prepared, task):
        if not hasattr(prepared.backend, "released_together"):
            alone.append(tasks.index(task))
            if len(alone) == 2:
                raise RuntimeError("planted")
        return usual(rules, prepared, task)

    monkeypatch.setattr(engine_batch, "run_trial", noted)
    monkeypatch.setattr(engine_batch, "missing_compiler", lambda: None if there else "none")
    rules, jobs = jobs_of(study_of(tmp_path, ("case14_ieee",), seeds=6))
    tasks = tuple(task for _, task in jobs)
    prepared = prepare(jobs[0][0])
    rows = run_tasks(rules, prepared, tasks)
    assert asked_together() - before == (6 if there else 0) and alone == ([] if there else list(range(6)))
    assert rows.count(None) == (3 if there else 0)
    for place, (row, task) in enumerate(zip(rows, tasks, strict=True)):
        if alone and place == 1:
            assert row == Failure("unexpected RuntimeError")
        elif row is not None:
            assert_alike(row, usual(rules, prepared, task))


@pytest.mark.parametrize("lost", [False, True])
def test_what_a_portion_leaves_over_is_for_any_worker(tmp_path, monkeypatch, lost):
    """Each task under its own position; of a portion that was lost, all of them."""
    on_cores(monkeypatch)
    monkeypatch.setattr(engine_batch, "PORTION", 3)
    give, single = engine_batch.JobPool.gathered, []

    def some_left_over(pool):
        for together in give(pool):
            single.extend(number for number, _ in together if number >= 0)
            left_over = [Failure("planted") if lost else (None, *found[1:]) for number, found in together if number < 0]
            portions = [number for number, _ in together if number < 0]
            yield [one for one in together if one[0] >= 0] + list(zip(portions, left_over, strict=True))

    monkeypatch.setattr(engine_batch.JobPool, "gathered", some_left_over)
    study = study_of(tmp_path, ("veil9", "case14_ieee"), seeds=5)
    rows = rows_of(study, BatchTaskEngine(choice=BatchEngine.GPU, workers=2))
    assert len(single) >= (10 if lost else 4)
    for row, other in zip(rows, rows_of(study, LocalEngine(workers=1)), strict=True):
        assert_alike(row, other)


def test_portions_of_small_networks_come_back_under_their_positions(tmp_path, monkeypatch):
    on_cores(monkeypatch)
    monkeypatch.setattr(engine_batch, "PORTION", 2)
    study = study_of(tmp_path, ("veil9", "case14_ieee"), seeds=5)
    rows = rows_of(study, BatchTaskEngine(choice=BatchEngine.GPU, workers=2))  # which looks at the positions
    for row, other in zip(rows, rows_of(study, LocalEngine(workers=1)), strict=True):
        assert_alike(row, other)
        assert row.worker != HERE
