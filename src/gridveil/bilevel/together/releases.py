"""Many releases at once by ``auto`` or by Algorithm 1: as many rows together as memory allows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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
from gridveil.bilevel.together.rows import AutoRows, Bands, bytes_per_row
from gridveil.core.methods import Method
from gridveil.programs import ParametricProgram
from gridveil.solvers.batch.power_rows import PowerRows

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Settings = AutoSettings | BisectionSettings

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

    def answer(self, asked: Sequence[Asked]) -> list[BilevelResult | None]:
        """One result per release, None where one was handed over; releases by the same method advance together."""
        found: list[BilevelResult | None] = [None] * len(asked)
        for method, settings in USUAL.items():
            mine = [index for index, one in enumerate(asked) if one.method == method]
            for index, result in zip(mine, self._results([asked[one] for one in mine], settings), strict=True):
                found[index] = result
        return found

    def _results(self, asked: Sequence[Asked], settings: Settings) -> list[BilevelResult | None]:
        if not asked:
            return []
        noisy = np.stack([one.noisy for one in asked])
        value, beta = (np.array([getattr(one.target, name) for one in asked]) for name in ("value", "beta"))
        found = release_together(self.power, self.program, noisy, Bands(value, beta), settings)
        return [rows.result(row) for rows in found for row in range(len(rows))]


def release_together(
    power: PowerRows,
    program: ParametricProgram,
    noisy: Floats,
    target: Bands,
    settings: Settings = USUAL[Method.AUTO],
) -> Iterator[ReleasedRows]:
    """Release every row of ``noisy`` (n, n_d) into its band, as many at a time as memory allows, in their order.

    The method is the one that the settings are of. Rows that leave the usual path are handed over: they have no result, and
    are for the code of single releases.
    """
    power = power.suited(len(noisy))
    step = max(1, power.engine.state_bytes // bytes_per_row(power))
    within = np.all((program.d_lower <= noisy) & (noisy <= program.d_upper), axis=1)
    for begin in range(0, len(noisy), step):
        part, clock = slice(begin, begin + step), perf_counter()
        given = power.xp.ascontiguousarray(power.xp.asarray(noisy[part]))
        rows = AutoRows(power, given, Bands(target.value[part], target.beta[part]))
        search = _search(rows, settings, within[part])
        search.run()
        seconds = perf_counter() - clock
        yield ReleasedRows.of(rows, search.ENDING, search.history, tuple(search.turns), seconds)


def _search(rows: AutoRows, settings: Settings, within_bounds: Bools) -> PushSearch:
    if isinstance(settings, BisectionSettings):
        return Algorithm1Search(rows, settings, within_bounds)
    return AutoSearch(rows, settings, within_bounds)
