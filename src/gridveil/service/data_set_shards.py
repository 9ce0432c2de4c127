"""The shards of a data set: scenarios that are solved and written together, by whoever has the request.

A shard is made of the request and its number alone, and its files are whole or not there, so that shards may be made in any
order, again after a stop, and by several machines that share a folder.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gridveil.core.choices import BatchEngine, TableLayout
from gridveil.core.threads import all_cores
from gridveil.sectors.power.arrays import structured_arrays
from gridveil.service.data_set_rules import Sampler, load_rule, sampler
from gridveil.service.data_set_source import DataSetRequest, DataSetSource, open_source
from gridveil.service.data_set_tables import Solved, gridfm_tables, pglearn_tables
from gridveil.solvers.batch.backends import batch_backend
from gridveil.solvers.batch.contract import BatchBackend
from gridveil.solvers.batch.network import BatchNetwork, lower_network

NOT_PRIVATE_FOLDER = "not-private"
PARTITION = 200
"""Scenarios per partition of gridfm-datakit's layout."""
TABLE_ROWS = 256
"""Scenarios that are made into a table at a time, by one thread."""
SHARD_NUMBERS = 150_000_000
"""Numbers of a shard, about: what is held in memory is a few times that."""

STAGED = ".part-"
"""Beginning of the names of files that are not whole yet."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Shards:
    """The shards of one data set. The table of failures of a shard comes last: a shard that has one is complete."""

    folder: Path
    """Where the data set was asked for."""
    request: DataSetRequest
    source: DataSetSource
    lowered: BatchNetwork
    drawn: Sampler
    size: int
    """Scenarios per shard."""

    @classmethod
    def of(cls, request: DataSetRequest, folder: Path, size: int | None = None) -> Shards:
        """Read the network of a request; nothing is written. By default the ``size`` of shards is that of the network."""
        source, rule = open_source(request), load_rule(request.loads)
        arrays = structured_arrays(source.network)
        lowered = lower_network(arrays)
        return cls(
            folder=folder,
            request=request,
            source=source,
            lowered=lowered,
            drawn=sampler(arrays, source.demand, rule, request.outages, request.seed),
            size=size or shard_size(lowered, request.layout),
        )

    @property
    def home(self) -> Path:
        """Folder of the files: one of its own where they are not private."""
        return self.folder if self.source.private else self.folder / NOT_PRIVATE_FOLDER

    @property
    def count(self) -> int:
        """Number of shards."""
        return -(-self.request.scenarios // self.size)

    def backend(self, engine: BatchEngine) -> BatchBackend:
        """What solves the scenarios."""
        usual = (self.drawn.demand_p, self.drawn.demand_q) if self.drawn.loads.stays_near else None
        return batch_backend(self.lowered, engine, retries=self.request.retries, usual=usual)

    def _failures(self, index: int) -> Path:
        return self.home / "failures" / f"part-{index:05d}.parquet"

    def finished(self, index: int) -> dict[str, int] | None:
        """Counts of a shard that an earlier run completed."""
        path = self._failures(index)
        if not path.exists():
            return None
        notes = pq.read_schema(path).metadata
        return {name: int(notes[name.encode()]) for name in ("solved", "failed")}

    def solved(self, index: int, backend: BatchBackend) -> Solved:
        """The scenarios of a shard with their answers."""
        begin = index * self.size
        scenarios = self.drawn.rows(begin, min(begin + self.size, self.request.scenarios))
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

    def sweep(self) -> None:
        """Remove what was being written when a process was killed; for when all shards are complete."""
        for staged in self.home.glob(f"**/{STAGED}*"):
            staged.unlink(missing_ok=True)

    def _put(self, path: Path, table: pa.Table, notes: dict[str, str]) -> None:
        """Write a file that is whole or not there, with the word on privacy inside."""
        path.parent.mkdir(parents=True, exist_ok=True)
        staged = path.with_name(f"{STAGED}{path.name}-{os.getpid()}")
        labelled = table.replace_schema_metadata({"gridveil_privacy": self.source.notice, **notes})
        pq.write_table(labelled, staged, compression="zstd", use_dictionary=False)
        staged.replace(path)


def shard_size(network: BatchNetwork, layout: TableLayout) -> int:
    """Scenarios of a shard, by the size of the network; whole partitions, so that a shard shares none with another."""
    grid = network.grid
    per_scenario = 15 * grid.n_bus + 25 * len(grid.branch_from) + 12 * len(grid.gen_bus)
    size = SHARD_NUMBERS // per_scenario
    if layout is TableLayout.GRIDFM:
        size = size // 4 // PARTITION * PARTITION
    return max(size, PARTITION)
