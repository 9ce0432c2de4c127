"""One measurement per process, so that it can be stopped, starts clean, and its memory can be measured."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gridveil.core.extras import is_installed

WORKER = "gridveil.benchmark.worker"


@dataclass(frozen=True, kw_only=True)
class ProcessEnd:
    """How a process ended: its exit code, or None if it was killed at the limit, and then its peak memory in MB."""

    code: int | None
    peak_mb: float | None


def measure_apart(request: Mapping[str, Any], limit: float | None) -> dict[str, Any]:
    """Run one request in a worker and return its last report, which shows its progress if it was stopped or crashed."""
    with tempfile.TemporaryDirectory(prefix="gridveil-bench-") as folder:
        path, errors = Path(folder) / "report.json", Path(folder) / "errors.txt"
        ending = supervise([sys.executable, "-m", WORKER, json.dumps(dict(request)), str(path)], limit, errors)
        report: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        if ending.code is None:
            report["peak_mb"] = ending.peak_mb
            if "status" not in report:  # else it was stopped after it had an answer, while it repeated the solve
                note = f"stopped after {limit:g} s, during {report.get('stage', 'start')}"
                report |= {"status": "time limit", "note": note}
        elif ending.code != 0:
            last_words = errors.read_text(errors="replace").strip().splitlines()[-1:]
            report |= {"status": "failed", "note": " ".join([f"ended with code {ending.code}", *last_words])}
        return report


def supervise(command: Sequence[str], limit: float | None, errors: Path) -> ProcessEnd:
    """Run a command silently; kill its process group at the limit (seconds) or on interruption."""
    with errors.open("w") as stream:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stream, start_new_session=True
        )
        try:
            return ProcessEnd(code=process.wait(limit), peak_mb=None)
        except subprocess.TimeoutExpired:
            return ProcessEnd(code=None, peak_mb=peak_mb(process.pid))
        finally:
            stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that leads its own group, and the group with it, if it still runs."""
    if process.poll() is None:
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:  # Windows has no groups
            process.kill()
        process.wait()


def peak_mb(pid: int | None = None) -> float | None:
    """Peak resident memory of a process, or of this one.

    The kernel's high-water mark is preferred to ru_maxrss, which a child inherits from its parent.
    """
    status = Path(f"/proc/{pid or os.getpid()}/status")
    with suppress(OSError):
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    if pid is not None:
        return None
    if not is_installed("resource"):  # Windows
        return None
    import resource

    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
