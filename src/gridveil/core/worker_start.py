"""Worker processes: how they come into being, and what they get of the process that starts them.

On Linux they are forked from a server, a process that has imported once what each of them would import by itself, which takes a
core about a second.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

THREAD_LIMITS = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1"
)
MOST_LOST_SERVERS = 3
NICENESS = 10
"""Of workers in the background: a process that has work gets nine times as much of a core that it shares with one."""
SEEN_AFTER = 0.05
"""Seconds after which a killed process is known to be gone."""


def start_worker(
    serve: Callable[..., None], given: tuple[Any, ...], preload: Sequence[str], *, background: bool = False
) -> tuple[BaseProcess, Connection]:
    """Start a process that runs ``serve(connection, *given)``; it and the connection at this end.

    ``preload`` names modules that all workers need; those of the first worker of this process count. In the ``background`` it
    has what this process leaves of the cores.
    """
    ours, theirs = multiprocessing.Pipe()
    with _environment(THREAD_LIMITS), _interrupts_held():
        given = (dict(os.environ), background, serve, theirs, *given)
        process = _forked(given, preload) if can_fork() else None
        if process is None:
            process = multiprocessing.get_context("spawn").Process(target=_run, args=given, daemon=True)
            process.start()
    theirs.close()
    return process, ours


def make_ready(preload: Sequence[str]) -> None:
    """Let the modules be imported that workers will need, where that is done once for all, and do not wait for it."""
    if can_fork():
        from multiprocessing import forkserver

        multiprocessing.get_context("forkserver").set_forkserver_preload(list(preload))
        with suppress(OSError), _environment(THREAD_LIMITS), _interrupts_held():  # workers then start from scratch
            forkserver.ensure_running()


def _forked(given: tuple[Any, ...], preload: Sequence[str]) -> BaseProcess | None:
    """A process from the fork server; None if that dies again and again before it answers."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(preload))
    for _ in range(MOST_LOST_SERVERS):
        process = context.Process(target=_run, args=given, daemon=True)
        with suppress(OSError, EOFError):  # it died, which is not seen at once; the next try starts another
            process.start()
            return process
        time.sleep(SEEN_AFTER)
    return None


def can_fork() -> bool:
    """Whether workers come from a fork server, which has never seen a job or a thread.

    Frameworks of macOS do not bear a fork, and before Python 3.11.1 every user of the machine could reach the server.
    """
    return sys.platform == "linux" and sys.version_info >= (3, 11, 1)


def module_of(function: Callable[..., Any]) -> str:
    """Where a function is defined; of a partial, what it is a part of."""
    while isinstance(function, partial):
        function = function.func
    return function.__module__


def end_with_parent() -> None:
    """Let this process, a worker, end as soon as the one that has started it is gone."""

    def watch() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            wait([parent.sentinel])
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _run(
    environment: Mapping[str, str], background: bool, serve: Callable[..., None], connection: Connection, *given: Any
) -> None:
    """A worker's first steps: a fork server has the environment of the time when it was started, and heeds Ctrl-C."""
    os.environ.clear()
    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if background and hasattr(os, "nice"):
        os.nice(NICENESS)
    serve(connection, *given)


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    """Set variables that a process started inside inherits: libraries read them when they are loaded."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """A process started inside never sees Ctrl-C, which goes to the whole group: the parent decides what to do."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # otherwise started by the first process, which would lift the mask again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
