"""Parallel jobs in worker processes that build shared state once and keep it.

A job belongs to a key, such as a network; ``build`` makes the state of a key, such as its compiled problems, and
``work`` does a job with it. A worker stays with a key while that has jobs left. Jobs are sent a few at a time, results come back
one by one. A worker that dies is replaced and its jobs are done again; nothing is lost or done twice over. ``run_many`` takes
all jobs at once; to a ``JobPool`` threads add more while it runs.
"""

from __future__ import annotations

import math
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pickle import PicklingError
from typing import Any, Generic, TypeVar

from gridveil.core.errors import GridveilError, InputError
from gridveil.core.inbox import Inbox
from gridveil.core.worker_start import end_with_parent, module_of, start_worker

Key = TypeVar("Key", bound=Hashable)
State = TypeVar("State")
Job = TypeVar("Job")
Result = TypeVar("Result")

KEPT_STATES = 3  # per worker: more would only fill the memory, since jobs of a key are kept together
MOST_DEATHS = 3  # of workers during one job, before that job is given up
MOST_LOST_STARTS = 10  # of workers in a row that die before they begin a job of a key, before that key is given up
CHUNK_SECONDS = 0.25  # how much work is sent at once
LARGEST_CHUNK = 64
_NO_KEY_YET = object()  # stands for the key of workers that died before they took any job


@dataclass(frozen=True)
class Failure:
    """A job without a result, and the reason: a type name or a deliberate message, never data."""

    reason: str


def failure_of(error: Exception) -> Failure:
    """State the reason without the error's own message, which may contain data, unless it is a gridveil error."""
    return Failure(str(error) if isinstance(error, GridveilError) else f"unexpected {type(error).__name__}")


class StateKeeper(Generic[Key, State]):
    """The states of the last few keys, each built when it is first needed. A build that failed is remembered too."""

    def __init__(self, build: Callable[[Key], State], kept: int = KEPT_STATES) -> None:
        self._build = build
        self._kept = kept
        self._states: OrderedDict[Key, State | Failure] = OrderedDict()

    def get(self, key: Key) -> State | Failure:
        """Return the state of a key, or the error that prevented building it."""
        if key not in self._states:
            while len(self._states) >= self._kept:
                self._states.popitem(last=False)
            try:
                self._states[key] = self._build(key)
            except Exception as error:
                self._states[key] = failure_of(error)
        self._states.move_to_end(key)
        return self._states[key]


def run_many(
    build: Callable[[Key], State],
    work: Callable[[State, Job], Result],
    jobs: Iterable[tuple[Key, Job]],
    *,
    workers: int,
    preload: Sequence[str] = (),
) -> Generator[tuple[int, Result | Failure], None, None]:
    """Run all jobs; yield (position in ``jobs``, result) as they finish.

    ``build`` and ``work`` must be picklable (functions of a module, or partials of such), as must jobs and results. What a
    job raises becomes its Failure. One worker means this process. InputError if worker processes cannot be started.
    ``preload`` names modules that every worker will need, beside those of ``build`` and ``work``.
    """
    pool = JobPool(build, work, workers=workers, preload=preload)
    for index, (key, job) in enumerate(jobs):
        pool.add(index, key, job)
    pool.end()
    return pool.results()


def attempt(
    keeper: StateKeeper[Key, State], work: Callable[[State, Job], Result], key: Key, job: Job
) -> Result | Failure:
    """Run a job with its key's state; any error becomes a Failure."""
    state = keeper.get(key)
    if isinstance(state, Failure):
        return state
    try:
        return work(state, job)
    except Exception as error:
        return failure_of(error)


def _serve(connection: Connection, build: Callable[[Any], Any], work: Callable[[Any, Any], Any]) -> None:
    """Main loop of a worker: report READY, then build the state of each chunk and report start and result of each job."""
    end_with_parent()
    keeper: StateKeeper[Any, Any] = StateKeeper(build)
    with suppress(EOFError, OSError):
        connection.send(None)
        while True:
            key, chunk = connection.recv()
            keeper.get(key)
            for index, job in chunk:
                connection.send((index, None))
                clock = time.perf_counter()
                result = attempt(keeper, work, key, job)
                seconds = time.perf_counter() - clock
                try:
                    connection.send((index, (result, seconds)))
                except (PicklingError, TypeError, AttributeError) as error:  # a result that cannot cross
                    connection.send((index, (failure_of(error), seconds)))


@dataclass(eq=False)
class _Worker:
    process: BaseProcess
    connection: Connection
    key: Any = None
    chunk: deque[int] = field(default_factory=deque)
    ready: bool = False
    running: bool = False
    """Whether the first job of the chunk has begun."""


@dataclass(frozen=True)
class _Added:
    """A job for the workers."""

    index: int
    key: Any
    job: Any
    ahead: bool


@dataclass(frozen=True)
class _Given:
    """A result that was found elsewhere."""

    index: int
    result: Any


@dataclass(frozen=True)
class _NoMore:
    """Nothing more will come, perhaps because of an error."""

    error: BaseException | None


class JobPool(Generic[Key, State, Job, Result]):
    """Worker processes for jobs that any thread may add while results are taken; see ``run_many``.

    One worker means this process: jobs then wait until nothing more can come.
    """

    def __init__(
        self,
        build: Callable[[Key], State],
        work: Callable[[State, Job], Result],
        *,
        workers: int,
        preload: Sequence[str] = (),
        background: bool = False,
    ) -> None:
        """In the ``background`` workers have what threads of this process leave of the cores."""
        self._build, self._work, self._size, self._background = build, work, workers, background
        self._preload = [*dict.fromkeys([module_of(build), module_of(work), *preload])]
        self._inbox: Inbox[_Added | _Given | _NoMore] = Inbox()
        self._ended = False
        self._jobs: dict[int, Job] = {}
        self._waiting: dict[Key, deque[int]] = {}
        self._ahead: set[Key] = set()
        self._deaths: Counter[int] = Counter()
        self._lost_starts: Counter[object] = Counter()
        self._seconds: dict[Key, float] = {}
        self._workers: list[_Worker] = []

    def add(self, index: int, key: Key, job: Job, *, ahead: bool = False) -> None:
        """Leave a job to the workers; its result comes with ``index``. One job ``ahead`` brings all of its key before others."""
        self._inbox.put(_Added(index, key, job, ahead))

    def give(self, index: int, result: Result | Failure) -> None:
        """Let a result that was found elsewhere come with those of the workers."""
        self._inbox.put(_Given(index, result))

    def end(self, error: BaseException | None = None) -> None:
        """Say that nothing more will come; an error is raised where results are taken."""
        self._inbox.put(_NoMore(error))

    def results(self) -> Generator[tuple[int, Result | Failure], None, None]:
        """Yield (index, result) until nothing more can come; whoever leaves earlier leaves no process behind."""
        with closing(self.gathered()) as gathered:
            for found in gathered:
                yield from found

    def gathered(self) -> Generator[list[tuple[int, Result | Failure]], None, None]:
        """The same, all that has come since the last time together: threads that compute may keep the interpreter busy."""
        try:
            yield from filter(None, self._results_here() if self._size <= 1 else self._results_of_workers())
        finally:
            self._inbox.close()
            for worker in self._workers:
                worker.process.kill()
            for worker in self._workers:
                worker.process.join()
                worker.connection.close()

    def _results_here(self) -> Iterator[list[tuple[int, Result | Failure]]]:
        while not self._ended:
            wait([self._inbox.bell])
            yield self._take()
        keeper = StateKeeper(self._build)
        for key, queue in self._waiting.items():
            for index in queue:
                yield [(index, attempt(keeper, self._work, key, self._jobs.pop(index)))]

    def _results_of_workers(self) -> Iterator[list[tuple[int, Result | Failure]]]:
        while not self._ended or any(self._waiting.values()) or any(worker.chunk for worker in self._workers):
            self._staff()
            connections = [self._inbox.bell, *(worker.connection for worker in self._workers)]
            ready = set(wait([*connections, *(worker.process.sentinel for worker in self._workers)]))
            found = self._take() if self._inbox.bell in ready else []
            # Nobody else is listened to: at every look other threads may take the interpreter, and keep it for a while. Workers
            # of a fork server that has died count as dead: they would be nobody's children.
            for worker in list(self._workers):
                dead = worker.process.sentinel in ready
                if dead or worker.connection in ready:
                    found += self._listen(worker, dead)
            yield found

    def _take(self) -> list[tuple[int, Result | Failure]]:
        """Look into the inbox: new jobs wait, results are passed on."""
        found: list[tuple[int, Result | Failure]] = []
        for thing in self._inbox.take():
            if isinstance(thing, _Added):
                self._jobs[thing.index] = thing.job
                self._waiting.setdefault(thing.key, deque()).append(thing.index)
                self._ahead.update([thing.key] if thing.ahead else [])
            elif isinstance(thing, _Given):
                found.append((thing.index, thing.result))
            elif thing.error is not None:
                raise thing.error
            else:
                self._ended = True
        return found

    def _staff(self) -> None:
        """Start workers while there are jobs for them, and send chunks to idle ones."""
        for worker in list(self._workers):
            if worker.ready and not worker.chunk:
                self._assign(worker)
        starting = sum(not worker.ready for worker in self._workers)
        waiting = sum(map(len, self._waiting.values()))
        for _ in range(min(self._size - len(self._workers), waiting - starting)):
            self._start()

    def _start(self) -> None:
        given = (self._build, self._work)
        process, connection = start_worker(_serve, given, self._preload, background=self._background)
        self._workers.append(_Worker(process, connection))

    def _assign(self, worker: _Worker) -> None:
        left = {key: len(queue) for key, queue in self._waiting.items() if queue}
        if not left:
            return
        key = self._choose_key(worker, left)
        queue = self._waiting[key]
        share = math.ceil(len(queue) / (2 * self._size))  # so that the last jobs are spread over all workers
        fit = int(CHUNK_SECONDS / self._seconds[key]) if self._seconds.get(key) else 1
        size = max(1, min(share, fit, LARGEST_CHUNK))
        worker.key = key
        worker.chunk = deque(queue.popleft() for _ in range(size))
        with suppress(OSError):  # a worker that has died is noticed when it is listened to
            worker.connection.send((key, [(index, self._jobs[index]) for index in worker.chunk]))

    def _choose_key(self, worker: _Worker, left: dict[Key, int]) -> Key:
        """The worker's own key, else the first that nobody works on, else the one whose jobs that are left take longest.

        Keys whose jobs go ahead come before all others.
        """
        own: Key = worker.key
        left = {key: count for key, count in left.items() if key in self._ahead} or left
        if own in left:
            return own
        taken = {other.key for other in self._workers if other.chunk}
        unknown = max(self._seconds.values(), default=1.0)
        seconds = {key: count * self._seconds.get(key, unknown) for key, count in left.items()}
        return next((key for key in left if key not in taken), max(left, key=seconds.__getitem__))

    def _listen(self, worker: _Worker, dead: bool) -> Iterator[tuple[int, Result | Failure]]:
        """Receive a worker's messages, and discard the worker if it was dead before: all that it sent is then there."""
        try:
            while worker.connection.poll():
                message = worker.connection.recv()
                if message is None:
                    worker.ready = True
                    self._lost_starts[_NO_KEY_YET] = 0
                elif message[1] is None:
                    worker.running = True
                    self._lost_starts[worker.key] = 0
                else:
                    yield self._finished(worker, message[0], *message[1])
        except (EOFError, OSError):
            dead = True
        if dead:
            yield from self._discard(worker)

    def _finished(
        self, worker: _Worker, index: int, result: Result | Failure, seconds: float
    ) -> tuple[int, Result | Failure]:
        worker.chunk.popleft()
        del self._jobs[index]
        worker.running = False
        before = self._seconds.get(worker.key, seconds)
        self._seconds[worker.key] = max(seconds, (before + seconds) / 2)  # quick to learn that jobs are long
        return index, result

    def _discard(self, worker: _Worker) -> Iterator[tuple[int, Result | Failure]]:
        """Put a dead worker's jobs back, and give up a job whose workers have died too often."""
        self._workers.remove(worker)
        worker.process.join()
        worker.connection.close()
        if worker.running:
            index = worker.chunk[0]
            self._deaths[index] += 1
            if self._deaths[index] >= MOST_DEATHS:
                worker.chunk.popleft()
                yield index, Failure(f"its worker process died {MOST_DEATHS} times")
        if worker.chunk:
            self._waiting[worker.key].extendleft(reversed(worker.chunk))
        if not worker.running:
            yield from self._lost_start(worker)

    def _lost_start(self, worker: _Worker) -> Iterator[tuple[int, Result | Failure]]:
        """Count a death before a job began, and fail the jobs of a key whose workers keep dying at the start."""
        blamed = worker.key if worker.ready else _NO_KEY_YET
        self._lost_starts[blamed] += 1
        if self._lost_starts[blamed] < MOST_LOST_STARTS:
            return
        if blamed is _NO_KEY_YET:
            raise InputError(
                "worker processes die as soon as they start; a script that uses several needs its "
                "'if __name__ == \"__main__\":', otherwise try a single worker"
            )
        queue = self._waiting[worker.key]
        while queue:
            yield queue.popleft(), Failure(f"{MOST_LOST_STARTS} worker processes died before they could begin it")
