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
from gridveil.service.data_set_rules import load_rule
from gridveil.service.data_set_shards import Shards
from gridveil.service.data_set_source import DataSetRequest

METADATA_FILE = "metadata.yaml"


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
    _claim(shards.home, facts)
    known = {index: found for index in range(shards.count) if (found := shards.finished(index)) is not None}
    missing = [index for index in range(shards.count) if index not in known]
    for _ in known:
        advance()
    counts: list[dict[str, int]] = list(known.values())
    engines: set[str] = set()
    for name, written in (
        _made_here(shards, missing, engine) if cluster is None else shards_on_workers(cluster, shards, missing, engine)
    ):
        engines.add(name)
        counts.append(written)
        advance()
    shards.sweep()
    whole = facts | {name: sum(each[name] for each in counts) for name in ("solved", "failed")} | {"complete": True}
    _write_text(shards.home / METADATA_FILE, whole)
    if request.layout is TableLayout.GRIDFM:
        (shards.home / "raw" / "n_scenarios.txt").write_text(f"{request.scenarios}\n", encoding="utf-8")
    return whole | {"engine": ", ".join(sorted(engines)) or None, "folder": str(shards.home)}


def _made_here(shards: Shards, missing: Sequence[int], engine: BatchEngine) -> Iterator[tuple[str, dict[str, int]]]:
    """Who solved each shard, and its counts of solved and failed scenarios."""
    if missing:
        backend = shards.backend(engine)
        yield from ((backend.name, counts) for counts in shards_here(shards, missing, backend))


def _metadata(shards: Shards) -> dict[str, Any]:
    request, source, network = shards.request, shards.source, shards.source.network
    return {
        "privacy": source.notice,
        "private": source.private,
        "promise": source.promise,
        "software": f"gridveil {__version__}",
        "problem": "AC optimal power flow in polar voltages",
        "scenarios": request.scenarios,
        "loads": load_rule(request.loads).text,
        "outages": request.outages.value,
        "layout": request.layout.value,
        "seed": request.seed,
        "retries": request.retries,
        "scenarios_per_shard": shards.size,
        "base_mva": float(network.base_mva),
        "buses": [int(number) for number in network.grid.bus.id],
    }


def _claim(home: Path, facts: dict[str, Any]) -> None:
    """Begin a data set, or go on with the same one."""
    path = home / METADATA_FILE
    if path.exists():
        known = yaml.safe_load(path.read_text(encoding="utf-8"))
        other = sorted(name for name, value in facts.items() if known.get(name) != value)
        if other:
            raise InputError(f"{home}: holds another data set ({', '.join(other)} differ); choose another --out")
        return
    if home.exists() and any(home.iterdir()):
        raise InputError(f"{home}: is not empty and holds no data set; choose another --out")
    home.mkdir(parents=True, exist_ok=True)
    _write_text(path, facts | {"complete": False})


def _write_text(path: Path, facts: dict[str, Any]) -> None:
    text = yaml.safe_dump(facts, sort_keys=False, allow_unicode=True, default_flow_style=None)
    staged = path.with_suffix(".part")
    staged.write_text(text, encoding="utf-8")
    staged.replace(path)
