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

from gridveil.core.cluster import Cluster, connected, distributed
from gridveil.core.parallel import Failure, StateKeeper, attempt
from gridveil.study.outcome import TaskOutcome
from gridveil.study.trial import PreparedNetwork, Rows, Rules, Task, TrialNetwork, prepare, run_trial

Key = tuple[str, TrialNetwork]
"""A run and a network: what an earlier run could not prepare, a later one tries again."""


@dataclass(frozen=True, eq=False, kw_only=True)
class DaskEngine:
    """The workers behind a scheduler. Made by ``dask_engine``."""

    cluster: Cluster
    name: str = "dask"

    @property
    def workers(self) -> int:
        """How many there are at the start."""
        return self.cluster.workers

    def run(self, rules: Rules, jobs: Sequence[tuple[TrialNetwork, Task]]) -> Rows:
        """Yield (job index, row) as the jobs finish."""
        self.cluster.check(sorted({str(network.entry.path) for network, _ in jobs if network.entry.path}))
        run = secrets.token_hex(4)
        yield from self.cluster.run(_run_task, [(run, rules, network, task) for network, task in jobs])


@contextmanager
def dask_engine(scheduler: str, announce: Callable[[str], None]) -> Iterator[DaskEngine]:
    """Connect to a scheduler, such as tcp://host:8786; ``announce`` receives messages for the user."""
    with connected(scheduler, announce) as cluster:
        yield DaskEngine(cluster=cluster)


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
    return replace(result, worker=f"dask {distributed().get_worker().id[-8:]}")
