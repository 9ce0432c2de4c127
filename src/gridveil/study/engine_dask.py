"""Tasks over the workers of a Dask cluster that is already running: one by one, or in batches on the GPU of each worker.

Workers need the same gridveil and must be able to read the network files under the same paths; no demand is sent to
them. Each keeps the networks compiled that it works on, and does one task or one portion at a time, whatever its number of
threads.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from gridveil.core.choices import BatchEngine
from gridveil.core.cluster import Cluster, ClusterJobs, connected, distributed
from gridveil.core.errors import InputError
from gridveil.core.parallel import Failure, StateKeeper, attempt
from gridveil.solvers.batch.backends import engine_for
from gridveil.study.outcome import TaskOutcome
from gridveil.study.portions import Portion, portions_of, run_portion
from gridveil.study.trial import PreparedNetwork, Rows, Rules, Task, TrialNetwork, prepare, run_trial

PORTION = 250
"""Tasks that a worker takes at once: enough for its GPU, and few enough that no worker is at work long after the others."""
BATCH = "BATCH"
"""Resource of the workers that take portions, where not all do: ``dask worker --resources BATCH=1``."""

Row = TypeVar("Row", TaskOutcome | Failure, TaskOutcome | Failure | None)
Key = tuple[str, TrialNetwork]
"""A run and a network: what an earlier run could not prepare, a later one tries again."""


@dataclass(frozen=True, eq=False, kw_only=True)
class DaskEngine:
    """The workers behind a scheduler. Made by ``dask_engine``."""

    cluster: Cluster
    batches: BatchEngine | None = None
    """What workers run portions with; None for one task at a time."""

    @property
    def name(self) -> str:
        """Name of the engine."""
        return "dask" if self.batches is None else f"dask {self.batches.value}"

    @property
    def workers(self) -> int:
        """How many there are at the start."""
        return self.cluster.workers

    def make_ready(self) -> None:
        """Nothing: workers are there already."""

    def run(self, rules: Rules, jobs: Sequence[tuple[TrialNetwork, Task]]) -> Rows:
        """Yield (job index, row) as the jobs finish."""
        self.cluster.check(sorted({str(network.entry.path) for network, _ in jobs if network.entry.path}))
        run = secrets.token_hex(4)
        if self.batches is None:
            for found in self.cluster.run(_run_task, [(run, rules, network, task) for network, task in jobs]):
                yield [found]
        else:
            yield from self._run_portions(run, rules, jobs, self.batches)

    def _run_portions(
        self, run: str, rules: Rules, jobs: Sequence[tuple[TrialNetwork, Task]], engine: BatchEngine
    ) -> Rows:
        """Portions in batches; what is handed over goes back to the workers as single tasks."""
        portions = portions_of(jobs, PORTION)
        work: ClusterJobs[Portion | int] = ClusterJobs(self.cluster)
        given = [(run, rules, portion, engine) for portion in portions]
        work.add(_run_portion, given, names=portions, resources=self._resources(engine))
        for name, result in work.results():
            if isinstance(name, int):
                yield [(name, result)]
                continue
            rows = [result] * len(name.tasks) if isinstance(result, Failure) else result
            left = [position for position, row in zip(name.positions, rows, strict=True) if row is None]
            work.add(_run_task, [(run, rules, *jobs[position]) for position in left], names=left)
            yield [(p, row) for p, row in zip(name.positions, rows, strict=True) if row is not None]

    def _resources(self, engine: BatchEngine) -> dict[str, int]:
        """What a portion asks of a worker; InputError if one that would take portions has no such engine."""
        found = self.cluster.client.run(_look_at_engine, engine)
        marked = {address: missing for address, (is_marked, missing) in found.items() if is_marked}
        for address, missing in (marked or {address: missing for address, (_, missing) in found.items()}).items():
            if missing:
                raise InputError(f"worker {address}: {missing}")
        return {BATCH: 1} if marked else {}


@contextmanager
def dask_engine(
    scheduler: str, announce: Callable[[str], None], batches: BatchEngine | None = None
) -> Iterator[DaskEngine]:
    """Connect to a scheduler, such as tcp://host:8786; ``announce`` receives messages for the user."""
    with connected(scheduler, announce) as cluster:
        yield DaskEngine(cluster=cluster, batches=batches)


# From here on: what runs in a worker.
_one_at_a_time = (
    threading.Lock()
)  # a compiled problem cannot be solved by two threads at once; batches fill a processor


def _prepare(key: Key) -> PreparedNetwork:
    return prepare(key[1])


_keeper: StateKeeper[Key, PreparedNetwork] = StateKeeper(_prepare)


def _run_task(run: str, rules: Rules, network: TrialNetwork, task: Task) -> TaskOutcome | Failure:
    with _one_at_a_time:
        return _signed(attempt(_keeper, lambda prepared, job: run_trial(rules, prepared, job), (run, network), task))


def _run_portion(
    run: str, rules: Rules, portion: Portion, engine: BatchEngine
) -> list[TaskOutcome | Failure | None] | Failure:
    def work(prepared: PreparedNetwork, tasks: tuple[Task, ...]) -> list[TaskOutcome | Failure | None]:
        rows: dict[int, TaskOutcome | Failure] = {}
        rows.update(run_portion(rules, prepared, tasks, engine, hand_over=lambda place: None))
        return [_signed(rows.get(place)) for place in range(len(tasks))]

    with _one_at_a_time:
        return attempt(_keeper, work, (run, portion.network), portion.tasks)


def _signed(row: Row) -> Row:
    """A row with the name of this worker, if there is one."""
    if isinstance(row, TaskOutcome):
        return replace(row, worker=f"dask {distributed().get_worker().id[-8:]}")
    return row


def _look_at_engine(engine: BatchEngine, dask_worker: Any) -> tuple[bool, str]:
    """Whether this worker is marked as one that takes portions, and what it lacks for them."""
    try:
        engine_for(engine)
        missing = ""
    except InputError as error:
        missing = str(error)
    return BATCH in dask_worker.state.total_resources, missing
