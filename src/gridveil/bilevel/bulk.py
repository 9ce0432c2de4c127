"""Many releases at once, in rows of arrays, or each in a thread of its own, which sleeps while what it asks for waits for a batch.

A method may ask for its whole result: then all releases that do so advance together, as rows, before any thread is started (see
bulk_ahead.py). One that these hand back, or whose method is another, runs its method as single releases do, unchanged. What it
asks of its backend is gathered here, and as soon as nobody computes any more, all that waits is solved together, a batch for each
kind. Every release has its own control flow, and one that ends makes room for the next. A problem that its batch does not solve
goes to the backend of single releases, in the thread of the release that asked for it; the others do not wait for that. A caller
who has a better place for releases that are handed back, such as worker processes, gets them back at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from gridveil.bilevel.bulk_ahead import JobOutcome, Known, OneOfMany, WholeReleases, outcome_of, run_ahead
from gridveil.bilevel.result import BilevelResult
from gridveil.bilevel.together.offer import Asked
from gridveil.bilevel.together.releases import TogetherReleases
from gridveil.core.band import CostTarget
from gridveil.core.choices import BatchEngine
from gridveil.core.errors import InputError
from gridveil.sectors.model import Model
from gridveil.solvers.backend import Answer, Backend, Effort, HalfSpace, Start, usual_effort
from gridveil.solvers.batch.backends import engine_for
from gridveil.solvers.batch.engine import Engine
from gridveil.solvers.batch.network import lower_network
from gridveil.solvers.batch.power import PowerBatches, Request

Vector = NDArray[np.float64]
T = TypeVar("T")

MOST_AT_ONCE = 2048
"""Threads at the same time: more releases fill the batches better, but each takes one."""
STACK_BYTES = 16 << 20
"""Of each thread: address space, of which memory is taken only as far as a solver goes."""
ALONE = threading.Lock()
"""Held by who solves alone: solvers of single problems, Ipopt's linear algebra for one, do not bear two callers."""
_STARTING = threading.Lock()  # the size of a new thread's stack is set for the whole process


class Batches(Protocol):
    """Solves requests together, as ``solvers.batch.power.PowerBatches``."""

    def takes(self, request: Request) -> bool:
        """Whether a batch has something to try."""
        ...

    def answer(self, requests: Sequence[Request]) -> list[Answer]:
        """One answer per request, converged or not."""
        ...


class _StoppedError(BaseException):
    """Unwinds the threads of releases that nobody waits for any more."""


class _HandedOverError(BaseException):
    """Unwinds the thread of a release that is left to the caller; no Exception, as jobs make results of these."""


@dataclass(eq=False)
class _Waiting:
    request: Request | Asked
    answered: threading.Event = field(default_factory=threading.Event)
    is_answered: bool = False
    answer: Any = None

    def give(self, answer: Any) -> None:
        """Let the release that waits go on."""
        self.answer, self.is_answered = answer, True
        self.answered.set()


class _Hall:
    """Where releases meet: who computes, and what the others wait for."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._computing = 0
        self._waiting: list[_Waiting] = []
        self._gathered: list[_Waiting] = []
        self._stopped = False

    def enter(self) -> None:
        with self._lock:
            self._computing += 1

    def leave(self) -> None:
        """Of a release that ends, waits, or goes to solve something alone."""
        with self._lock:
            self._computing -= 1
            self._lock.notify()

    def ask(self, request: Request | Asked) -> Any:
        """Wait for the batch that solves a request."""
        mine = _Waiting(request)
        with self._lock:
            if self._stopped:
                raise _StoppedError
            self._waiting.append(mine)
            self._computing -= 1
            self._lock.notify()
        mine.answered.wait()
        if not mine.is_answered:
            raise _StoppedError
        return mine.answer

    def gather(self, ended: Callable[[], bool]) -> list[_Waiting]:
        """All that wait, once nobody computes; none if the releases that are left solve alone, or have ``ended``."""
        with self._lock:
            while self._computing > 0 or not (self._waiting or ended()):  # a release may ask from two threads at once
                self._lock.wait()
            self._gathered, self._waiting = self._waiting, []
            self._computing += len(self._gathered)
            return self._gathered

    def stop(self) -> None:
        """Let nobody wait for ever, nor for a batch that was broken off."""
        with self._lock:
            self._stopped, left = True, [*self._gathered, *self._waiting]
            self._waiting = []
        for one in left:
            one.answered.set()


class BatchedBackend(OneOfMany):
    """The backend of one release among many: asks for batches first, then the backend that releases have by themselves."""

    def __init__(
        self,
        alone: Backend,
        batches: Batches,
        hall: _Hall,
        releases: WholeReleases | None,
        known: Sequence[BilevelResult | None],
        *,
        hand_over: bool,
    ) -> None:
        """``known`` are the answers to the first whole releases that are asked for."""
        super().__init__(alone)
        self._batches, self._hall = batches, hall
        self._releases, self._known, self._hand_over = releases, list(known), hand_over

    def released_together(self, asked: Asked) -> BilevelResult | None:
        """The result of the method that asks, found together with those of others; None where it has to run by itself."""
        if self._releases is None:
            return None
        if self._known:
            return self._known.pop(0)
        result: BilevelResult | None = self._hall.ask(asked) if self._releases.takes(asked) else None
        if result is None and self._hand_over:
            raise _HandedOverError
        return result

    def dispatch(self, d: Vector, *, start: Start | None = None, effort: Effort | None = None) -> Answer:
        """O(d)."""
        effort = usual_effort(start, effort)
        request = Request(data=d, start=start, effort=effort, is_dispatch=True)
        return self._solve(request, lambda: self._alone.dispatch(d, start=start, effort=effort))

    def nearest(
        self, noisy: Vector, band: CostTarget | None, *, start: Start | None = None, effort: Effort | None = None
    ) -> Answer:
        """HPR, with or without its band."""
        effort = usual_effort(start, effort)
        request = Request(data=noisy, start=start, effort=effort, band=band)
        return self._solve(request, lambda: self._alone.nearest(noisy, band, start=start, effort=effort))

    def cut(
        self, noisy: Vector, band: CostTarget, half_space: HalfSpace, *, start: Start, effort: Effort = Effort.NEAR
    ) -> Answer:
        """HPR within a half-space."""
        request = Request(data=noisy, start=start, effort=effort, band=band, half_space=half_space)
        return self._solve(request, lambda: self._alone.cut(noisy, band, half_space, start=start, effort=effort))

    def push(
        self, noisy: Vector, band: CostTarget, delta: float, *, start: Start, effort: Effort = Effort.NEAR
    ) -> Answer:
        """O↑(δ)."""
        request = Request(data=noisy, start=start, effort=effort, band=band, delta=delta)
        return self._solve(request, lambda: self._alone.push(noisy, band, delta, start=start, effort=effort))

    def _solve(self, request: Request, alone: Callable[[], Answer]) -> Answer:
        if self._batches.takes(request):
            answer: Answer = self._hall.ask(request)
            # A dispatch that multipliers do not lead to is tried without them next: that is quicker than to repeat it.
            if answer.converged or (request.is_dispatch and request.effort is Effort.WARM):
                return answer
        self._hall.leave()
        try:
            with ALONE:
                return alone()
        finally:
            self._hall.enter()


def run_all(
    jobs: Sequence[Callable[[Backend], T]],
    backend: Backend,
    model: Model,
    choice: BatchEngine | Engine,
    *,
    hand_over: Callable[[int], None] | None = None,
) -> Iterator[tuple[int, JobOutcome[T]]]:
    """Run all jobs together in batches, or one by one where that was chosen, or batches do not know the network.

    The choice is one of engines, or an engine.

    With ``hand_over`` releases that are not made together by their batches are left to the caller, and so are all jobs of a
    network that batches do not know: it is told their positions, at once and from any thread, and they have no outcome.
    """
    engine = engine_for(choice) if isinstance(choice, BatchEngine) else choice
    try:
        batches = None if engine is None else PowerBatches.of_model(model, engine)
    except InputError:
        batches = None
    if engine is not None and batches is not None:
        releases = TogetherReleases(batches.rows, model.program)
        with _own_stream(engine):
            yield from run_together(jobs, backend, batches, releases, hand_over=hand_over)
        return
    for index, job in enumerate(jobs):
        if hand_over is None:
            yield index, outcome_of(partial(job, backend))
        else:
            hand_over(index)


def batches_know(model: Model) -> bool:
    """Whether batches know a network, by any engine. It is lowered to find out, so ask once."""
    if model.arrays is None:
        return False
    try:
        lower_network(model.arrays(0.0), joint=True)  # refuses all that is refused for dispatches, and more
    except InputError:
        return False
    return True


def _own_stream(engine: Engine) -> AbstractContextManager[Any]:
    """A stream of a GPU for this thread alone: in a common one, memory that a network lets go may be another's too early."""
    cuda = getattr(engine.xp, "cuda", None)
    return nullcontext() if cuda is None else cuda.Stream(non_blocking=True)


def run_together(
    jobs: Sequence[Callable[[Backend], T]],
    backend: Backend,
    batches: Batches,
    releases: WholeReleases | None = None,
    *,
    hand_over: Callable[[int], None] | None = None,
    at_once: int = MOST_AT_ONCE,
) -> Iterator[tuple[int, JobOutcome[T]]]:
    """Run all jobs, each with a backend of its own that shares batches; yield (index, outcome) as they end.

    Without ``releases`` every method runs by itself, problem by problem. With ``hand_over`` a job whose release these do not
    make ends at once, without an outcome: see ``run_all``. With ``releases`` a job may be run up to three times as far as it asks
    for something, so that it must do nothing before that twice would be too much.
    """
    known: Known = dict.fromkeys(range(len(jobs)), ())
    if releases is not None:
        known = yield from run_ahead(jobs, backend, releases, hand_over)
    places = list(known)
    hall = _Hall()
    results: list[tuple[int, JobOutcome[T] | None]] = []
    begun = finished = 0
    lock = threading.Lock()

    def work(index: int) -> None:
        with suppress(_StoppedError):
            given = BatchedBackend(backend, batches, hall, releases, known[index], hand_over=hand_over is not None)
            outcome: JobOutcome[T] | None = None
            try:
                outcome = outcome_of(partial(jobs[index], given))
            except _HandedOverError:
                if hand_over is not None:
                    hand_over(index)
            with lock:
                results.append((index, outcome))
        hall.leave()

    def begin(index: int) -> None:
        hall.enter()
        thread = threading.Thread(target=copy_context().run, args=(work, index), daemon=True)
        with _STARTING:
            usual = threading.stack_size(STACK_BYTES)
            try:
                thread.start()
            finally:
                threading.stack_size(usual)

    try:
        while finished < len(places):
            while begun < len(places) and begun - finished < at_once:
                begin(places[begun])
                begun += 1
            waiting = hall.gather(lambda: bool(results))
            _answer_all(waiting, batches, releases)
            with lock:
                done, results[:] = list(results), []
            finished += len(done)
            yield from ((index, outcome) for index, outcome in done if outcome is not None)
    finally:
        hall.stop()


def _answer_all(waiting: list[_Waiting], batches: Batches, releases: WholeReleases | None) -> None:
    """Problems first: whoever waits for one has further to go than a release that is about to begin."""
    problems = [one.request for one in waiting if isinstance(one.request, Request)]
    asked = [one.request for one in waiting if isinstance(one.request, Asked)]
    whole = [one for one in waiting if isinstance(one.request, Asked)]
    if problems:
        single = (one for one in waiting if isinstance(one.request, Request))
        for one, answer in zip(single, batches.answer(problems), strict=True):
            one.give(answer)
    if releases is not None and whole:
        for _ in releases.answer(asked, lambda place, result: whole[place].give(result)):
            pass
