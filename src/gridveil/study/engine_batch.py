"""Tasks of a study in batches: all of a network advance together on a GPU, or a portion of them in native code on each core.

What batches do not make as a whole is left to worker processes, which are at work on it while the batches go on. They also take
networks that a GPU is not worth, a portion at a time, and without a GPU all of them: small ones in portions, large ones, which
a core makes no quicker together, task by task.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec

from gridveil.core.choices import BatchEngine
from gridveil.core.parallel import Failure, JobPool, failure_of
from gridveil.core.worker_start import make_ready
from gridveil.solvers.batch.backends import engine_for
from gridveil.solvers.batch.engine_native import NativeEngine, missing_compiler
from gridveil.solvers.registry import PRELOAD
from gridveil.study.batches import BatchPlan, batches_apart, batches_here
from gridveil.study.outcome import TaskOutcome
from gridveil.study.portions import Portion, portions_of, run_portion
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


@dataclass(frozen=True, kw_only=True)
class BatchTaskEngine:
    """Networks in batches, on a GPU several side by side; worker processes for what is handed over and for small networks.

    One worker means this process, after the batches, which native code makes on all cores. Otherwise a GPU is fed by a process of
    its own: its threads and the one that listens to workers would wait for the same interpreter.
    """

    choice: BatchEngine
    workers: int

    @property
    def name(self) -> str:
        """As in ``--engine``."""
        return self.choice.value

    def make_ready(self) -> None:
        """Let modules be imported while networks are read; InputError if the engine is missing, as far as that is known soon."""
        if not self._on_gpu or find_spec("cupy") is None:  # CuPy takes a second to load, in a process that needs none
            engine_for(self.choice)
        if self.workers > 1:
            make_ready((__name__, *PRELOAD))

    def run(self, rules: Rules, jobs: Sequence[tuple[TrialNetwork, Task]]) -> Rows:
        """Yield (job index, row) as the jobs finish."""
        pool: Pool = JobPool(
            prepare,
            partial(run_tasks, rules),
            workers=self.workers,
            preload=PRELOAD,
            background=self._on_gpu,  # which is idle while its threads wait for a core
        )
        whole = portions_of(jobs)
        large = [portion for portion in whole if not self._is_small(portion)]
        small = [part for portion in whole if self._is_small(portion) for part in portion.parts(self._most(portion))]
        for number, part in enumerate(small):
            pool.add(-1 - number, part.network, part.tasks)  # other jobs have their position for a number
        outlet = _Outlet(jobs=jobs, pool=pool, sources=len(small) + 1)
        side_by_side = SIDE_BY_SIDE if self._on_gpu else 1  # native batches fill all cores by themselves
        given = BatchPlan(rules=rules, choice=self.choice, portions=tuple(large), side_by_side=side_by_side)
        with batches_apart(given, outlet) if self._apart and large else batches_here(given, outlet):
            for results in pool.gathered():
                rows = [(number, _row_of(found)) for number, found in results if number >= 0]
                for number, portioned in results:
                    rows += outlet.take_portion(small[-1 - number], portioned) if number < 0 else []
                if rows:
                    yield rows

    @property
    def _on_gpu(self) -> bool:
        return self.choice is BatchEngine.GPU

    @property
    def _apart(self) -> bool:
        return self._on_gpu and self.workers > 1

    def _is_small(self, portion: Portion) -> bool:
        """Whether worker processes are quicker with a network than batches."""
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
class _Outlet:
    """Where batches and portions leave rows and what they hand over: a pool, which ends with the last of them."""

    jobs: Sequence[tuple[TrialNetwork, Task]]
    pool: Pool
    sources: int
    """Batches and portions that have not ended."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def tell(self, position: int, row: TaskOutcome | Failure | None) -> None:
        """A row of batches, or a task that they hand over."""
        if row is not None:
            self.pool.give(position, (row,))
            return
        # Long jobs that come one by one: were they to wait for those of small networks, all would wait for them in the end.
        network, task = self.jobs[position]
        self.pool.add(position, network, (task,), ahead=True)

    def take_portion(self, portion: Portion, found: Portioned | Failure) -> list[tuple[int, TaskOutcome | Failure]]:
        """The rows of a portion that a worker had; what is left over is for any worker, task by task."""
        made = []
        rows = (None,) * len(portion.tasks) if isinstance(found, Failure) else found
        for position, task, row in zip(portion.positions, portion.tasks, rows, strict=True):
            if row is None:
                self.pool.add(position, portion.network, (task,))
            else:
                made.append((position, row))
        self.end()
        return made

    def end(self, error: BaseException | None = None) -> None:
        """Of a source; the last says that nothing more will come."""
        with self._lock:
            self.sources -= 1
            if error is not None or not self.sources:
                self.pool.end(error)
