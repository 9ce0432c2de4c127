"""Many jobs at once: nothing lost and nothing done twice."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from functools import partial
from multiprocessing import forkserver
from types import SimpleNamespace

import pytest
from pool_jobs import build, niceness, variable, work

from gridveil.core import parallel, worker_start
from gridveil.core.errors import InputError
from gridveil.core.parallel import Failure, JobPool, run_many
from gridveil.sectors.registry import load_case


def test_true_demands_cannot_reach_a_worker(tmp_path):
    jobs = [("a", load_case("veil9").values)] * 2
    with pytest.raises(TypeError, match="secret"):
        list(run_many(partial(build, tmp_path), partial(work, tmp_path), jobs, workers=2))


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_every_job_is_done_once_with_the_state_of_its_key(tmp_path, workers):
    jobs: list[tuple[str, int | str]] = [(key, number) for number in range(40) for key in ("a", "b", "c")]
    jobs[17:17] = [("a", "leaky"), ("unbuildable", 1), ("unbuildable", 2)]
    before = dict(os.environ)
    found = list(run_many(partial(build, tmp_path), partial(work, tmp_path), jobs, workers=workers))
    assert sorted(index for index, _ in found) == list(range(len(jobs)))
    results = dict(found)
    assert results[17] == Failure("unexpected ValueError")
    assert results[18] == results[19] == Failure("there is no such network")
    squares = [(jobs[index], result) for index, result in found if isinstance(result, tuple)]
    assert len(squares) == 120 and all(result[:2] == (key, number**2) for (key, number), result in squares)
    for key in "abc":
        builders = (tmp_path / f"built-{key}").read_text().split()
        assert len(builders) == len(set(builders)) <= workers
    if workers > 1:
        assert {result[2] for _, result in squares} == {"1"} and os.getpid() not in {result[3] for _, result in squares}
    assert dict(os.environ) == before


def test_a_worker_that_dies_loses_no_job_and_a_deadly_job_fails_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(parallel, "MOST_LOST_STARTS", 3)
    jobs: list[tuple[str, int | str]] = [("a", number) for number in range(30)]
    jobs += [("a", "once"), ("a", "deadly"), ("deadly", 1), ("deadly", 2), ("a", "unpicklable")]
    results = dict(run_many(partial(build, tmp_path), partial(work, tmp_path), jobs, workers=2))
    assert [results[index][1] for index in range(30)] == [number**2 for number in range(30)]  # type: ignore[index]
    assert results[30] == "once" and (tmp_path / "ran-once").stat().st_size == 2
    assert results[31] == Failure("its worker process died 3 times") and (tmp_path / "ran-deadly").stat().st_size == 3
    assert results[32] == results[33] == Failure("3 worker processes died before they could begin it")
    assert isinstance(results[34], Failure)


def test_workers_have_the_environment_of_the_moment_at_which_they_start(monkeypatch):
    """Not that of the process they are forked from, which is older."""
    for value in ("first", "second"):
        monkeypatch.setenv("GRIDVEIL_OF_THE_MOMENT", value)
        assert dict(run_many(str, variable, [(1, "GRIDVEIL_OF_THE_MOMENT")], workers=2)) == {0: value}
    monkeypatch.delenv("GRIDVEIL_OF_THE_MOMENT")
    assert dict(run_many(str, variable, [(1, "GRIDVEIL_OF_THE_MOMENT")], workers=2)) == {0: None}


@pytest.mark.skipif(not hasattr(os, "nice"), reason="there are no priorities")
def test_workers_in_the_background_have_a_lower_priority():
    for background in (False, True):
        pool = JobPool(str, niceness, workers=2, background=background)
        pool.add(0, "a", "b")
        pool.end()
        assert dict(pool.results()) == {0: min(19, os.nice(0) + worker_start.NICENESS * background)}


@pytest.mark.skipif(not worker_start.can_fork(), reason="workers start from scratch here")
def test_workers_start_from_scratch_where_there_can_be_no_fork_server(tmp_path, monkeypatch):
    refused = []

    def refuse(*_):
        refused.append(1)
        raise OSError("AF_UNIX path too long")

    for name in ("ensure_running", "connect_to_new_process"):
        monkeypatch.setattr(forkserver, name, refuse)
    worker_start.make_ready(["json"])
    ((_, result),) = run_many(partial(build, tmp_path), partial(work, tmp_path), [("a", 4)], workers=2)
    assert result[:2] == ("a", 16) and len(refused) == 1 + worker_start.MOST_LOST_SERVERS


def test_results_may_be_left_before_the_last(tmp_path):
    stream = run_many(partial(build, tmp_path), partial(work, tmp_path), [("a", n) for n in range(1000)], workers=2)
    pid = next(stream)[1][3]  # type: ignore[index]
    stream.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize("workers", [1, 2])
def test_jobs_are_added_while_others_are_done(tmp_path, workers):
    """Each round begins when the one before has come out, from another thread; jobs of one worker wait for the end."""
    pool = JobPool(partial(build, tmp_path), partial(work, tmp_path), workers=workers)
    rounds, seen = 4, threading.Semaphore(1)

    def produce():
        for number in range(rounds):
            assert seen.acquire(timeout=120)
            for place, key in enumerate("ab"):
                pool.add(10 * number + place, key, number)
            pool.give(10 * number + 2, number)
        pool.end()

    threading.Thread(target=produce, daemon=True).start()
    found = []
    for index, result in pool.results():
        found.append((index, result if index % 10 == 2 else result[:2]))
        of_round = [other for other, _ in found if other // 10 == index // 10]
        if len(of_round) == (3 if workers > 1 else 1):
            seen.release()
    expected = {10 * n + place: (key, n**2) for n in range(rounds) for place, key in enumerate("ab")}
    expected |= {10 * n + 2: n for n in range(rounds)}
    assert len(found) == len(expected) and dict(found) == expected
    if workers == 1:
        assert [index % 10 for index, _ in found[:rounds]] == [2] * rounds
    assert len((tmp_path / "built-a").read_text().split()) <= workers  # later rounds find the states of earlier ones


def test_a_worker_without_jobs_helps_where_most_time_is_left(tmp_path):
    """Thirty jobs of a hundredth of a second are done before three of one second."""
    pool = JobPool(partial(build, tmp_path), partial(work, tmp_path), workers=3)
    pool._workers = [SimpleNamespace(key=key, chunk=[0]) for key in ("short", "long")]
    idle = SimpleNamespace(key="ended", chunk=[])
    pool._seconds = {"short": 0.01, "long": 1.0}
    assert pool._choose_key(idle, {"short": 30, "long": 3}) == "long"
    assert pool._choose_key(idle, {"short": 30, "long": 3, "untouched": 1}) == "untouched"
    assert pool._choose_key(SimpleNamespace(key="short", chunk=[]), {"short": 30, "long": 3}) == "short"
    pool._seconds = {}
    assert pool._choose_key(idle, {"short": 30, "long": 3}) == "short"  # nobody knows yet


def test_jobs_that_go_ahead_are_taken_before_a_workers_own(tmp_path):
    pool = JobPool(partial(build, tmp_path), partial(work, tmp_path), workers=3)
    pool.add(0, "slow", 1, ahead=True)
    pool.add(1, "own", 1)
    list(pool._take())
    pool._workers = [SimpleNamespace(key="slow", chunk=[0])]
    at_own, at_slow = (SimpleNamespace(key=key, chunk=[]) for key in ("own", "slow"))
    assert pool._choose_key(at_own, {"own": 9, "untouched": 9, "slow": 1}) == "slow"
    assert pool._choose_key(at_slow, {"own": 9, "slow": 1}) == "slow"
    assert pool._choose_key(at_own, {"own": 9, "untouched": 9}) == "own"  # none is left of them


def test_what_goes_wrong_elsewhere_ends_the_results_and_the_workers(tmp_path):
    pool = JobPool(partial(build, tmp_path), partial(work, tmp_path), workers=2)
    pool.add(0, "a", 3)
    results = pool.results()
    pid = next(results)[1][3]  # type: ignore[index]
    pool.end(InputError("planted"))
    with pytest.raises(InputError, match="planted"):
        next(results)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    for number in range(100_000):  # whoever comes too late neither fails nor waits for a full pipe
        pool.give(number, None)


def test_no_jobs_start_no_worker(tmp_path, monkeypatch):
    monkeypatch.setattr(parallel.JobPool, "_start", lambda _: pytest.fail("a worker was started"))
    assert list(run_many(partial(build, tmp_path), partial(work, tmp_path), [], workers=2)) == []


def test_workers_that_cannot_start_are_told_and_not_taken_for_failed_jobs(tmp_path):
    """A script without its guard starts itself again in every worker."""
    script = tmp_path / "unguarded.py"
    script.write_text(
        "from gridveil.core.parallel import run_many\nprint(list(run_many(str, divmod, [(1, 1), (1, 2)], workers=2)))\n"
    )
    ended = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 1 and not ended.stdout
    assert (
        ended.stderr.rstrip()
        .splitlines()[-1]
        .startswith("gridveil.core.errors.InputError: worker processes die as soon")
    )
