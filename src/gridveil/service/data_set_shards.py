"""The shards of a data set: scenarios that are solved and written together, by whoever has the request.

A shard is made of the request and its number alone, and its files are whole or not there, so that shards may be made in any
order, again after a stop, and by several machines that share a folder.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from gridveil.core.choices import BatchEngine, Outages, TableLayout
from gridveil.sectors.power.arrays import structured_arrays
from gridveil.service.data_set_pglearn import pglearn_tables, solution_vectors
from gridveil.service.data_set_retries import retried
from gridveil.service.data_set_rules import Sampler, load_rule, outage_states, sampler
from gridveil.service.data_set_tables import Solved, gridfm_tables
from gridveil.solvers.batch.backends import batch_backend
from gridveil.solvers.batch.contract import BatchBackend, Scenarios
from gridveil.solvers.batch.network import BatchNetwork, lower_network
from gridveil.solvers.batch.solver import BatchSolver

if TYPE_CHECKING:
    from gridveil.service.data_set_source import DataSetRequest, DataSetSource

NOT_PRIVATE_FOLDER = "not-private"
PARTITION = 200
"""Scenarios per partition of gridfm-datakit's layout."""
PARTITION_FOLDER = "scenario_partition="
"""Beginning of the names of their folders."""
SHARD_NUMBERS = 300_000_000
"""Numbers that are computed for a shard, about, by which a GPU is busy; half of them are held until they are written."""

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
        from gridveil.service.data_set_source import open_source  # reads cases, which the shards themselves do not need

        source, rule = open_source(request), load_rule(request.loads)
        arrays = structured_arrays(source.network)
        lowered = lower_network(arrays)
        gridfm = request.layout is TableLayout.GRIDFM
        # gridfm-datakit never switches off what feeds the reference bus, and its checks refuse such scenarios.
        states = outage_states(arrays, reference_stays=gridfm) if request.outages is Outages.N_1 else None
        return cls(
            folder=folder,
            request=request,
            source=source,
            lowered=lowered,
            drawn=sampler(arrays, source.demand, rule, states, request.seed),
            size=size or shard_size(lowered, request.layout),
        )

    @property
    def home(self) -> Path:
        """Folder of the files: one of its own where they are not private."""
        return self.folder if self.source.private else self.folder / NOT_PRIVATE_FOLDER

    @property
    def content(self) -> tuple[str, str | None]:
        """SHA-256 of the network with its demands, and of the profile if there is one."""
        return self.source.content, self.drawn.loads.content

    @property
    def count(self) -> int:
        """Number of shards."""
        return -(-self.request.scenarios // self.size)

    def backend(self, engine: BatchEngine) -> BatchBackend:
        """What solves the scenarios, but for those that are retried when a shard is written."""
        usual = (self.drawn.demand_p, self.drawn.demand_q) if self.drawn.loads.stays_near else None
        return batch_backend(self.lowered, engine, retries=0, usual=usual)

    def _failures(self, index: int) -> Path:
        return self.home / "failures" / f"part-{index:05d}.parquet"

    def finished(self, index: int) -> dict[str, int] | None:
        """Counts of a shard that an earlier run completed."""
        path = self._failures(index)
        if not path.exists():
            return None
        notes = pq.read_schema(path).metadata
        return {name: int(notes[name.encode()]) for name in ("solved", "failed")}

    def failed(self, index: int) -> NDArray[np.int64]:
        """Numbers of the scenarios without a solution of a shard that is complete."""
        numbers: NDArray[np.int64] = pq.read_table(self._failures(index), columns=["scenario"])["scenario"].to_numpy()
        return numbers

    def scenarios(self, index: int) -> Scenarios:
        """The scenarios of a shard."""
        begin = index * self.size
        return self.drawn.rows(begin, min(begin + self.size, self.request.scenarios))

    def solved(self, index: int, scenarios: Scenarios, backend: BatchBackend) -> Solved:
        """The scenarios of a shard with their answers; of points no more is brought to the host than the layout has."""
        pglearn = self.request.layout is TableLayout.PGLEARN
        if pglearn and isinstance(backend, BatchSolver):
            answer, xp = backend.dispatch(scenarios, at_home=False), backend.xp
        else:
            answer, xp = backend.dispatch(scenarios), np
        made = Solved(
            network=self.source.network,
            lowered=self.lowered,
            first=index * self.size,
            scenarios=scenarios,
            answer=answer,
        )
        if not pglearn:
            return made
        good = np.flatnonzero(answer.converged)
        vectors = solution_vectors(self.lowered, scenarios, made.points, good, xp)
        return replace(made, answer=replace(answer, points=None), vectors=vectors)

    def write(self, index: int, solved: Solved) -> dict[str, int]:
        """Write a shard; return the counts of solved and failed scenarios."""
        solved = retried(solved, self.request.retries)
        if self.request.layout is TableLayout.PGLEARN:
            for name, table in zip(("solved", "unsolved"), pglearn_tables(solved), strict=True):
                self.put(self.home / name / f"part-{index:05d}.parquet", table)
        else:
            self._put_partitions(solved)
        answer, failures = solved.answer, solved.answer.failures()
        failures["scenario"] = failures["scenario"] + solved.first
        found = {"solved": int(answer.converged.sum()), "failed": len(failures["scenario"])}
        self.put(self._failures(index), pa.table(failures), **{name: str(count) for name, count in found.items()})
        return found

    def _put_partitions(self, solved: Solved) -> None:
        """Write every partition of a shard, also where nothing is solved: readers open all up to the last."""
        last = solved.first + len(solved.scenarios) - 1
        for name, table in gridfm_tables(solved).items():
            partition = table["load_scenario_idx"].to_numpy() // PARTITION
            for number in range(solved.first // PARTITION, last // PARTITION + 1):
                some = table.filter(pa.array(partition == number))
                self.put(self.home / "raw" / f"{name}.parquet" / f"{PARTITION_FOLDER}{number}" / "part-0.parquet", some)

    def sweep(self) -> None:
        """Remove what was being written when a process was killed; for when all shards are complete."""
        for staged in self.home.glob(f"**/{STAGED}*"):
            staged.unlink(missing_ok=True)

    def put(self, path: Path, table: pa.Table, **notes: str) -> None:
        """Write a file that is whole or not there, with the word on privacy inside."""
        path.parent.mkdir(parents=True, exist_ok=True)
        staged = path.with_name(f"{STAGED}{path.name}-{os.getpid()}")
        labelled = table.replace_schema_metadata({"gridveil_privacy": self.source.notice, **notes})
        pq.write_table(
            labelled, staged, compression="zstd", use_dictionary=False, column_encoding=_encodings(labelled.schema)
        )
        staged.replace(path)


def _encodings(schema: pa.Schema) -> dict[str, str]:
    """Vectors of float32 byte by byte: signs and exponents lie together, which makes files a sixth smaller."""
    vectors = [field.name for field in schema if pa.types.is_fixed_size_list(field.type)]
    floats = [name for name in vectors if pa.types.is_float32(schema.field(name).type.value_type)]
    return {f"{name}.list.element": "BYTE_STREAM_SPLIT" for name in floats}


def shard_size(network: BatchNetwork, layout: TableLayout) -> int:
    """Scenarios of a shard, by the size of the network; whole partitions, so that a shard shares none with another."""
    grid = network.grid
    per_scenario = 15 * grid.n_bus + 25 * len(grid.branch_from) + 12 * len(grid.gen_bus)
    size = SHARD_NUMBERS // per_scenario
    if layout is TableLayout.GRIDFM:
        size = size // 4 // PARTITION * PARTITION
    return max(size, PARTITION)
