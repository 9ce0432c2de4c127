"""Shards of a data set over the workers of a Dask cluster: one worker for each GPU, or for each machine.

Workers need the same gridveil, and the folders of the release and of the data set under the same paths. A worker makes one
shard at a time, with the engine that it has; which worker makes a shard does not change its rows. What it has read and built
it keeps for the run, and no longer: the next may find other files, or a compiler.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gridveil.core.choices import BatchEngine
from gridveil.core.cluster import Cluster
from gridveil.core.errors import InputError
from gridveil.core.parallel import Failure, StateKeeper, attempt
from gridveil.service.data_set_shards import Shards
from gridveil.service.data_set_source import DataSetRequest
from gridveil.solvers.batch.backends import engine_for
from gridveil.solvers.batch.contract import BatchBackend


@dataclass(frozen=True, kw_only=True)
class Key:
    """What a worker keeps ready: the shards of one run, and their engine."""

    run: str
    """What an earlier run has read, or could not build, is of no use to a later one."""
    request: DataSetRequest
    folder: str
    size: int
    """Scenarios per shard."""
    engine: BatchEngine
    content: tuple[str, str | None]
    """Of the network and the profile, as the command has read them."""


def shards_on_workers(
    cluster: Cluster, shards: Shards, missing: Sequence[int], engine: BatchEngine
) -> Iterator[tuple[str, dict[str, int]]]:
    """Yield the engine and the counts of each shard as it is written; a shard that no worker can make is an InputError.

    Workers without the engine, or that do not see the folders, are found before the first shard is asked for.
    """
    if not missing:
        return iter(())
    request, folder = with_whole_paths(shards.request), shards.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)  # workers must see it
    cluster.check([str(folder), *([request.source] if Path(request.source).is_absolute() else [])])
    for address, lacking in cluster.client.run(_lacking, engine).items():
        if lacking:
            raise InputError(f"worker {address}: {lacking}")
    key = Key(
        run=secrets.token_hex(4),
        request=request,
        folder=str(folder),
        size=shards.size,
        engine=engine,
        content=shards.content,
    )
    return _made(cluster, [(key, index) for index in missing])


def _made(cluster: Cluster, jobs: Sequence[tuple[Key, int]]) -> Iterator[tuple[str, dict[str, int]]]:
    for _, made in cluster.run(_make_shard, jobs):
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
    shards = Shards.of(key.request, Path(key.folder), key.size)
    if shards.content != key.content:
        raise InputError(
            f"it reads another network or profile than the command under {key.request.source} or {key.request.loads}; "
            "put them on a folder that all share, and do not change them while a data set is made"
        )
    return shards, shards.backend(key.engine)


def _lacking(engine: BatchEngine) -> str:
    """What this worker lacks for an engine."""
    try:
        engine_for(engine)
    except InputError as error:
        return str(error)
    return ""


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
