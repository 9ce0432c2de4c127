"""Numbers of the scenarios in gridfm-datakit's tables, whose readers want those that were solved counted without a gap.

A shard is written before it is known what is solved in those before it, so that scenarios are numbered when all shards are there:
``scenario`` is the place among the solved ones, ``load_scenario_idx`` stays the number that a scenario was drawn under.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from gridveil.service.data_set_here import writers
from gridveil.service.data_set_shards import PARTITION_FOLDER, Shards

Ints = NDArray[np.int64]


def number_solved(shards: Shards) -> None:
    """Number the solved scenarios of all tables; what was numbered before, by a run that was stopped, stays as it is."""
    failed = np.sort(np.concatenate([shards.failed(index) for index in range(shards.count)]))
    if not len(failed):
        return

    def number(path: Path) -> None:
        table = pq.read_table(path, partitioning=None)
        numbers = _places(table, failed)
        if not np.array_equal(numbers, table["scenario"].to_numpy()):
            shards.put(path, table.set_column(table.schema.get_field_index("scenario"), "scenario", pa.array(numbers)))

    with ThreadPoolExecutor(writers()) as pool:
        list(pool.map(number, sorted(shards.home.glob(f"raw/*/{PARTITION_FOLDER}*/*.parquet"))))


def _places(table: pa.Table, failed: Ints) -> Ints:
    """Place of the scenario of each row among the solved ones."""
    drawn = table["load_scenario_idx"].to_numpy().astype(np.int64)
    places: Ints = drawn - np.searchsorted(failed, drawn)
    return places
