"""Progress on standard error of anything that takes more than two seconds: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context

from gridveil.cli.output import COLOURS, PATIENCE, note, output_mode

INTERVAL = 10.0  # seconds between plain lines
WINDOW = 60.0  # seconds over which the pace is measured

Advance = Callable[[], None]


@contextmanager
def progress(what: str, total: int | None = None) -> Iterator[Advance]:
    """Show the progress of ``what`` and the time left after PATIENCE seconds; call the yielded function after each part.

    Without a ``total``, the elapsed time is shown instead of the time left. Quiet and JSON commands show nothing.
    """
    if output_mode().silent:
        yield lambda: None
    elif sys.stderr.isatty() and COLOURS is not None and os.environ.get("TERM") != "dumb":
        with _bar(what, total) as advance:
            yield advance
    else:
        with _lines(what, total) as advance:
            yield advance


@contextmanager
def _bar(what: str, total: int | None) -> Iterator[Advance]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    counted = (MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("left")) if total else (TimeElapsedColumn(),)
    console = Console(stderr=True, color_system=COLOURS)  # type: ignore[arg-type]
    bar = Progress(
        TextColumn("{task.description}", markup=False), BarColumn(), *counted, console=console, transient=True
    )
    task = bar.add_task(what, total=total)
    try:
        with _later(bar.start):
            yield lambda: bar.advance(task)
    finally:
        if bar.live.is_started:
            bar.stop()


@contextmanager
def _lines(what: str, total: int | None) -> Iterator[Advance]:
    begun = time.monotonic()
    if total is None:
        with _later(lambda: note(f"{what} …")):
            yield lambda: None
        return
    done, spoken = 0, begun + PATIENCE - INTERVAL
    marks = deque([(begun, 0)])  # the pace of the last minute: small tasks often come first

    def advance() -> None:
        nonlocal done, spoken
        done += 1
        now = time.monotonic()
        if done < total and now - spoken >= INTERVAL:
            spoken = now
            while len(marks) > 1 and now - marks[1][0] > WINDOW:
                marks.popleft()
            since, before = marks[0]
            note(f"{what}: {done} of {total}, about {time_left(now - since, done - before, total - done)} left")
            marks.append((now, done))

    yield advance


@contextmanager
def _later(action: Callable[[], None]) -> Iterator[None]:
    """Run an action after PATIENCE seconds, unless the block has ended by then."""
    timer = threading.Timer(PATIENCE, copy_context().run, args=(action,))  # the output mode belongs to the context
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def time_left(elapsed: float, done: int, rest: int) -> str:
    """Estimate the remaining time from the pace so far, as 45 s, 3 min or 2 h 10 min."""
    seconds = elapsed / done * rest
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
