"""A data set for learning: optimal power flows of many scenarios of one network, as Parquet files.

From a released network it is post-processing: it is made from the files of the release alone and spends no ε. From a network
whose demands are true it is not private at all, and every file says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from gridveil import __version__
from gridveil.core.choices import BatchEngine, TableLayout
from gridveil.core.cluster import Cluster
from gridveil.core.errors import InputError
from gridveil.service.data_set_cluster import shards_on_workers
from gridveil.service.data_set_here import shards_here
from gridveil.service.data_set_numbering import number_solved
from gridveil.service.data_set_shards import Shards
from gridveil.service.data_set_source import DataSetRequest

METADATA_FILE = "metadata.yaml"
NETWORK, PROFILE = "network_sha256", "profile_sha256"
WORDS = {NETWORK: "the content of the network", PROFILE: "the content of the profile"}
"""How an error names fields that say nothing by themselves."""


def make_data_set(
    request: DataSetRequest,
    folder: Path,
    engine: BatchEngine = BatchEngine.AUTO,
    *,
    cluster: Cluster | None = None,
    advance: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Write the data set, or what is missing of it; return its metadata with the counts of solved and failed scenarios.

    With a ``cluster`` its workers make the shards, which needs a folder that all share. ``advance`` is called after each
    shard.
    """
    shards = Shards.of(request, folder)
    facts = _metadata(shards)
    before = _begun(shards.home, facts)
    known = {index: found for index in range(shards.count) if (found := shards.finished(index)) is not None}
    missing = [index for index in range(shards.count) if index not in known]
    # Refuses an engine that is not there, before the folder is taken: it is then free for another request.
    parts = (
        _made_here(shards, missing, engine) if cluster is None else shards_on_workers(cluster, shards, missing, engine)
    )
    if before is None:
        shards.home.mkdir(parents=True, exist_ok=True)
        _write_text(shards.home / METADATA_FILE, facts | {"complete": False})
    for _ in known:
        advance()
    counts: list[dict[str, int]] = list(known.values())
    engines: set[str] = set()
    for name, written in parts:
        engines.add(name)
        counts.append(written)
        advance()
    shards.sweep()
    whole = facts | {name: sum(each[name] for each in counts) for name in ("solved", "failed")} | {"complete": True}
    if missing or before != whole:
        if request.layout is TableLayout.GRIDFM:
            number_solved(shards)
            # Those that were drawn: readers find the number of partitions by it.
            (shards.home / "raw" / "n_scenarios.txt").write_text(f"{request.scenarios}\n", encoding="utf-8")
        _write_text(shards.home / METADATA_FILE, whole)
    return whole | {"engine": ", ".join(sorted(engines)) or None, "folder": str(shards.home)}


def _made_here(shards: Shards, missing: Sequence[int], engine: BatchEngine) -> Iterator[tuple[str, dict[str, int]]]:
    """Who solves each shard, and its counts of solved and failed scenarios; an engine that is not there is an InputError."""
    if not missing:
        return iter(())
    backend = shards.backend(engine)
    return ((backend.name, counts) for counts in shards_here(shards, missing, backend))


def _metadata(shards: Shards) -> dict[str, Any]:
    request, source, network = shards.request, shards.source, shards.source.network
    of_network, of_profile = shards.content
    return {
        "privacy": source.notice,
        "private": source.private,
        "promise": source.promise,
        NETWORK: of_network,
        "software": f"gridveil {__version__}",
        "problem": "AC optimal power flow in polar voltages",
        "scenarios": request.scenarios,
        "loads": shards.drawn.loads.text,
        PROFILE: of_profile,
        "outages": request.outages.value,
        "layout": request.layout.value,
        "seed": request.seed,
        "retries": request.retries,
        "scenarios_per_shard": shards.size,
        "base_mva": float(network.base_mva),
        "buses": [int(number) for number in network.grid.bus.id],
    }


def _begun(home: Path, facts: dict[str, Any]) -> dict[str, Any] | None:
    """The metadata of the same data set, if it was begun before; a folder that holds something else is an InputError."""
    path = home / METADATA_FILE
    if path.exists():
        before: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
        other = sorted(WORDS.get(name, name) for name, value in facts.items() if before.get(name) != value)
        if other:
            raise InputError(
                f"{home}: holds another data set ({', '.join(other)} differ); choose another --out, or repeat the command "
                "with what that one was begun with"
            )
        return before
    if home.exists() and any(home.iterdir()):
        raise InputError(f"{home}: is not empty and holds no data set; choose another --out")
    return None


def _write_text(path: Path, facts: dict[str, Any]) -> None:
    text = yaml.safe_dump(facts, sort_keys=False, allow_unicode=True, default_flow_style=None)
    staged = path.with_suffix(".part")
    staged.write_text(text, encoding="utf-8")
    staged.replace(path)
