"""Batches in a process of their own: its rows, what it hands over, its errors, and its end."""

from __future__ import annotations

import os
import queue
import signal
import sys
from contextlib import closing
from importlib.util import find_spec

import pytest
from study_tools import assert_same_rows, jobs_of, rows_of, write_study

from gridveil.core.choices import BatchEngine
from gridveil.core.errors import GridveilError, InputError
from gridveil.core.parallel import Failure
from gridveil.solvers.batch.engine_native import missing_compiler
from gridveil.study import batches, engine_batch
from gridveil.study.batches import BatchPlan, batches_apart
from gridveil.study.engine_batch import BatchTaskEngine
from gridveil.study.engine_local import LocalEngine
from gridveil.study.outcome import TaskOutcome
from gridveil.study.portions import portions_of
from gridveil.study.runner import run_study
from gridveil.study.store import read_outcomes
from gridveil.study.study_file import read_study

pytestmark = pytest.mark.skipif(missing_compiler() is not None, reason=str(missing_compiler()))


class Listener:
    def __init__(self):
        self.heard = queue.Queue()

    def tell(self, position, row):
        self.heard.put((position, row))

    def end(self, error=None):
        self.heard.put((None, error))

    def all(self):
        found = {}
        while (heard := self.heard.get(timeout=120))[0] is not None:
            assert heard[0] not in found
            found[heard[0]] = heard[1]
        return found, heard[1]


def given(path, networks, choice=BatchEngine.NATIVE, seeds=4):
    rules, jobs = jobs_of(read_study(write_study(path / "s.toml", networks=networks, seeds=seeds, methods=["auto"])))
    return BatchPlan(rules=rules, choice=choice, portions=tuple(portions_of(jobs)), side_by_side=2), jobs


def test_every_task_has_a_row_or_is_handed_over_once(tmp_path):
    """Batches do not know a gas network."""
    what, jobs = given(tmp_path, ("veil9", "case14_ieee", "veilgas"))
    listener = Listener()
    with batches_apart(what, listener):
        found, error = listener.all()
    assert error is None and sorted(found) == list(range(len(jobs)))
    for position, row in found.items():
        network, task = jobs[position]
        if network.entry.label == "veilgas":
            assert row is None
        else:
            assert isinstance(row, TaskOutcome) and (row.network, row.seed) == (network.entry.label, task.seed)
            assert row.verified and row.worker != f"process {os.getpid()}"


def test_the_rows_of_a_study_are_those_of_this_process(tmp_path, monkeypatch):
    monkeypatch.setattr(BatchTaskEngine, "_on_gpu", True)
    monkeypatch.setattr(engine_batch, "GPU_WORTH", 4 * 14)
    study = read_study(
        write_study(tmp_path / "s.toml", networks=("veil9", "case14_ieee", "veilgas"), seeds=4, methods=["auto"])
    )
    engine = BatchTaskEngine(choice=BatchEngine.NATIVE, workers=2)
    assert engine._apart
    run_study(study, tmp_path / "apart.sqlite", engine)
    run_study(study, tmp_path / "here.sqlite", BatchTaskEngine(choice=BatchEngine.NATIVE, workers=1))
    assert_same_rows(tmp_path / "apart.sqlite", tmp_path / "here.sqlite")
    frame = read_outcomes(tmp_path / "apart.sqlite")
    assert frame.loc[frame["network"] == "case14_ieee", "worker"].nunique() == 1  # the process of the batches


def test_a_missing_engine_is_said_before_anything_is_made(tmp_path, monkeypatch):
    if batches.engine_for(BatchEngine.AUTO).name == "gpu":
        pytest.skip("there is a GPU")
    what, _ = given(tmp_path, ("veil9",), BatchEngine.GPU)
    listener = Listener()
    with batches_apart(what, listener):
        found, error = listener.all()
    assert not found and isinstance(error, InputError) and "GPU" in str(error)
    monkeypatch.setattr(engine_batch, "GPU_WORTH", 0)
    study = read_study(tmp_path / "s.toml")
    with pytest.raises(InputError, match="GPU"):
        run_study(study, tmp_path / "s.sqlite", BatchTaskEngine(choice=BatchEngine.GPU, workers=2))
    if find_spec("cupy") is None:
        assert not (tmp_path / "s.sqlite").exists()
    monkeypatch.setattr(BatchTaskEngine, "make_ready", lambda self: None)  # CuPy is there, but no device
    with pytest.raises(InputError, match="GPU"):
        run_study(study, tmp_path / "s.sqlite", BatchTaskEngine(choice=BatchEngine.GPU, workers=2))


def test_an_error_of_another_kind_is_sent_by_its_name_alone():
    class Connection:
        sent = []  # noqa: RUF012

        def send(self, what):
            self.sent.append(what)

    sender = batches._Sender(Connection())
    sender.end(MemoryError("the demand is 41.75 MW"))
    (_, error) = Connection.sent[0]
    assert type(error) is RuntimeError and str(error) == "unexpected MemoryError" and sender.ended.is_set()


@pytest.mark.skipif(sys.platform != "linux", reason="finds the process in /proc")
def test_a_process_that_dies_ends_the_study_and_one_that_nobody_waits_for_is_ended(tmp_path, monkeypatch):
    started = []
    start = batches.start_worker

    def noted(*arguments, **options):
        started.append(start(*arguments, **options))
        return started[-1]

    monkeypatch.setattr(batches, "start_worker", noted)
    monkeypatch.setattr(BatchTaskEngine, "_on_gpu", True)
    monkeypatch.setattr(engine_batch, "GPU_WORTH", 3000 * 14)
    study = read_study(
        write_study(tmp_path / "s.toml", networks=("veil9", "case14_ieee"), seeds=3000, methods=["auto"])
    )
    rules, jobs = jobs_of(study)
    engine = BatchTaskEngine(choice=BatchEngine.NATIVE, workers=2)
    with closing(engine.run(rules, jobs)) as rows:
        next(rows)
        os.kill(started[0][0].pid, signal.SIGKILL)
        with pytest.raises(GridveilError, match="the process of the batches has died"):
            for _ in rows:
                pass
    with closing(engine.run(rules, jobs)) as rows:
        assert not isinstance(next(rows)[0][1], Failure)
        pid = started[1][0].pid
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_small_networks_need_no_process_for_batches(tmp_path, monkeypatch):
    monkeypatch.setattr(engine_batch, "batches_apart", lambda *_: pytest.fail("a process was started"))
    study = read_study(write_study(tmp_path / "s.toml", networks=("veil9",), seeds=2, methods=["auto"]))
    for row, alone in zip(
        rows_of(study, BatchTaskEngine(choice=BatchEngine.NATIVE, workers=2)),
        rows_of(study, LocalEngine(workers=1)),
        strict=True,
    ):
        assert row.delta == pytest.approx(alone.delta, rel=1e-3, abs=1e-6)
