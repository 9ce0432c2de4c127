"""Many releases by ``auto`` at once: as many rows together as memory allows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from gridveil.bilevel.methods.settings import AutoSettings
from gridveil.bilevel.result import BilevelResult
from gridveil.bilevel.together.auto import AutoSearch
from gridveil.bilevel.together.offer import Asked
from gridveil.bilevel.together.record import ReleasedRows
from gridveil.bilevel.together.rows import AutoRows, Bands, bytes_per_row
from gridveil.programs import ParametricProgram
from gridveil.solvers.batch.power_rows import PowerRows

Floats = NDArray[np.float64]

DEFAULTS = AutoSettings()


@dataclass(frozen=True, eq=False)
class TogetherReleases:
    """Whole releases of one network for callers that wait for them."""

    power: PowerRows
    program: ParametricProgram

    @staticmethod
    def takes(asked: Asked) -> bool:
        """Whether the kernels know the release: they have no rows for kept totals."""
        return asked.target.rows is None

    def answer(self, asked: Sequence[Asked]) -> list[BilevelResult | None]:
        """One result per release, None where one was handed over."""
        noisy = np.stack([one.noisy for one in asked])
        value, beta = (np.array([getattr(one.target, name) for one in asked]) for name in ("value", "beta"))
        found = release_together(self.power, self.program, noisy, Bands(value, beta))
        return [rows.result(row) for rows in found for row in range(len(rows))]


def release_together(
    power: PowerRows,
    program: ParametricProgram,
    noisy: Floats,
    target: Bands,
    settings: AutoSettings = DEFAULTS,
) -> Iterator[ReleasedRows]:
    """Release every row of ``noisy`` (n, n_d) into its band, as many at a time as memory allows, in their order.

    Rows that leave the usual path are handed over: they have no result, and are for the code of single releases.
    """
    power = power.suited(len(noisy))
    step = max(1, power.engine.state_bytes // bytes_per_row(power))
    within = np.all((program.d_lower <= noisy) & (noisy <= program.d_upper), axis=1)
    for begin in range(0, len(noisy), step):
        part, clock = slice(begin, begin + step), perf_counter()
        given = power.xp.ascontiguousarray(power.xp.asarray(noisy[part]))
        rows = AutoRows(power, given, Bands(target.value[part], target.beta[part]))
        search = AutoSearch(rows, settings, within[part])
        search.run()
        yield ReleasedRows.of(rows, search.history, tuple(search.turns), perf_counter() - clock)
