"""Running a study: tasks without a row are computed, and each row is stored as it arrives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gridveil.core.errors import InputError
from gridveil.core.parallel import Failure
from gridveil.core.threads import all_cores
from gridveil.study.store import TaskKey, open_store
from gridveil.study.study_file import NetworkEntry, Study
from gridveil.study.trial import Rows, Rules, Task, TrialNetwork, failed_outcome, inspect_network

Job = tuple[TrialNetwork, Task]
Watch = Callable[[str, int], AbstractContextManager[Callable[[], None]]]
"""Shows progress: given what is done and how many parts it has, a context with a function to call after each part."""


class TaskEngine(Protocol):
    """Executor of tasks: local processes or a cluster."""

    @property
    def name(self) -> str:
        """Name of the engine."""

    @property
    def workers(self) -> int:
        """Number of parallel tasks."""

    def make_ready(self) -> None:
        """Begin with what takes a while and needs no job."""

    def run(self, rules: Rules, jobs: Sequence[Job]) -> Rows:
        """Yield (job index, row) of all jobs that have finished since the last time."""


@dataclass(frozen=True, kw_only=True)
class RunReport:
    """Counts of one run: tasks of the study, tasks already in the store, and tasks computed now."""

    tasks: int
    before: int
    computed: int


@contextmanager
def unwatched(what: str, parts: int) -> Iterator[Callable[[], None]]:
    """Progress display that shows nothing."""
    yield lambda: None


def run_study(
    study: Study, store: Path, engine: TaskEngine, *, retry_failed: bool = False, watch: Watch = unwatched
) -> RunReport:
    """Run missing tasks. A failed task is a row with its reason, and counts as finished unless retried."""
    engine.make_ready()
    networks = [_inspected(entry, study) for entry in study.networks]
    with open_store(store, study) as rows:
        finished = rows.finished(failed_too=not retry_failed)
        jobs = [job for job in expand(study, networks) if task_key(*job) not in finished]
        total = len(networks) * len(study.cells) * len(study.methods) * len(study.seeds)
        if not jobs:
            return RunReport(tasks=total, before=total, computed=0)
        rows.begin_session(workers=engine.workers, engine=engine.name, cores=all_cores())
        rules = Rules(
            sites=study.sites, task_seconds=study.limits.task_seconds, keep=study.keep, fidelity=study.fidelity
        )
        with watch(f"study {study.name}", len(jobs)) as advance, closing(engine.run(rules, jobs)) as results:
            for found in results:
                rows.add(
                    [
                        failed_outcome(*jobs[position], result.reason) if isinstance(result, Failure) else result
                        for position, result in found
                    ]
                )
                for _ in found:
                    advance()
    return RunReport(tasks=total, before=total - len(jobs), computed=len(jobs))


def expand(study: Study, networks: Sequence[TrialNetwork]) -> Iterator[Job]:
    """List all tasks of a study, network by network."""
    for network in networks:
        for cell in study.cells:
            for seed in study.seeds:
                for method in study.methods:
                    yield (
                        network,
                        Task(alpha=cell.alpha, beta=cell.beta, epsilon=study.epsilon, seed=seed, method=method),
                    )


def task_key(network: TrialNetwork, task: Task) -> TaskKey:
    """Primary key of a task's row."""
    return TaskKey(
        network=network.entry.label,
        alpha=task.alpha,
        beta=task.beta,
        epsilon=task.epsilon,
        seed=task.seed,
        method=task.method.value,
        solver=network.solver.value,
    )


def _inspected(entry: NetworkEntry, study: Study) -> TrialNetwork:
    """Read a network before anything runs, so that an unusable one is reported at once."""
    try:
        return inspect_network(entry, study.solver)
    except InputError as error:
        raise InputError(f"network {entry.label}: {error}") from None
