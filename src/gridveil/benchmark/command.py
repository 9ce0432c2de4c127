"""The user's clock: ``gridveil release`` as a process of its own, from its start to the published folder and to its end."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from gridveil.benchmark.process import peak_mb, stop
from gridveil.benchmark.public_case import BenchCase

SEED = 5
WARM, COLD = "warm", "cold"
PUBLIC_FOLDER = "public"
RUN = "from gridveil.cli import main; main()"
EMPTY = "import numpy, numba"
"""What every run of the engine must load: the least that a command can take."""
INTERVAL = 0.002  # seconds between two looks at the folder
DONE = "done"


@dataclass(frozen=True, kw_only=True)
class CommandRow:
    """One case: seconds of ``gridveil release``, with compiled kernels on disk (warm) or without any (cold).

    Times are the shortest of the repeats, and all other columns are those of that run.
    """

    case: str
    buses: int
    caches: str
    repeats: int
    seed: int = SEED
    status: str = "failed"
    public_seconds: float | None = None
    """Until the public folder is complete: network, card, page and registry entry, verified from the written file."""
    total_seconds: float | None = None
    """Until the command ends, with certificate and report."""
    empty_seconds: float | None = None
    """A process that imports numpy and numba and does nothing else, in the same run."""
    ipopt_seconds: float | None = None
    """One cold O(d) by CasADi and Ipopt, where ``ipopt`` is among the solvers of the run."""
    peak_mb: float | None = None
    note: str = ""


def command_rows(
    case: BenchCase, *, repeats: int, limit: float, cold: bool, ipopt_seconds: float | None
) -> list[CommandRow]:
    """Measure one case; a cold run comes once, after the warm ones, as compiling takes minutes.

    Runs take turns with empty processes, so that both see the same machine.
    """
    row = CommandRow(case=case.name, buses=case.buses, caches=WARM, repeats=repeats, ipopt_seconds=ipopt_seconds)
    empty, warm = [], []
    for _ in range(repeats):
        empty.append(_empty_seconds(limit))
        warm.append(_measured(row, case.source, limit, {}))
    found = [min(warm, key=lambda one: one.public_seconds or float("inf"))]
    if cold:
        with tempfile.TemporaryDirectory(prefix="gridveil-bench-") as nothing:
            once = replace(row, caches=COLD, repeats=1)
            found.append(_measured(once, case.source, limit, {"NUMBA_CACHE_DIR": nothing}))
    known = [seconds for seconds in empty if seconds is not None]
    return [replace(one, empty_seconds=min(known, default=None)) for one in found]


def _as_installed() -> dict[str, str]:
    """The environment, with Python's own cache of compiled modules, which some build machines switch off."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _empty_seconds(limit: float) -> float | None:
    clock = time.perf_counter()
    try:
        subprocess.run(
            [sys.executable, "-c", EMPTY], env=_as_installed(), check=True, timeout=limit, capture_output=True
        )
    except subprocess.SubprocessError:
        return None
    return time.perf_counter() - clock


def _measured(row: CommandRow, source: str, limit: float, environment: Mapping[str, str]) -> CommandRow:
    """Run the command once and watch its folder."""
    with tempfile.TemporaryDirectory(prefix="gridveil-bench-") as folder:
        out, errors = Path(folder) / "released", Path(folder) / "errors.txt"
        options = ["--seed", str(SEED), "--simulation", "--out", str(out), "--quiet"]
        seen = _watch(
            [sys.executable, "-c", RUN, "release", source, *options],
            _as_installed() | {"GRIDVEIL_HOME": folder} | dict(environment),
            out / PUBLIC_FOLDER,
            errors,
            limit,
        )
        if seen.code == 0:
            return replace(row, status=DONE, public_seconds=seen.public, total_seconds=seen.total, peak_mb=seen.peak_mb)
        last_words = errors.read_text(errors="replace").strip().splitlines()[-1:]
        stopped = seen.code is None
        return replace(
            row,
            status="time limit" if stopped else "failed",
            public_seconds=seen.public,
            peak_mb=seen.peak_mb,
            note=f"stopped after {limit:g} s" if stopped else " ".join([f"ended with code {seen.code}", *last_words]),
        )


@dataclass(frozen=True, kw_only=True)
class _CommandEnd:
    code: int | None
    public: float | None
    total: float
    peak_mb: float | None


def _watch(
    command: Sequence[str], environment: Mapping[str, str], awaited: Path, errors: Path, limit: float
) -> _CommandEnd:
    """Note when a folder appears, which is moved to its place complete, and when the command ends."""
    public, peak = None, None
    with errors.open("w") as stream:
        clock = time.perf_counter()
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stream,
            start_new_session=True,
        )  # fmt: skip
        try:
            while (total := time.perf_counter() - clock) < limit:
                if public is None and awaited.exists():
                    public = total
                peak = peak_mb(process.pid) or peak
                with suppress(subprocess.TimeoutExpired):
                    code = process.wait(INTERVAL)
                    total = time.perf_counter() - clock
                    public = total if public is None and awaited.exists() else public
                    return _CommandEnd(code=code, public=public, total=total, peak_mb=peak)
            return _CommandEnd(code=None, public=public, total=total, peak_mb=peak)
        finally:
            stop(process)
