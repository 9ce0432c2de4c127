"""A data set for learning: optimal power flows of many scenarios of one network, as Parquet files.

From a released network it is post-processing: it is made from the files of the release alone and spends no ε. From a network
whose demands are true it is not private at all, and every file says so.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from numpy.typing import NDArray

from gridveil import __version__
from gridveil.core.choices import BatchEngine, Outages, TableLayout
from gridveil.core.errors import InputError
from gridveil.core.parallel import all_cores
from gridveil.privacy.curator import published_values
from gridveil.sectors.power.arrays import structured_arrays
from gridveil.sectors.power.case import power_network
from gridveil.sectors.power.network import PowerNetwork
from gridveil.sectors.registry import load_case
from gridveil.service.data_set_rules import LoadRule, Sampler, load_rule, sampler
from gridveil.service.data_set_tables import Solved, gridfm_tables, pglearn_tables
from gridveil.service.public_files import CARD_FILE
from gridveil.service.publish import PUBLIC, SIMULATION
from gridveil.solvers.batch.backends import batch_backend
from gridveil.solvers.batch.contract import BatchBackend
from gridveil.solvers.batch.network import BatchNetwork, lower_network

METADATA_FILE, NOT_PRIVATE_FOLDER = "metadata.yaml", "not-private"
SPENDS_NOTHING = (
    "made from the files of the release alone: post-processing, which spends no epsilon; the promise of the card holds for "
    "this data set as it does for the release"
)
NOT_PRIVATE = "NOT PRIVATE: made from true or simulated demands, which it shows; no promise of privacy holds"
PARTITION = 200
"""Scenarios per partition of gridfm-datakit's layout."""
WRITERS = 4
"""Shards that are made into files while the next is solved."""
TABLE_ROWS = 256
"""Scenarios that are made into a table at a time, by one thread."""
SHARD_NUMBERS = 150_000_000
"""Numbers of a shard, about: what is held in memory is a few times that."""


@dataclass(frozen=True, kw_only=True)
class DataSetRequest:
    """What is asked for; the rows depend on nothing else."""

    source: str
    """Folder of a release, or with ``not_private`` any power case."""
    scenarios: int
    loads: str
    outages: Outages = Outages.NONE
    layout: TableLayout = TableLayout.PGLEARN
    seed: int = 0
    retries: int = 20
    """Scenarios per shard that the structured solver tries where the batch finds no solution."""
    not_private: bool = False

    def __post_init__(self) -> None:
        """Refuse numbers that mean nothing."""
        if self.scenarios < 1 or self.seed < 0 or self.retries < 0:
            raise InputError("scenarios must be at least 1, seed and retries at least 0")


@dataclass(frozen=True, eq=False, kw_only=True)
class DataSetSource:
    """The network that scenarios are made of, with its demands (D,) per unit, and what may be said of their privacy."""

    network: PowerNetwork
    demand: NDArray[np.complex128]
    private: bool
    promise: dict[str, Any] | None
    """The card's, of a release that is private."""


def make_data_set(
    request: DataSetRequest,
    folder: Path,
    engine: BatchEngine = BatchEngine.AUTO,
    *,
    advance: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Write the data set, or what is missing of it; return its metadata with the counts of solved and failed scenarios.

    ``advance`` is called after each shard.
    """
    source, rule = open_source(request), load_rule(request.loads)
    arrays = structured_arrays(source.network)
    lowered = lower_network(arrays)
    drawn = sampler(arrays, source.demand, rule, request.outages, request.seed)
    home = folder if source.private else folder / NOT_PRIVATE_FOLDER
    shard = shard_size(lowered, request.layout)
    backend = batch_backend(lowered, engine, retries=request.retries)
    facts = _metadata(request, source, rule, shard)
    _claim(home, facts)
    writer = _Writer(home=home, request=request, notice=str(facts["privacy"]), source=source, lowered=lowered)
    counts = {"solved": 0, "failed": 0}
    waiting: deque[Future[dict[str, int]]] = deque()

    def take(most: int) -> None:
        """Wait until at most so many shards are being written."""
        nonlocal counts
        while len(waiting) > most:
            written = waiting.popleft().result()
            counts = {name: count + written[name] for name, count in counts.items()}
            advance()

    with ThreadPoolExecutor(WRITERS) as writers:
        for index, begin in enumerate(range(0, request.scenarios, shard)):
            end = min(begin + shard, request.scenarios)
            known = writer.finished(index)
            if known is None:
                waiting.append(writers.submit(writer.write, index, writer.solved(begin, end, drawn, backend)))
            else:
                counts = {name: count + known[name] for name, count in counts.items()}
                advance()
            take(WRITERS)
        take(0)
    whole = facts | counts | {"complete": True}
    _write_text(home / METADATA_FILE, whole)
    if request.layout is TableLayout.GRIDFM:
        (home / "raw" / "n_scenarios.txt").write_text(f"{request.scenarios}\n", encoding="utf-8")
    return whole | {"engine": backend.name, "folder": str(home)}


def open_source(request: DataSetRequest) -> DataSetSource:
    """Read the released network with its card; without one, insist that nobody takes the result for private."""
    folder = Path(request.source)
    for place in (folder, folder / PUBLIC, folder / SIMULATION):
        files = sorted(place.glob("network*")) if (place / CARD_FILE).exists() else []
        if files:
            card = yaml.safe_load((place / CARD_FILE).read_text(encoding="utf-8"))
            if card["simulation"] and not request.not_private:
                raise InputError(
                    f"{place}: is a simulation, which protects nobody; --not-private takes it all the same"
                )
            return _source(str(files[0]), private=not card["simulation"], promise=dict(card["promise"]))
    if not request.not_private:
        raise InputError(
            f"{request.source}: is no folder of a release with its card; a data set from true demands is not private, and "
            "needs --not-private"
        )
    return _source(request.source, private=False, promise=None)


def _source(path: str, *, private: bool, promise: dict[str, Any] | None) -> DataSetSource:
    case = load_case(path)
    network = power_network(case)
    if network is None:
        raise InputError(f"{path}: is a {case.network.kind} network; data sets are made of power networks")
    demand = published_values(case)[network.served]
    return DataSetSource(network=network, demand=demand, private=private, promise=promise if private else None)


def shard_size(network: BatchNetwork, layout: TableLayout) -> int:
    """Scenarios of a shard, by the size of the network; whole partitions, so that a shard shares none with another."""
    grid = network.grid
    per_scenario = 15 * grid.n_bus + 25 * len(grid.branch_from) + 12 * len(grid.gen_bus)
    size = SHARD_NUMBERS // per_scenario
    if layout is TableLayout.GRIDFM:
        size = size // 4 // PARTITION * PARTITION
    return max(size, PARTITION)


def _metadata(request: DataSetRequest, source: DataSetSource, rule: LoadRule, shard: int) -> dict[str, Any]:
    network = source.network
    return {
        "privacy": SPENDS_NOTHING if source.private else NOT_PRIVATE,
        "private": source.private,
        "promise": source.promise,
        "software": f"gridveil {__version__}",
        "problem": "AC optimal power flow in polar voltages",
        "scenarios": request.scenarios,
        "loads": rule.text,
        "outages": request.outages.value,
        "layout": request.layout.value,
        "seed": request.seed,
        "retries": request.retries,
        "scenarios_per_shard": shard,
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


@dataclass(frozen=True, eq=False, kw_only=True)
class _Writer:
    """Writes shards. The table of failures comes last: a shard that has one is complete."""

    home: Path
    request: DataSetRequest
    notice: str
    source: DataSetSource
    lowered: BatchNetwork

    def _failures(self, index: int) -> Path:
        return self.home / "failures" / f"part-{index:05d}.parquet"

    def finished(self, index: int) -> dict[str, int] | None:
        """Counts of a shard that an earlier run completed."""
        path = self._failures(index)
        if not path.exists():
            return None
        notes = pq.read_schema(path).metadata
        return {name: int(notes[name.encode()]) for name in ("solved", "failed")}

    def solved(self, begin: int, end: int, drawn: Sampler, backend: BatchBackend) -> Solved:
        """The scenarios begin … end − 1 with their answers."""
        scenarios = drawn.rows(begin, end)
        answer = backend.dispatch(scenarios)
        return Solved(
            network=self.source.network, lowered=self.lowered, first=begin, scenarios=scenarios, answer=answer
        )

    def write(self, index: int, solved: Solved) -> dict[str, int]:
        """Write a shard; return the counts of solved and failed scenarios."""
        answer, begin = solved.answer, solved.first
        if self.request.layout is TableLayout.PGLEARN:
            with ThreadPoolExecutor(all_cores()) as pool:  # NumPy computes without the interpreter lock
                tables = list(pool.map(pglearn_tables, solved.parts(TABLE_ROWS)))
            for name, parts in zip(("solved", "unsolved"), zip(*tables, strict=True), strict=True):
                self._put(self.home / name / f"part-{index:05d}.parquet", pa.concat_tables(parts), {})
        else:
            self._put_partitions(gridfm_tables(solved))
        failures = answer.failures()
        failures["scenario"] = failures["scenario"] + begin
        found = {"solved": int(answer.converged.sum()), "failed": len(failures["scenario"])}
        self._put(self._failures(index), pa.table(failures), {name: str(count) for name, count in found.items()})
        return found

    def _put_partitions(self, tables: dict[str, pa.Table]) -> None:
        for name, table in tables.items():
            partition = table["scenario"].to_numpy() // PARTITION
            for number in np.unique(partition).tolist():
                some = table.filter(pa.array(partition == number))
                folder = self.home / "raw" / f"{name}.parquet" / f"scenario_partition={number}"
                self._put(folder / "part-0.parquet", some, {})

    def _put(self, path: Path, table: pa.Table, notes: dict[str, str]) -> None:
        """Write a file that is whole or not there, with the word on privacy inside."""
        path.parent.mkdir(parents=True, exist_ok=True)
        staged = path.with_name(f".{path.name}-{os.getpid()}")
        labelled = table.replace_schema_metadata({"gridveil_privacy": self.notice, **notes})
        pq.write_table(labelled, staged, compression="zstd", use_dictionary=False)
        staged.replace(path)
