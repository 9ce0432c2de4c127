"""Shards of a data set over the workers of a Dask cluster: one worker for each GPU, or for each machine.

Workers need the same gridveil, and the folders of the release and of the data set under the same paths. A worker makes one
shard at a time, with the engine that it has; which worker makes a shard does not change its rows.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from gridveil.core.choices import BatchEngine
from gridveil.core.cluster import Cluster
from gridveil.core.errors import InputError
from gridveil.core.parallel import Failure, StateKeeper, attempt
from gridveil.service.data_set_shards import Shards
from gridveil.service.data_set_source import DataSetRequest
from gridveil.solvers.batch.contract import BatchBackend

Key = tuple[DataSetRequest, str, int, BatchEngine]
"""A request, its folder, the size of its shards and the engine: what a worker keeps ready."""


def shards_on_workers(
    cluster: Cluster, shards: Shards, missing: Sequence[int], engine: BatchEngine
) -> Iterator[tuple[str, dict[str, int]]]:
    """Yield the engine and the counts of each shard as it is written; a shard that no worker can make is an InputError."""
    if not missing:
        return
    request, folder = with_whole_paths(shards.request), str(shards.folder.absolute())
    cluster.check([folder, *([request.source] if Path(request.source).is_absolute() else [])])
    key = (request, folder, shards.size, engine)
    for _, made in cluster.run(_make_shard, [(key, index) for index in missing]):
        if isinstance(made, Failure):
            raise InputError(f"a worker could not make its part of the data set: {made.reason}")
        yield made


def with_whole_paths(request: DataSetRequest) -> DataSetRequest:
    """The request as workers understand it that run in other folders; names of built-in cases stay."""
    kind, _, file = request.loads.partition(":")
    loads = f"{kind}:{Path(file).absolute()}" if kind == "profile" else request.loads
    source = Path(request.source)
    return replace(request, loads=loads, source=str(source.absolute()) if source.exists() else request.source)


# From here on: what runs in a worker.
_one_at_a_time = threading.Lock()  # an engine fills its processor by itself


def _open(key: Key) -> tuple[Shards, BatchBackend]:
    request, folder, size, engine = key
    shards = Shards.of(request, Path(folder), size)
    return shards, shards.backend(engine)


_keeper: StateKeeper[Key, tuple[Shards, BatchBackend]] = StateKeeper(_open, kept=1)


def _make_shard(key: Key, index: int) -> tuple[str, dict[str, int]] | Failure:
    with _one_at_a_time:
        return attempt(_keeper, _solve_and_write, key, index)


def _solve_and_write(ready: tuple[Shards, BatchBackend], index: int) -> tuple[str, dict[str, int]]:
    shards, backend = ready
    counts = shards.finished(index)  # another worker may have made it and died before it said so
    if counts is None:
        counts = shards.write(index, shards.solved(index, shards.scenarios(index), backend))
    return backend.name, counts
