"""Networks whose tasks are made in batches, several side by side: in threads of this process, or of one that does nothing else."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Protocol

from gridveil.bilevel.bulk import ALONE
from gridveil.core.choices import BatchEngine
from gridveil.core.deadline import stoppable
from gridveil.core.errors import GridveilError
from gridveil.core.parallel import Failure, failure_of
from gridveil.core.worker_start import end_with_parent, start_worker
from gridveil.solvers.batch.backends import engine_for
from gridveil.solvers.registry import PRELOAD
from gridveil.study.outcome import TaskOutcome
from gridveil.study.portions import Portion, run_portion
from gridveil.study.trial import Rules, prepare

TURN = 1e-4
"""Seconds until a thread that waits for the interpreter gets it, in a process that feeds a GPU."""


class Outlet(Protocol):
    """Where batches leave what they come to; from any thread."""

    def tell(self, position: int, row: TaskOutcome | Failure | None) -> None:
        """The row of a task; None for one that is handed over."""
        ...

    def end(self, error: BaseException | None = None) -> None:
        """Nothing more will come, perhaps because of an error."""
        ...


@dataclass(frozen=True, kw_only=True)
class BatchPlan:
    """What is to be made in batches."""

    rules: Rules
    choice: BatchEngine
    portions: tuple[Portion, ...]
    """A network each, in the order in which they begin."""
    side_by_side: int
    """Networks at work at the same time."""


@contextmanager
def batches_here(given: BatchPlan, outlet: Outlet) -> Iterator[None]:
    """While threads of this process make batches; at the end they stop, if they are still at it."""
    threads = _Threads(given, outlet)
    threads.begin()
    try:
        yield
    finally:
        threads.stop.set()


@contextmanager
def batches_apart(given: BatchPlan, outlet: Outlet) -> Iterator[None]:
    """The same in a process of their own."""
    process, connection = start_worker(_serve, (given,), PRELOAD)
    threading.Thread(target=_pass_on, args=(connection, outlet), daemon=True).start()
    try:
        yield
    finally:
        process.kill()
        process.join()


def _serve(connection: Connection, given: BatchPlan) -> None:
    """Main loop of that process: it sends what it comes to, and at last an error or None."""
    end_with_parent()
    sys.setswitchinterval(TURN)
    sender = _Sender(connection)
    _Threads(given, sender).begin()
    sender.ended.wait()


def _pass_on(connection: Connection, outlet: Outlet) -> None:
    """What that process sends."""
    try:
        while True:
            position, said = connection.recv()
            if position is None:
                outlet.end(said)
                return
            outlet.tell(position, said)
    except (EOFError, OSError):
        outlet.end(GridveilError("the process of the batches has died; what is finished is safe, so run this again"))
    finally:
        connection.close()


class _Sender:
    """An outlet to another process."""

    def __init__(self, connection: Connection) -> None:
        self._connection, self._lock = connection, threading.Lock()
        self.ended = threading.Event()

    def tell(self, position: int, row: TaskOutcome | Failure | None) -> None:
        self._send(position, row)

    def end(self, error: BaseException | None = None) -> None:
        """An error that is not gridveil's own is sent by its name: it may hold data, or not bear to be sent."""
        if isinstance(error, Exception) and not isinstance(error, GridveilError):
            error = RuntimeError(failure_of(error).reason)
        self._send(None, error)
        self.ended.set()

    def _send(self, position: int | None, said: TaskOutcome | Failure | BaseException | None) -> None:
        with self._lock, suppress(OSError):  # nobody listens any more
            self._connection.send((position, said))


class _Threads:
    """Threads that take networks one after the other, until none is left."""

    def __init__(self, given: BatchPlan, outlet: Outlet) -> None:
        self._given, self._outlet = given, outlet
        self._waiting, self._lock = iter(given.portions), threading.Lock()
        self._at_work = max(1, min(given.side_by_side, len(given.portions)))
        self.stop = threading.Event()
        """Set when nobody waits for rows any more."""

    def begin(self) -> None:
        """Begin with the first networks."""
        for _ in range(self._at_work):
            threading.Thread(target=copy_context().run, args=(self._work,), daemon=True).start()

    def _work(self) -> None:
        try:
            engine_for(self._given.choice)  # what it lacks is said before any network is read
            with stoppable(self.stop):
                while (portion := self._next()) is not None:
                    self._run(portion)
        except BaseException as error:
            self._outlet.end(error)
            return
        with self._lock:
            self._at_work -= 1
            if not self._at_work:
                self._outlet.end()

    def _next(self) -> Portion | None:
        with self._lock:
            return None if self.stop.is_set() else next(self._waiting, None)

    def _run(self, portion: Portion) -> None:
        outlet = self._outlet
        try:
            with ALONE:
                prepared = prepare(portion.network)
        except Exception as error:
            for position in portion.positions:
                outlet.tell(position, failure_of(error))
            return

        def hand_over(place: int) -> None:
            outlet.tell(portion.positions[place], None)

        for place, row in run_portion(self._given.rules, prepared, portion.tasks, self._given.choice, hand_over):
            if self.stop.is_set():
                return
            outlet.tell(portion.positions[place], row)
