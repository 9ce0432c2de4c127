"""The table of the study ``secrets``: one row per secret and network.

    gridveil study run secrets --workers 1 --store secrets.sqlite
    python bench/secrets_table.py secrets.sqlite --out FILE.csv

Medians and worst cases are over the seeds; distances and cost errors of releases that were verified, seconds of all.
Distances are relative to the true values, in units of α. ``unchanged`` counts releases whose noisy values had a cost in the
band already.
"""

from __future__ import annotations

import argparse
import csv
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

ORDER = ("demand", "cost", "limit", "impedance", "all")
COLUMNS = "network, buses, sites, verified, ending, noisy_distance, released_distance, true_cost, cost, seconds"


def read(store: Path) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """All rows of a store by secret and network."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    with closing(sqlite3.connect(store)) as database:
        database.row_factory = sqlite3.Row
        for row in database.execute(f"SELECT {COLUMNS} FROM outcomes"):
            secret, network = row["network"].split(" ", 1)
            found.setdefault((secret, network), []).append(dict(row))
    return dict(sorted(found.items(), key=lambda item: (ORDER.index(item[0][0]), item[1][0]["buses"])))


def summary(secret: str, network: str, rows: list[dict[str, Any]]) -> dict[str, object]:
    """One line of the table."""
    good = [row for row in rows if row["verified"]]
    errors = [abs(row["cost"] / row["true_cost"] - 1) for row in good]
    seconds = [row["seconds"] for row in rows]
    return {
        "secret": secret,
        "network": f"case{network}",
        "buses": rows[0]["buses"],
        "values": rows[0]["sites"],
        "seeds": len(rows),
        "verified": len(good),
        "unchanged": sum(row["ending"] == "NOISY_IN_BAND" for row in good),
        "noisy_distance": _digits([row["noisy_distance"] for row in good], np.median),
        "released_distance": _digits([row["released_distance"] for row in good], np.median),
        "cost_error_median": _digits(errors, np.median),
        "cost_error_worst": _digits(errors, np.max),
        "seconds_median": _digits(seconds, np.median, 3),
        "seconds_worst": _digits(seconds, np.max, 3),
    }


def _digits(values: list[float], measure: Any, digits: int = 5) -> str:
    """A measure of values, rounded; empty where there are none."""
    return f"{measure(values):.{digits}f}" if values else ""


def main() -> None:
    """Print the table and write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args()
    lines = [summary(*key, rows) for key, rows in read(chosen.store).items()]
    with chosen.out.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(lines[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
    for line in lines:
        print("  ".join(f"{value!s:>9}" for value in line.values()))


if __name__ == "__main__":
    main()
