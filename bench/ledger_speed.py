"""Time a year of hourly charges: one by one through one ``Ledger``, with and without the syncs, and as one batch.

The syncs are the disk's own time, so the loop is timed once more with them switched off.

    python bench/ledger_speed.py [--hours 8760] [--folder FOLDER]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

from gridveil.privacy import ledger_disk
from gridveil.privacy.ledger import ChargeRequest, Ledger


def timed(what: str, action: Callable[[], object]) -> None:
    """Print how long an action takes."""
    start = time.perf_counter()
    action()
    print(f"{what}: {time.perf_counter() - start:.2f} s")


def one_by_one(path: Path, requests: list[ChargeRequest]) -> Ledger:
    """Charge each hour by itself."""
    ledger = new_ledger(path)
    for request in requests:
        ledger.charge_many([request])
    return ledger


def new_ledger(path: Path) -> Ledger:
    """Start a ledger that a year fits into."""
    return Ledger.create(path, dataset="0" * 64, name="speed", unit="MVA", alpha="10", cap=10**6)


def main() -> None:
    """Run all parts on new ledgers in a temporary folder."""
    parser = argparse.ArgumentParser(description="Time a year of hourly charges.")
    parser.add_argument("--hours", type=int, default=8760)
    parser.add_argument(
        "--folder", type=Path, help="on the disk to be timed; default: the system's for temporary files"
    )
    options = parser.parse_args()
    requests = [
        ChargeRequest(
            epsilon="0.1",
            alpha="5",
            unit="MVA",
            rounding="1/4096",
            mechanism="PlanarLaplace(epsilon=0.1, alpha=0.05, step=1/16384)",
            purpose=f"release of hour {hour}",
            draw=f"{hour:032x}",
        )
        for hour in range(options.hours)
    ]
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        print(f"{options.hours} charges")
        with patch.object(ledger_disk, "sync"):
            timed("one by one, without syncs", lambda: one_by_one(folder / "unsynced", requests))
        timed("one by one", lambda: one_by_one(folder / "single", requests))
        timed("in one batch", lambda: new_ledger(folder / "batch").charge_many(requests))
        for kind in ("single", "batch"):
            timed(f"opening and verifying it ({kind})", lambda kind=kind: Ledger.open(folder / kind))  # type: ignore[misc]
        assert Ledger.open(folder / "single").spent == Ledger.open(folder / "batch").spent


if __name__ == "__main__":
    main()
