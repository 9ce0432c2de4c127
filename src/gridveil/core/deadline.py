"""The time limit of a piece of work: set around it, looked at by the solvers inside it.

A limit is a property of the context rather than an argument, because it must reach the iterations of every solver, through
backends that know nothing of it. Work that is not inside a limit has none: the curator's part never is.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Event

from gridveil.core.errors import NoReleaseError

LEAST_SECONDS = 60.0
SECONDS_PER_NODE = 0.02

_end: ContextVar[float] = ContextVar("end of the time that work may take", default=math.inf)
_stop: ContextVar[Event | None] = ContextVar("what stops the work before that", default=None)


class OutOfTimeError(NoReleaseError):
    """Work was stopped at its time limit."""

    def __init__(self) -> None:
        super().__init__("the time limit was reached; allow more for the same draw (--time-limit and --reuse)")


def usual_time_limit(size: int) -> float:
    """Seconds that post-processing may take on a network of so many buses or junctions, unless the user says otherwise.

    Many times what nearly all releases take, on a slow machine too; it grows with the network, as they do.
    """
    return LEAST_SECONDS + SECONDS_PER_NODE * size


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Limit the work inside to some seconds from now; of nested limits the first to end counts."""
    token = _end.set(min(_end.get(), time.perf_counter() + seconds))
    try:
        yield
    finally:
        _end.reset(token)


@contextmanager
def stoppable(stop: Event) -> Iterator[None]:
    """Let another thread end the time of the work inside, by setting the event."""
    token = _stop.set(stop)
    try:
        yield
    finally:
        _stop.reset(token)


def seconds_left() -> float:
    """Seconds until the limit ends; infinity without one, zero once the work was stopped."""
    stop = _stop.get()
    return 0.0 if stop is not None and stop.is_set() else _end.get() - time.perf_counter()


def check_time() -> None:
    """Raise OutOfTimeError if the limit has ended."""
    if seconds_left() <= 0:
        raise OutOfTimeError
