"""Portions of a study in batches on the workers of a Dask cluster: one is killed, and not all take portions."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from study_tools import asked_together, assert_same_rows, hand_over_every_second, rows_of, write_study

from gridveil.core.choices import BatchEngine
from gridveil.core.errors import InputError
from gridveil.solvers.batch.engine_native import missing_compiler
from gridveil.study import engine_dask
from gridveil.study.engine_batch import BatchTaskEngine
from gridveil.study.engine_dask import dask_engine
from gridveil.study.runner import run_study, unwatched
from gridveil.study.store import read_outcomes, summarise
from gridveil.study.study_file import read_study

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.skipif(missing_compiler() is not None, reason=str(missing_compiler()))

BAD = """\
function mpc = bad
mpc.version = '2';
mpc.baseMVA = 100;
mpc.bus = [
 1 3 0 0 0 0 1 1 0 230 1 1.1 0.9;
 2 1 500 0 0 0 1 1 0 230 1 1.1 0.9;
];
mpc.gen = [1 0 0 100 -100 1 100 1 100 0];
mpc.branch = [1 2 0.01 0.1 0 100 100 100 0 0 1 -30 30];
mpc.gencost = [2 0 0 3 0.01 10 0];
"""  # five times the demand that its generator and its line can serve


def silent(message: str) -> None:
    raise AssertionError(message)


def run_on(cluster, study, store, watch=unwatched, engine=BatchEngine.NATIVE):
    with dask_engine(cluster.scheduler_address, silent, engine) as ready:
        return run_study(study, store, ready, watch=watch)


@contextmanager
def cluster_of(*resources: dict[str, int]):
    """Workers with these resources."""
    workers = {
        name: {"cls": distributed.Nanny, "options": {"nthreads": 2, "resources": given, "silence_logs": 50}}
        for name, given in enumerate(resources)
    }
    scheduler = {"cls": distributed.Scheduler, "options": {"dashboard": False, "port": 0}}
    with distributed.SpecCluster(workers=workers, scheduler=scheduler, silence_logs=50) as running:
        yield running


def test_a_killed_worker_and_the_size_of_portions_change_nothing(tmp_path, monkeypatch):
    """Power networks in portions; a gas network, which batches do not know, comes back and is run task by task."""
    study = read_study(
        write_study(tmp_path / "s.toml", networks=("veil9", "case14_ieee", "veilgas"), seeds=8, methods=["auto"])
    )
    monkeypatch.setattr(engine_dask, "PORTION", 3)
    killed: list[int] = []

    with cluster_of({}, {}) as cluster:

        @contextmanager
        def killing(what: str, parts: int) -> Iterator[Callable[[], None]]:
            def advance() -> None:
                if not killed:
                    killed.append(cluster.workers[0].process.pid)
                    os.kill(killed[0], signal.SIGKILL)

            yield advance

        assert run_on(cluster, study, tmp_path / "dask.sqlite", killing).computed == 24 and killed
    run_study(study, tmp_path / "here.sqlite", BatchTaskEngine(choice=BatchEngine.NATIVE, workers=1))
    assert_same_rows(tmp_path / "dask.sqlite", tmp_path / "here.sqlite")
    summary = summarise(tmp_path / "dask.sqlite")
    assert summary.verified == 24
    assert [(one.engine, one.tasks, one.workers) for one in summary.sessions] == [("dask native", 24, 2)]
    assert read_outcomes(tmp_path / "dask.sqlite")["worker"].str.fullmatch("dask [0-9a-f]{8}").all()


def test_marked_workers_take_the_portions_and_any_worker_what_is_left(tmp_path, monkeypatch):
    study = read_study(write_study(tmp_path / "s.toml", networks=("veil9", "veilgas"), seeds=12, methods=["auto"]))
    monkeypatch.setattr(engine_dask, "PORTION", 5)
    with cluster_of({"BATCH": 1}, {}) as cluster:
        marked = cluster.workers[0].worker_address
        with (
            distributed.Client(cluster) as client,
            dask_engine(cluster.scheduler_address, silent, BatchEngine.NATIVE) as engine,
        ):
            client.run(hand_over_every_second)
            ids = client.run(lambda dask_worker: dask_worker.id[-8:])
            rows = rows_of(study, engine)
            assert client.run(asked_together) == {address: 12 * (address == marked) for address in ids}
        others = {f"dask {one}" for address, one in ids.items() if address != marked}
        assert others & {row.worker for row in rows if row.network == "veilgas"}
        with pytest.raises(InputError, match=r"^worker tcp://.*: the GPU batch solver needs "):
            run_on(cluster, study, tmp_path / "gpu.sqlite", engine=BatchEngine.GPU)
    assert summarise(tmp_path / "gpu.sqlite").done == 0


def test_a_network_that_workers_cannot_prepare_fails_in_its_rows(tmp_path):
    file = tmp_path / "bad.m"
    file.write_text(BAD)
    more = '[[network]]\ncase = "bad.m"\nlabel = "bad"'
    study = read_study(write_study(tmp_path / "s.toml", networks=("veil9",), seeds=2, methods=["auto"], more=more))
    with cluster_of({}) as cluster:
        run_on(cluster, study, tmp_path / "s.sqlite")
    rows = read_outcomes(tmp_path / "s.sqlite").set_index("network")
    assert rows.loc["veil9", "verified"].all() and not rows.loc["bad", "verified"].any() and len(rows) == 4
    assert rows.loc["bad", "reason"].str.startswith("the optimal flow at the network's own demands").all()
