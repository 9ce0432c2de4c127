"""All shards of a data set on this machine: one thread feeds the engine, and nothing else is done there.

Scenarios are drawn while the shard before is solved, and files are written while later ones are. Imports what shards need:
NumPy, PyArrow and, for a GPU, CuPy.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

from gridveil.core.threads import Ahead, all_cores
from gridveil.service.data_set_shards import Shards
from gridveil.solvers.batch.contract import BatchBackend

MOST_WRITERS = 8
"""Shards that are made into files while the next is solved, at most: each is held in memory until it is written."""
LEAST_WRITERS = 2
FEEDING = 2
"""Cores that are left to the thread that feeds the engine and to the one that draws."""


def writers() -> int:
    """Threads that write; a file is compressed by one."""
    return min(MOST_WRITERS, max(LEAST_WRITERS, all_cores() - FEEDING))


def shards_here(shards: Shards, missing: Sequence[int], backend: BatchBackend) -> Iterator[dict[str, int]]:
    """Solve one shard after the other; yield the counts of each when it is written."""
    if not missing:
        return
    most, waiting = writers(), deque[Future[dict[str, int]]]()
    drawing = Ahead(partial(shards.scenarios, missing[0]))
    with ThreadPoolExecutor(most) as pool:
        for place, index in enumerate(missing):
            scenarios = drawing.answer()
            if place + 1 < len(missing):
                drawing = Ahead(partial(shards.scenarios, missing[place + 1]))
            waiting.append(pool.submit(shards.write, index, shards.solved(index, scenarios, backend)))
            while waiting and (len(waiting) > most or waiting[0].done()):
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
