"""Whatever is killed, the store ends up as if nothing had happened."""

from __future__ import annotations

import os
import random
import signal
import sys
import time

import pytest
from study_tools import (
    assert_same_rows,
    run_with_kills,
    start_runner,
    wait_for_rows,
    wait_until_gone,
    worker_pids,
    write_study,
)

from gridveil.solvers.batch.engine_native import missing_compiler
from gridveil.study.engine_local import LocalEngine
from gridveil.study.runner import run_study
from gridveil.study.store import summarise
from gridveil.study.study_file import read_study

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="finds worker processes in /proc")


def test_kills_of_runner_and_workers_leave_no_trace(tmp_path):
    study = write_study(tmp_path / "s.toml", seeds=120)
    run_study(read_study(study), tmp_path / "undisturbed.sqlite", LocalEngine(workers=1))
    victims = ["worker", "runner", "server", "worker", "runner"]
    run_with_kills(study, tmp_path / "killed.sqlite", victims, random.Random(8), most_rows=25)
    assert_same_rows(tmp_path / "killed.sqlite", tmp_path / "undisturbed.sqlite")
    summary = summarise(tmp_path / "killed.sqlite")
    assert summary.done == summary.verified == summary.tasks == 480
    assert len(summary.sessions) <= 3 and sum(session.tasks for session in summary.sessions) == 480
    assert summary.seconds > 0


@pytest.mark.parametrize("engine", ["local", "native"])
def test_interrupt_ends_the_run_at_once_and_cleanly(tmp_path, engine):
    """Batches know nothing of a gas network, and leave it to the workers."""
    if engine == "native" and missing_compiler():
        pytest.skip(str(missing_compiler()))
    study = write_study(tmp_path / "s.toml", networks=("veil9", "veilgas"), seeds=2000)
    runner = start_runner("run", study, "--store", tmp_path / "s.sqlite", "--workers", 2, "--engine", engine)
    wait_for_rows(runner, tmp_path / "s.sqlite", 1)
    while not (workers := worker_pids(runner.pid)):
        assert runner.poll() is None, "the study ended early"
        time.sleep(0.01)
    os.killpg(runner.pid, signal.SIGINT)  # as a terminal does: the workers get it too
    out, err = runner.communicate(timeout=120)
    assert runner.returncode == 130 and not out
    lines = [line for line in err.splitlines() if "left" not in line]
    assert lines == [
        f"gridveil: stopped; finished tasks are saved in {tmp_path / 's.sqlite'}: run the same command again to resume"
    ]
    assert workers
    wait_until_gone(workers)
    assert 0 < summarise(tmp_path / "s.sqlite").done < 8000
