"""Many releases at once by ``auto`` or by Algorithm 1: as many rows together as memory allows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from gridveil.bilevel.methods.settings import AutoSettings, BisectionSettings
from gridveil.bilevel.result import BilevelResult
from gridveil.bilevel.together.algorithm1 import Algorithm1Search
from gridveil.bilevel.together.auto import AutoSearch
from gridveil.bilevel.together.offer import Asked
from gridveil.bilevel.together.pushes import PushSearch
from gridveil.bilevel.together.record import ReleasedRows
from gridveil.bilevel.together.rows import Bands, SearchRows
from gridveil.core.methods import Method
from gridveil.programs import ParametricProgram
from gridveil.solvers.batch.power_rows import PowerRows

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Settings = AutoSettings | BisectionSettings

Give = Callable[[int, BilevelResult | None], None]
"""What a release came to, by its place; None if it is handed over."""

USUAL: Mapping[Method, Settings] = {Method.AUTO: AutoSettings(), Method.BISECTION: BisectionSettings()}
"""Settings of the methods that are written for rows; those of plug-ins are not."""


@dataclass(frozen=True, eq=False)
class TogetherReleases:
    """Whole releases of one network for callers that wait for them."""

    power: PowerRows
    program: ParametricProgram

    @staticmethod
    def takes(asked: Asked) -> bool:
        """Whether rows know the method, and the kernels the release: they have no rows for kept totals."""
        return asked.method in USUAL and asked.target.rows is None

    def answer(self, asked: Sequence[Asked], give: Give) -> Iterator[None]:
        """Give each release its result, or None as soon as it is handed over; those by the same method advance together.

        One step of the iteration for as many as memory allows at a time.
        """
        for method, settings in USUAL.items():
            mine = [index for index, one in enumerate(asked) if one.method == method]
            if mine:
                yield from self._answer(asked, mine, settings, give)

    def _answer(self, asked: Sequence[Asked], mine: list[int], settings: Settings, give: Give) -> Iterator[None]:
        """Of the releases at some places, all by one method."""
        noisy = np.stack([asked[place].noisy for place in mine])
        value, beta = (np.array([getattr(asked[place].target, name) for place in mine]) for name in ("value", "beta"))

        def hand_over(rows: Ints) -> None:
            for row in rows.tolist():
                give(mine[row], None)

        first = 0
        for found in release_together(self.power, self.program, noisy, Bands(value, beta), settings, hand_over):
            for row in np.flatnonzero(found.finished).tolist():
                give(mine[first + row], found.result(row))
            first += len(found)
            yield


def release_together(
    power: PowerRows,
    program: ParametricProgram,
    noisy: Floats,
    target: Bands,
    settings: Settings = USUAL[Method.AUTO],
    hand_over: Callable[[Ints], None] = lambda rows: None,
) -> Iterator[ReleasedRows]:
    """Release every row of ``noisy`` (n, n_d) into its band, as many at a time as memory allows, in their order.

    The method is the one that the settings are of. Rows that leave the usual path are handed over: they have no result, and
    are for the code of single releases, which ``hand_over`` is told at once.
    """
    power = power.suited(len(noisy))
    step = max(1, power.engine.state_bytes // power.bytes_per_row)
    within = np.all((program.d_lower <= noisy) & (noisy <= program.d_upper), axis=1)
    for begin in range(0, len(noisy), step):
        part, clock = slice(begin, begin + step), perf_counter()
        rows = SearchRows(power, noisy[part], Bands(target.value[part], target.beta[part]))
        search = _search(rows, settings, within[part])
        search.run(partial(_counted_from, begin, hand_over))
        seconds = perf_counter() - clock
        yield ReleasedRows.of(rows, search.ENDING, search.history, tuple(search.turns), seconds)


def _search(rows: SearchRows, settings: Settings, within_bounds: Bools) -> PushSearch:
    if isinstance(settings, BisectionSettings):
        return Algorithm1Search(rows, settings, within_bounds)
    return AutoSearch(rows, settings, within_bounds)


def _counted_from(begin: int, hand_over: Callable[[Ints], None], rows: Ints) -> None:
    hand_over(begin + rows)
