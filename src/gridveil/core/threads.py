"""Two pieces of work at once, in one process: worth it where both spend their time in compiled code that holds no lock.

And a lock for threads that do not work at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextvars import copy_context
from threading import Condition, Thread
from typing import Generic, TypeVar

First = TypeVar("First")
Second = TypeVar("Second")
Found = TypeVar("Found")


class Ahead(Generic[Found]):
    """Work begun in a thread of its own, under the caller's time limit, before its answer is asked for.

    A program that ends does not wait for it.
    """

    def __init__(self, work: Callable[[], Found]) -> None:
        self._answers: list[Found] = []
        self._errors: list[BaseException] = []
        context = copy_context()

        def run() -> None:
            try:
                self._answers.append(context.run(work))
            except BaseException as error:
                self._errors.append(error)

        self._thread = Thread(target=run, daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Wait until it has ended, in whatever way."""
        self._thread.join()

    def answer(self) -> Found:
        """Wait for the answer; what the work raised is raised here."""
        self.wait()
        if self._errors:
            raise self._errors[0]
        return self._answers[0]


def side_by_side(first: Callable[[], First], second: Callable[[], Second]) -> tuple[First, Second]:
    """Do both, the first in a thread of its own under the caller's time limit; what either raises is raised when both ended.

    Neither may work on what must not depend on the truth while the other works on the truth: they share processor time.
    """
    begun = Ahead(first)
    try:
        found = second()
    finally:
        begun.wait()
    return begun.answer(), found


class Turns:
    """A lock that threads get in the order in which they ask; a threading.Lock mostly goes to whoever has just let it go."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._asked = self._ended = 0

    def __enter__(self) -> None:
        with self._changed:
            mine = self._asked
            self._asked += 1
            while self._ended != mine:
                self._changed.wait()

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._ended += 1
            self._changed.notify_all()

    def locked(self) -> bool:
        """Whether a thread has it, or waits for it."""
        return self._asked > self._ended


def all_cores() -> int:
    """Number of cores available to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
