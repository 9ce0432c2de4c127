"""Two pieces of work at once, in one process: worth it where both spend their time in compiled code that holds no lock."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from threading import Thread
from typing import TypeVar

First = TypeVar("First")
Second = TypeVar("Second")


def side_by_side(first: Callable[[], First], second: Callable[[], Second]) -> tuple[First, Second]:
    """Do both, the first in a thread of its own under the caller's time limit; what either raises is raised when both ended.

    Neither may work on what must not depend on the truth while the other works on the truth: they share processor time.
    """
    answers: list[First] = []
    errors: list[BaseException] = []
    context = copy_context()

    def work() -> None:
        try:
            answers.append(context.run(first))
        except BaseException as error:
            errors.append(error)

    thread = Thread(target=work)
    thread.start()
    try:
        found = second()
    finally:
        thread.join()
    if errors:
        raise errors[0]
    return answers[0], found


def in_turn(first: Callable[[], First], second: Callable[[], Second]) -> tuple[First, Second]:
    """Do one after the other, for work that cannot run side by side."""
    return first(), second()
