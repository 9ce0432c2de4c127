"""The paper's power releases by ``auto``, made as ``gridveil study run --engine gpu`` makes them, beside rows of single releases.

    python bench/study_gpu.py --data FOLDER --engine local --rows reference.csv          # where gridveil is installed
    python bench/study_gpu.py --data FOLDER --engine gpu --reference reference.csv --runs 3 --out study.jsonl

Seconds are those of ``run_study``, from a study that has been read to the last row in its store: reading the networks, starting
worker processes and compiling what the kernels' cache lacks are within them; so the first run on a machine is slower.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import sys
import tempfile
import time
from collections import Counter, defaultdict
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from gridveil.core.choices import BatchEngine
from gridveil.core.methods import Method
from gridveil.study.engine_batch import BatchTaskEngine
from gridveil.study.engine_local import LocalEngine
from gridveil.study.runner import TaskEngine, run_study
from gridveil.study.study_file import Study, find_study, read_study

KEY = ("network", "alpha", "beta", "seed")
SAME = 1e-3  # relative difference of δ that counts as none
TURN = 5e-4  # seconds, as in cli/main.py


def rows_of(store: Path) -> list[dict[str, Any]]:
    """What the bench needs of the rows in a store."""
    names = (*KEY, "verified", "delta", "finished", "worker")
    with sqlite3.connect(store) as connection:
        return [
            dict(zip(names, row, strict=True)) for row in connection.execute(f"SELECT {', '.join(names)} FROM outcomes")
        ]


def run(study: Study, engine: TaskEngine) -> tuple[float, datetime, list[dict[str, Any]]]:
    """Seconds of a study in a store of its own, when it began, and its rows."""
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store.sqlite"
        began, begin = datetime.now(UTC), time.perf_counter()
        run_study(study, store, engine)
        return time.perf_counter() - begin, began, rows_of(store)


def where_time_went(began: datetime, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Seconds until the last row of each network, from its batch and from worker processes; rows that batches made.

    On a GPU these are the rows of the process that has made most.
    """
    made = Counter(row["worker"] for row in rows)
    batches, last = max(made, key=made.__getitem__), defaultdict(lambda: [0.0, 0.0])
    for row in rows:
        ended, by_worker = (datetime.fromisoformat(row["finished"]) - began).total_seconds(), row["worker"] != batches
        last[row["network"]][by_worker] = max(ended, last[row["network"]][by_worker])
    ends = {name: [round(one, 1) for one in both] for name, both in last.items()}
    return {"in_batches": made[batches], "until_batch_and_workers": ends}


def compared(rows: list[dict[str, Any]], reference: Path) -> dict[str, Any]:
    """How many rows have the δ of the reference."""
    names, *lines = [line.split(",") for line in reference.read_text(encoding="utf-8").splitlines()]
    expected = {tuple(line[:-1]): float(line[-1]) for line in lines if line[-1] != "None"}
    found = {tuple(str(row[name]) for name in names[:-1]): row["delta"] for row in rows if row["verified"]}
    both = np.array([(found[key], delta) for key, delta in expected.items() if key in found])
    gap = (both[:, 0] - both[:, 1]) / np.maximum(both[:, 1], 1e-6)
    return {
        "references": len(expected),
        "compared": len(both),
        "same_delta": int((abs(gap) <= SAME).sum()),
        "farther": int((gap > SAME).sum()),
        "nearer": int((gap < -SAME).sum()),
    }


def main() -> None:
    """Read the command line, and run the study."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", default="paper-power")
    parser.add_argument("--data", type=Path, required=True, help="folder that holds the folder of the networks")
    parser.add_argument("--engine", choices=("local", "gpu", "native"), default="gpu")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--seeds", type=int, help="as in the study unless stated")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--rows", type=Path, help="CSV file to write δ of all rows to, as a reference")
    parser.add_argument("--reference", type=Path)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    sys.setswitchinterval(TURN)
    study = replace(read_study(find_study(given.study), given.data), methods=(Method.AUTO,))
    if given.seeds is not None:
        study = replace(study, seeds=study.seeds[: given.seeds])
    engine: TaskEngine = LocalEngine(workers=given.workers)
    if given.engine != "local":
        engine = BatchTaskEngine(choice=BatchEngine(given.engine), workers=given.workers)
    for _ in range(given.runs):
        seconds, began, rows = run(study, engine)
        line = {
            "engine": given.engine,
            "workers": given.workers,
            "seconds": round(seconds, 2),
            "rows": len(rows),
            "verified": sum(row["verified"] for row in rows),
            **(where_time_went(began, rows) if given.engine == "gpu" else {}),
            **(compared(rows, given.reference) if given.reference else {}),
        }
        print(json.dumps(line), flush=True)
        if given.out is not None:
            with given.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
    if given.rows is not None:
        names = (*KEY, "delta")
        lines = [",".join(str(row[name]) for name in names) for row in rows]
        given.rows.write_text("\n".join([",".join(names), *sorted(lines)]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
