"""Tasks over the workers of a Dask cluster that is already running.

Workers need the same gridveil and must be able to read the network files under the same paths; no demand is sent to
them. Each keeps the networks compiled that it works on, and does one task at a time, whatever its number of threads.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from gridveil import __version__
from gridveil.core.errors import InputError
from gridveil.core.extras import optional_package
from gridveil.core.parallel import Failure, StateKeeper, attempt, failure_of
from gridveil.study.outcome import TaskOutcome
from gridveil.study.trial import PreparedNetwork, Rows, Rules, Task, TrialNetwork, prepare, run_trial

CONNECT_SECONDS = 20

Key = tuple[str, TrialNetwork]
"""A run and a network: what an earlier run could not prepare, a later one tries again."""


@dataclass(frozen=True, eq=False, kw_only=True)
class DaskEngine:
    """The workers behind a scheduler; those that join later work too. Made by ``dask_engine``."""

    client: Any
    """A ``distributed.Client``."""
    scheduler: str
    workers: int
    """How many there are at the start."""
    name: str = "dask"

    def run(self, rules: Rules, jobs: Sequence[tuple[TrialNetwork, Task]]) -> Rows:
        """Yield (job index, row) as the jobs finish. The tasks of a worker that dies go to the others."""
        _check_workers(self.client, sorted({str(network.entry.path) for network, _ in jobs if network.entry.path}))
        run = secrets.token_hex(4)
        futures = self.client.map(
            _run_task, [run] * len(jobs), [rules] * len(jobs), *zip(*jobs, strict=True), pure=False
        )
        positions = {future.key: position for position, future in enumerate(futures)}
        try:
            finished = _distributed().as_completed(
                futures, loop=self.client.loop, with_results=True, raise_errors=False
            )
            for future, result in finished:
                yield positions[future.key], self._row(future.status, result)
                future.release()
        finally:
            self.client.cancel(futures)

    def _row(self, status: str, result: Any) -> TaskOutcome | Failure:
        if isinstance(result, TaskOutcome | Failure):
            return result
        if status != "error":
            raise InputError(
                f"the Dask scheduler at {self.scheduler} is gone or has dropped the tasks; start it and run again"
            )
        killed = isinstance(result[1], _distributed().KilledWorker)
        return Failure("its worker died again and again") if killed else failure_of(result[1])


@contextmanager
def dask_engine(scheduler: str, announce: Callable[[str], None]) -> Iterator[DaskEngine]:
    """Connect to a scheduler, such as tcp://host:8786; ``announce`` receives messages for the user."""
    try:
        client = _distributed().Client(scheduler, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError):
        raise InputError(
            f"no Dask scheduler answers at {scheduler}; give --scheduler its address, such as tcp://host:8786"
        ) from None
    with client:
        workers = len(client.nthreads())
        if workers == 0:
            announce(f"the scheduler at {scheduler} has no workers yet; waiting for them")
        yield DaskEngine(client=client, scheduler=scheduler, workers=workers)


def _distributed() -> ModuleType:
    """The package, loaded when it is first needed; it is not typed."""
    return optional_package("distributed")


def _check_workers(client: Any, paths: list[str]) -> None:
    """Refuse to begin where a worker has another gridveil or cannot read a network."""
    for address, found in client.run(_look, paths, on_error="return").items():
        if isinstance(found, Exception):
            raise InputError(f"worker {address} cannot use gridveil; install gridveil {__version__} there")
        version, unreadable = found
        if version != __version__:
            raise InputError(f"worker {address} has gridveil {version}; install {__version__}, as here")
        if unreadable:
            raise InputError(
                f"worker {address} cannot read {unreadable[0]}; put the networks on a folder that all share"
            )


def _look(paths: list[str]) -> tuple[str, list[str]]:
    return __version__, [path for path in paths if not Path(path).exists()]


# From here on: what runs in a worker.
_one_at_a_time = threading.Lock()  # a compiled problem cannot be solved by two threads at once


def _prepare(key: Key) -> PreparedNetwork:
    return prepare(key[1])


_keeper: StateKeeper[Key, PreparedNetwork] = StateKeeper(_prepare)


def _run_task(run: str, rules: Rules, network: TrialNetwork, task: Task) -> TaskOutcome | Failure:
    with _one_at_a_time:
        result = attempt(_keeper, lambda prepared, job: run_trial(rules, prepared, job), (run, network), task)
    if isinstance(result, Failure):
        return result
    return replace(result, worker=f"dask {_distributed().get_worker().id[-8:]}")
