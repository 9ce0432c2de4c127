"""Small studies, runners as processes of their own, and rows without what may differ from run to run."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pandas as pd

from gridveil.bilevel.together.releases import TogetherReleases
from gridveil.core.errors import InputError
from gridveil.study.outcome import TaskOutcome
from gridveil.study.runner import Job, TaskEngine, expand
from gridveil.study.store import read_outcomes, summarise
from gridveil.study.study_file import Study
from gridveil.study.trial import Rules, inspect_network

MAIN = """
import sys
from gridveil.cli.study_commands import study_app
from gridveil.core.errors import GridveilError
try:
    study_app()
except GridveilError as error:
    sys.stderr.write(f"gridveil: {error}\\n")
    sys.exit(error.exit_code)
"""
PASSING = ["seconds", "true_seconds", "finished", "worker"]

_asked_together: list[int] = []

STUDY = """
name = "{name}"
epsilon = 1.0
methods = {methods}
seeds = {seeds}
sites = "positive"

[[grid]]
alpha = {alpha}
beta = {beta}

{networks}
"""


def write_study(path: Path, *, networks=("veil2", "veil9"), more: str = "", **settings: object) -> Path:
    """Write a study file; settings are put in as TOML values."""
    values = {
        "name": "tiny",
        "methods": ["bisection", "auto"],
        "seeds": 3,
        "alpha": ["0.1pu"],
        "beta": ["1%"],
    } | settings
    text = {key: value if key == "name" else json.dumps(value) for key, value in values.items()}
    listed = "\n".join(f'[[network]]\ncase = "{case}"' for case in networks)
    path.write_text(STUDY.format(networks=f"{listed}\n{more}", **text))
    return path


def hand_over_every_second() -> None:
    """Let batches hand over every second release, from now on in this process."""
    answer = TogetherReleases.answer

    def answered(self, asked, give):
        _asked_together.append(len(asked))
        return answer(self, asked, lambda place, result: give(place, result if place % 2 else None))

    TogetherReleases.answer = answered  # type: ignore[method-assign]


def asked_together() -> int:
    """How many releases batches were asked for in this process, since they hand over every second."""
    return sum(_asked_together)


def comparable(frame: pd.DataFrame) -> pd.DataFrame:
    """Drop what differs from run to run: times, and who did it."""

    def untimed(history: str) -> str:
        return json.dumps([{k: v for k, v in step.items() if k != "seconds"} for step in json.loads(history)])

    return frame.drop(columns=PASSING).assign(history=frame["history"].map(untimed))


def assert_same_rows(store: Path, other: Path) -> None:
    """Fail unless two stores hold the same rows, bit for bit, but for times and workers."""
    pd.testing.assert_frame_equal(comparable(read_outcomes(store)), comparable(read_outcomes(other)), check_exact=True)


def jobs_of(study: Study) -> tuple[Rules, list[Job]]:
    """All jobs of a study, and the rules they run by."""
    networks = [inspect_network(entry, study.solver) for entry in study.networks]
    return Rules(sites=study.sites, task_seconds=None), list(expand(study, networks))


def rows_of(study: Study, engine: TaskEngine) -> list[TaskOutcome]:
    """Rows in the order of the jobs; fails unless each comes exactly once, and under its own position."""
    rules, jobs = jobs_of(study)
    found = [one for together in engine.run(rules, jobs) for one in together]
    assert sorted(position for position, _ in found) == list(range(len(jobs)))
    rows = [row for _, row in sorted(found, key=lambda one: one[0])]
    for row, (network, task) in zip(rows, jobs, strict=True):
        assert isinstance(row, TaskOutcome)
        assert (row.network, row.method, row.seed) == (network.entry.label, task.method.value, task.seed)
    return rows


def start_runner(*arguments: object) -> subprocess.Popen[str]:
    """Start ``gridveil study`` in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", MAIN, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def children_of(process: int) -> list[int]:
    """Give the children of a process (Linux)."""
    try:
        return [int(pid) for pid in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def server_pids(runner: int) -> list[int]:
    """Give the process from which a runner forks its workers."""
    found = []
    for pid in children_of(runner):
        with suppress(FileNotFoundError, ProcessLookupError):
            found += [pid] if b"forkserver" in Path(f"/proc/{pid}/cmdline").read_bytes() else []
    return found


def worker_pids(runner: int) -> list[int]:
    """Give the worker processes of a runner."""
    return [worker for server in server_pids(runner) for worker in children_of(server)]


def kill(pid: int) -> None:
    """SIGKILL, unless the process is gone already."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def rows_in(store: Path) -> int:
    """Count the rows of a store that a runner may be writing just now, or not have made yet."""
    try:
        return summarise(store).done
    except InputError:
        return 0


def wait_for_rows(runner: subprocess.Popen[str], store: Path, rows: int) -> None:
    """Wait until a store has this many rows; fails if the runner ends before."""
    while rows_in(store) < rows:
        assert runner.poll() is None, f"the study ended early: {runner.communicate()[1]}"
        time.sleep(0.01)


def wait_until_gone(pids: list[int], seconds: float = 60.0) -> None:
    """Fail if one of the processes still lives after a while."""
    end = time.monotonic() + seconds
    while alive := [pid for pid in pids if _is_alive(pid)]:
        assert time.monotonic() < end, f"processes {alive} outlived their runner"
        time.sleep(0.02)


def _is_alive(pid: int) -> bool:
    try:
        return ") Z" not in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def run_with_kills(study: Path, store: Path, victims: list[str], rng: random.Random, *, most_rows: int) -> list[str]:
    """Run a study to its end although "runner", "worker" or "server" are killed, each some rows or moments after the last.

    Gives what was killed when. The study must have more than ``most_rows`` rows per victim.
    """
    arguments = ("run", study, "--store", store, "--workers", 2, "--quiet")
    log: list[str] = []
    runner = start_runner(*arguments)
    for victim in victims:
        early = rng.random() < 0.25  # at once, so that starting and compiling are hit too
        if not early:
            wait_for_rows(runner, store, rows_in(store) + rng.randint(1, most_rows))
        time.sleep(rng.uniform(0.0, 1.5 if early else 0.05))
        workers = worker_pids(runner.pid)
        while victim != "runner" and not workers:
            assert runner.poll() is None, "the study ended early"
            time.sleep(0.01)
            workers = worker_pids(runner.pid)
        servers = server_pids(runner.pid)
        log.append(f"{victim} killed at {rows_in(store)} rows, {len(workers)} workers alive")
        if victim == "runner":
            kill(runner.pid)
            runner.communicate()
            wait_until_gone([*servers, *workers])
            runner = start_runner(*arguments)
        elif victim == "server":
            for server in servers:
                kill(server)
            wait_until_gone(workers)
        else:
            kill(rng.choice(workers))
    out, err = runner.communicate()
    assert runner.returncode == 0, f"the runner ended with {runner.returncode}: {out} {err}"
    return log
