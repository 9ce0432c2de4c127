"""Tasks on a real Dask scheduler with workers of its own, one of which is killed in the middle."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from study_tools import assert_same_rows, write_study

from gridveil.core import cluster as dask_cluster
from gridveil.core.errors import InputError
from gridveil.study.engine_dask import dask_engine
from gridveil.study.engine_local import LocalEngine
from gridveil.study.runner import run_study
from gridveil.study.store import read_outcomes, summarise
from gridveil.study.study_file import read_study

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=2, processes=True, dashboard_address=None, silence_logs=50
    ) as running:
        yield running


def silent(message: str) -> None:
    raise AssertionError(message)


def test_a_killed_worker_changes_nothing(tmp_path, cluster):
    path = write_study(tmp_path / "s.toml", seeds=10)
    study = read_study(path)
    killed: list[int] = []

    @contextmanager
    def killing(what: str, parts: int) -> Iterator[Callable[[], None]]:
        done = 0

        def advance() -> None:
            nonlocal done
            done += 1
            if done == 10:
                killed.append(cluster.workers[0].process.pid)
                os.kill(killed[0], signal.SIGKILL)

        yield advance

    with dask_engine(cluster.scheduler_address, silent) as engine:
        assert engine.workers == 2
        report = run_study(study, tmp_path / "dask.sqlite", engine, watch=killing)
        assert report.computed == 40 and killed
    run_study(study, tmp_path / "local.sqlite", LocalEngine(workers=1))
    assert_same_rows(tmp_path / "dask.sqlite", tmp_path / "local.sqlite")
    summary = summarise(tmp_path / "dask.sqlite")
    assert summary.verified == 40 and [session.engine for session in summary.sessions] == ["dask"]
    workers = read_outcomes(tmp_path / "dask.sqlite")["worker"]
    assert workers.str.fullmatch("dask [0-9a-f]{8}").all()


def test_workers_that_cannot_do_the_tasks_are_told_before_anything_runs(tmp_path, cluster, monkeypatch):
    study = read_study(write_study(tmp_path / "s.toml", seeds=1))
    monkeypatch.setattr(dask_cluster, "__version__", "0.0.7")
    with (
        dask_engine(cluster.scheduler_address, silent) as engine,
        pytest.raises(InputError, match=r"has gridveil .*; install 0\.0\.7, as here"),
    ):
        run_study(study, tmp_path / "s.sqlite", engine)
    assert summarise(tmp_path / "s.sqlite").done == 0


def test_no_scheduler_is_told_so(monkeypatch):
    monkeypatch.setattr(dask_cluster, "CONNECT_SECONDS", 0.2)
    with (
        pytest.raises(InputError, match="no Dask scheduler answers at tcp://127"),
        dask_engine("tcp://127.0.0.1:9", silent),
    ):
        pass
    with pytest.raises(InputError, match="no Dask scheduler answers at nonsense"), dask_engine("nonsense://", silent):
        pass
