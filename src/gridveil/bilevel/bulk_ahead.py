"""Whole releases without a thread each: jobs are run as far as they ask for one, and again when it is known.

A thread per release that sleeps until its result is there costs more than a release made in rows, once all cores are at work. What
a job does before it asks for its release is next to nothing, and the same every time; so it is simply done again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, NoReturn, Protocol, TypeVar

from gridveil.bilevel.result import BilevelResult
from gridveil.bilevel.together.offer import Asked
from gridveil.programs import ParametricProgram
from gridveil.solvers.backend import Backend, Capabilities, Start

T = TypeVar("T")
Known = Mapping[int, tuple[BilevelResult | None, ...]]
"""Jobs that need a thread, by their position, and the answer to the first release that each asks for, where there is one."""


class WholeReleases(Protocol):
    """Makes whole releases together, as ``together.releases.TogetherReleases``."""

    def takes(self, asked: Asked) -> bool:
        """Whether there is something to try."""
        ...

    def answer(self, asked: Sequence[Asked], give: Callable[[int, BilevelResult | None], None]) -> Iterator[None]:
        """Give each release, by its place, its result; None, as soon as that is known, where it is for the method itself.

        Every part of them that has ended is one step of the iteration.
        """
        ...


@dataclass(frozen=True)
class JobOutcome(Generic[T]):
    """What a release came to: a result, or the exception that ended it."""

    result: T | None = None
    error: Exception | None = None

    def get(self) -> T:
        """The result, or the exception again."""
        if self.error is not None:
            raise self.error
        if self.result is None:
            raise RuntimeError("a release ended without a result")
        return self.result


def outcome_of(job: Callable[[], T]) -> JobOutcome[T]:
    """Run a job."""
    try:
        return JobOutcome(result=job())
    except Exception as error:
        return JobOutcome(error=error)


class _NotYetError(BaseException):
    """Unwinds a job that asks for what is not known yet; no Exception, as jobs make results of these."""


class OneOfMany:
    """What the backend of one release among many is by itself: that of single releases, but for its problems."""

    def __init__(self, alone: Backend) -> None:
        self._alone = alone

    @property
    def name(self) -> str:
        """Name of the backend of single releases, whose answers these are as well."""
        return self._alone.name

    @property
    def capabilities(self) -> Capabilities:
        """Those of the backend of single releases."""
        return self._alone.capabilities

    @property
    def program(self) -> ParametricProgram:
        """The program of all."""
        return self._alone.program

    def prepare(self) -> None:
        """Nothing: the backend is prepared once for all."""

    def portable(self, start: Start) -> bool:
        """Whether the backend of single releases says so."""
        return self._alone.portable(start)


class _Ahead(OneOfMany):
    """The backend of a job without a thread: it knows one whole release, or what is asked for."""

    def __init__(self, alone: Backend, known: BilevelResult | None = None) -> None:
        super().__init__(alone)
        self._known = known
        self.asked: Asked | None = None

    def released_together(self, asked: Asked) -> BilevelResult:
        """The result that is known; else the job ends here."""
        if self._known is None:
            self.asked = asked
            raise _NotYetError
        result, self._known = self._known, None
        return result

    def _unknown(self, *_: Any, **__: Any) -> NoReturn:
        raise _NotYetError

    dispatch = nearest = cut = push = _unknown


def run_ahead(
    jobs: Sequence[Callable[[Backend], T]],
    alone: Backend,
    releases: WholeReleases,
    hand_over: Callable[[int], None] | None,
) -> Generator[tuple[int, JobOutcome[T]], None, Known]:
    """Run jobs that ask for one whole release and nothing else; yield (index, outcome), return those that need a thread.

    ``hand_over`` is told of releases that are not made together.
    """
    asked: dict[int, Asked] = {}
    known: dict[int, tuple[BilevelResult | None, ...]] = {}
    done: list[tuple[int, JobOutcome[T]]] = []

    def leave(index: int) -> None:
        if hand_over is None:
            known[index] = (None,)
        else:
            hand_over(index)

    def go_on(index: int, result: BilevelResult | None) -> None:
        if result is None:
            leave(index)
            return
        try:
            done.append((index, outcome_of(partial(jobs[index], _Ahead(alone, result)))))
        except _NotYetError:
            known[index] = (result,)

    for index, job in enumerate(jobs):
        ahead = _Ahead(alone)
        try:
            done.append((index, outcome_of(partial(job, ahead))))
        except _NotYetError:
            if ahead.asked is None:
                known[index] = ()
            elif releases.takes(ahead.asked):
                asked[index] = ahead.asked
            else:
                leave(index)
    yield from done
    done.clear()
    places = list(asked)
    for _ in releases.answer(list(asked.values()), lambda place, result: go_on(places[place], result)):
        yield from done
        done.clear()
    return known
