"""Jobs over the workers of a Dask cluster that is already running; those that join later work too."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar

from gridveil import __version__
from gridveil.core.errors import InputError
from gridveil.core.extras import optional_package
from gridveil.core.parallel import Failure, failure_of

CONNECT_SECONDS = 20

Result = TypeVar("Result")
Name = TypeVar("Name")


@dataclass(frozen=True, eq=False, kw_only=True)
class Cluster:
    """The workers behind a scheduler. Made by ``connected``."""

    client: Any
    """A ``distributed.Client``."""
    scheduler: str
    workers: int
    """How many there are at the start."""

    def check(self, paths: Sequence[str]) -> None:
        """Refuse to begin where a worker has another gridveil or does not see a path."""
        for address, found in self.client.run(_look, list(paths), on_error="return").items():
            if isinstance(found, Exception):
                raise InputError(f"worker {address} cannot use gridveil; install gridveil {__version__} there")
            version, unreadable = found
            if version != __version__:
                raise InputError(f"worker {address} has gridveil {version}; install {__version__}, as here")
            if unreadable:
                raise InputError(
                    f"worker {address} cannot read {unreadable[0]}; put the networks on a folder that all share"
                )

    def run(
        self, work: Callable[..., Result | Failure], jobs: Sequence[tuple[Any, ...]]
    ) -> Iterator[tuple[int, Result | Failure]]:
        """Call ``work`` with each job; yield (position, result) as they finish. Jobs of a worker that dies go to the others."""
        submitted: ClusterJobs[int] = ClusterJobs(self)
        submitted.add(work, jobs, names=range(len(jobs)))
        yield from submitted.results()


class ClusterJobs(Generic[Name]):
    """Jobs of a cluster, each with a name of the caller's; more may be added between two results."""

    def __init__(self, cluster: Cluster) -> None:
        self._client, self._scheduler = cluster.client, cluster.scheduler
        self._submitted: dict[str, tuple[Any, Name]] = {}
        self._finished = distributed().as_completed(loop=cluster.client.loop, with_results=True, raise_errors=False)

    def add(
        self,
        work: Callable[..., Any],
        jobs: Sequence[tuple[Any, ...]],
        *,
        names: Sequence[Name],
        resources: dict[str, int] | None = None,
    ) -> None:
        """Call ``work`` with each job, on workers that have the resources."""
        if jobs:
            futures = self._client.map(work, *zip(*jobs, strict=True), pure=False, resources=resources)
            self._submitted |= {future.key: (future, name) for future, name in zip(futures, names, strict=True)}
            self._finished.update(futures)

    def results(self) -> Iterator[tuple[Name, Any]]:
        """Yield (name, result) as jobs finish; those of a worker that dies go to the others."""
        try:
            for future, result in self._finished:
                _, name = self._submitted.pop(future.key)
                status = future.status
                future.release()
                yield name, self._result(status, result)
        finally:
            self._client.cancel([future for future, _ in self._submitted.values()])

    def _result(self, status: str, result: Any) -> Any:
        if status == "finished":
            return result
        if status != "error":
            raise InputError(
                f"the Dask scheduler at {self._scheduler} is gone or has dropped the tasks; start it and run again"
            )
        killed = isinstance(result[1], distributed().KilledWorker)
        return Failure("its worker died again and again") if killed else failure_of(result[1])


@contextmanager
def connected(scheduler: str, announce: Callable[[str], None]) -> Iterator[Cluster]:
    """Connect to a scheduler, such as tcp://host:8786; ``announce`` receives messages for the user."""
    try:
        distributed().comm.resolve_address(scheduler)  # a client that fails at an address cannot be closed again
        client = distributed().Client(scheduler, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError):
        raise InputError(
            f"no Dask scheduler answers at {scheduler}; give --scheduler its address, such as tcp://host:8786"
        ) from None
    with client:
        workers = len(client.nthreads())
        if workers == 0:
            announce(f"the scheduler at {scheduler} has no workers yet; waiting for them")
        yield Cluster(client=client, scheduler=scheduler, workers=workers)


def distributed() -> ModuleType:
    """The package, loaded when it is first needed; it is not typed."""
    return optional_package("distributed")


def _look(paths: list[str]) -> tuple[str, list[str]]:
    return __version__, [path for path in paths if not Path(path).exists()]
