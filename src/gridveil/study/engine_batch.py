"""Tasks of a study in batches: all of a network advance together on a GPU, or a portion of them in native code on each core.

What batches do not make as a whole is left to worker processes, which are at work on it while the batches go on. They also take
networks that a GPU is not worth, a portion at a time, and without a GPU all of them: small ones in portions, large ones, which
a core makes no quicker together, task by task.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import partial

from gridveil.bilevel.bulk import ALONE, run_all
from gridveil.core.choices import BatchEngine
from gridveil.core.deadline import stoppable
from gridveil.core.parallel import Failure, JobPool, failure_of
from gridveil.solvers.backend import Backend
from gridveil.solvers.batch.backends import engine_for
from gridveil.solvers.batch.engine import Engine
from gridveil.solvers.batch.engine_native import NativeEngine, missing_compiler
from gridveil.solvers.registry import PRELOAD
from gridveil.study.outcome import TaskOutcome
from gridveil.study.trial import PreparedNetwork, Rows, Rules, Task, TrialNetwork, prepare, run_trial

SIDE_BY_SIDE = 4
"""Networks at work on a GPU at the same time: kernels of a few hundred rows leave most of it idle. More would only wait for
the interpreter lock, which they share."""
GPU_WORTH = 100_000
"""Buses, of all tasks of a network, from which on a GPU is quicker than worker processes."""
PORTION = 50
"""Tasks of a network that a worker process takes at once, to make them together in native code."""
TOGETHER_TO = 500
"""Buses up to which a core makes releases quicker together than one after the other."""


@dataclass(frozen=True, kw_only=True)
class Portion:
    """Tasks of one network that advance together, and their positions among all jobs."""

    network: TrialNetwork
    tasks: tuple[Task, ...]
    positions: tuple[int, ...]

    @property
    def buses(self) -> int:
        """Of all tasks."""
        return len(self.tasks) * self.network.buses

    def parts(self, most: int) -> list[Portion]:
        """The same in parts of so many tasks."""
        return [
            replace(self, tasks=self.tasks[begin : begin + most], positions=self.positions[begin : begin + most])
            for begin in range(0, len(self.tasks), most)
        ]


def portions_of(jobs: Sequence[tuple[TrialNetwork, Task]], most: int | None = None) -> list[Portion]:
    """The tasks of each network, ``most`` at a time; large networks first, as what they leave over takes longest."""
    by_network: dict[TrialNetwork, list[int]] = {}
    for position, (network, _) in enumerate(jobs):
        by_network.setdefault(network, []).append(position)
    found = []
    for network, positions in sorted(by_network.items(), key=lambda item: -item[0].buses):
        whole = Portion(
            network=network, tasks=tuple(jobs[position][1] for position in positions), positions=tuple(positions)
        )
        found += whole.parts(most or len(positions))
    return found


def run_portion(
    rules: Rules,
    prepared: PreparedNetwork,
    tasks: Sequence[Task],
    choice: BatchEngine | Engine,
    hand_over: Callable[[int], None],
) -> Iterator[tuple[int, TaskOutcome | Failure]]:
    """Yield (position among the tasks, row); a task to be run by itself is handed over instead, by its position."""
    work = [partial(_trial, rules, prepared, task) for task in tasks]
    for position, outcome in run_all(work, prepared.backend, prepared.model, choice, hand_over=hand_over):
        yield position, outcome.result or failure_of(outcome.error or RuntimeError())


def run_tasks(
    rules: Rules, prepared: PreparedNetwork, tasks: tuple[Task, ...]
) -> tuple[TaskOutcome | Failure | None, ...]:
    """Tasks in a worker process: several advance together, in native code on its one core; None for what that leaves over."""
    if len(tasks) == 1 or missing_compiler() is not None:
        return tuple(_alone(rules, prepared, task) for task in tasks)
    rows = dict(run_portion(rules, prepared, tasks, NativeEngine(threads=1), lambda place: None))
    return tuple(rows.get(place) for place in range(len(tasks)))


def _alone(rules: Rules, prepared: PreparedNetwork, task: Task) -> TaskOutcome | Failure:
    try:
        return run_trial(rules, prepared, task)
    except Exception as error:
        return failure_of(error)


def _trial(rules: Rules, prepared: PreparedNetwork, task: Task, backend: Backend) -> TaskOutcome:
    return run_trial(rules, replace(prepared, backend=backend), task)


@dataclass(frozen=True, kw_only=True)
class BatchTaskEngine:
    """Networks in batches, on a GPU several side by side; worker processes for what is handed over and for small networks.

    One worker means this process, after the batches, which native code makes on all cores.
    """

    choice: BatchEngine
    workers: int

    @property
    def name(self) -> str:
        """As in ``--engine``."""
        return self.choice.value

    def run(self, rules: Rules, jobs: Sequence[tuple[TrialNetwork, Task]]) -> Rows:
        """Yield (job index, row) as the jobs finish."""
        pool: Pool = JobPool(prepare, partial(run_tasks, rules), workers=self.workers, preload=PRELOAD)
        whole = portions_of(jobs)
        large = [portion for portion in whole if not self._is_small(portion)]
        small = [part for portion in whole if self._is_small(portion) for part in portion.parts(self._most(portion))]
        for number, part in enumerate(small):
            pool.add(-1 - number, part.network, part.tasks)  # other jobs have their position for a number
        batches = _Batches(rules=rules, choice=self.choice, pool=pool, waiting=deque(large), portions=len(small))
        try:
            batches.begin(SIDE_BY_SIDE if self._on_gpu else 1)  # native batches fill all cores by themselves
            for results in pool.gathered():
                rows = [(number, _row_of(found)) for number, found in results if number >= 0]
                for number, portioned in results:
                    rows += batches.take_portion(small[-1 - number], portioned) if number < 0 else []
                if rows:
                    yield rows
        finally:
            batches.stop.set()

    @property
    def _on_gpu(self) -> bool:
        return self.choice is BatchEngine.GPU

    def _is_small(self, portion: Portion) -> bool:
        """Whether worker processes are quicker with a network than batches in this one."""
        return self.workers > 1 and (not self._on_gpu or portion.buses < GPU_WORTH)

    def _most(self, portion: Portion) -> int:
        """Tasks of a network that a worker takes at once."""
        return PORTION if self._on_gpu or portion.network.buses <= TOGETHER_TO else 1


Portioned = tuple[TaskOutcome | Failure | None, ...]
"""Rows of a portion; None for what is left over."""
Pool = JobPool[TrialNetwork, PreparedNetwork, tuple[Task, ...], Portioned]


def _row_of(found: Portioned | Failure) -> TaskOutcome | Failure:
    """Of a task by itself."""
    row = found[0] if isinstance(found, tuple) else found
    if row is None:
        raise RuntimeError("a task by itself was left over")
    return row


@dataclass(eq=False, kw_only=True)
class _Batches:
    """Networks that threads take one after the other; rows and what is handed over go to a pool."""

    rules: Rules
    choice: BatchEngine
    pool: Pool
    waiting: deque[Portion]
    portions: int
    """Of small networks, which worker processes have."""
    stop: threading.Event = field(default_factory=threading.Event)
    """Set when nobody waits for rows any more."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _at_work: int = 0

    def begin(self, threads: int) -> None:
        """Begin with the first networks."""
        threads = max(1, min(threads, len(self.waiting)))
        self._at_work = threads + self.portions
        for _ in range(threads):
            threading.Thread(target=copy_context().run, args=(self._work,), daemon=True).start()

    def take_portion(self, portion: Portion, found: Portioned | Failure) -> list[tuple[int, TaskOutcome | Failure]]:
        """The rows of a portion that a worker had; what is left over is for any worker, task by task."""
        made = []
        rows = (None,) * len(portion.tasks) if isinstance(found, Failure) else found
        for position, task, row in zip(portion.positions, portion.tasks, rows, strict=True):
            if row is None:
                self.pool.add(position, portion.network, (task,))
            else:
                made.append((position, row))
        self._end_one()
        return made

    def _work(self) -> None:
        """Take networks until none is left."""
        try:
            engine_for(self.choice)  # what it lacks is said before any network is read
            with stoppable(self.stop):
                while (portion := self._next()) is not None:
                    self._run(portion)
        except BaseException as error:
            self.pool.end(error)
            return
        self._end_one()

    def _end_one(self) -> None:
        """Of threads and portions; the last says that nothing more will come."""
        with self._lock:
            self._at_work -= 1
            if not self._at_work:
                self.pool.end()

    def _next(self) -> Portion | None:
        with self._lock:
            return self.waiting.popleft() if self.waiting and not self.stop.is_set() else None

    def _run(self, portion: Portion) -> None:
        try:
            with ALONE:
                prepared = prepare(portion.network)
        except Exception as error:
            for position in portion.positions:
                self.pool.give(position, (failure_of(error),))
            return

        def hand_over(place: int) -> None:
            # Long jobs that come one by one: were they to wait for those of small networks, all would wait for them in the end.
            self.pool.add(portion.positions[place], portion.network, (portion.tasks[place],), ahead=True)

        for place, row in run_portion(self.rules, prepared, portion.tasks, self.choice, hand_over):
            if self.stop.is_set():
                return
            self.pool.give(portion.positions[place], (row,))
