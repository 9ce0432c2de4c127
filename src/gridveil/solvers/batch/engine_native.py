"""The kernels on a CPU: compiled by g++ when first needed, kept in a cache folder, one thread per core."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridveil.core.errors import InputError
from gridveil.core.threads import all_cores
from gridveil.solvers.batch.compiled_check import CHECK_STRUCTURES, check_source, check_structures
from gridveil.solvers.batch.engine import (
    Array,
    Ints,
    RawInput,
    RawOutput,
    RunOptions,
    batch_values,
    net_values,
    outputs,
)
from gridveil.solvers.batch.layout import N_SCALARS, filled, kernel_source, row_fields, structure_type
from gridveil.solvers.batch.network import BatchNetwork
from gridveil.solvers.batch.row_kernels import ROW_STRUCTURES, row_source, row_structures
from gridveil.solvers.batch.stream import AVAILABLE, EMPTY, RowCounts, RowNumbers, StreamArrays

NATIVE = "native"
COMPILER = "g++"
FLAGS = ("-O3", "-march=native", "-std=c++17", "-fno-math-errno", "-fno-trapping-math", "-fPIC", "-shared", "-pthread",
         "-w", "-x", "c++")  # fmt: skip
ENOUGH = 4
"""Part of the problems under way that has to end before the caller looks at them, while threads that have none wait."""
_BUILD_LIMIT = 300.0  # seconds


def missing_compiler() -> str | None:
    """What the native engine lacks, in one line, or None."""
    found = shutil.which(COMPILER)
    return (
        None
        if found
        else f"the native batch solver needs the compiler {COMPILER}: install it, or use the GPU or structured"
    )


class NativeEngine:
    """The kernels compiled for this machine's processor."""

    name = NATIVE
    xp = np
    state_bytes = 256 << 20
    """Larger batches are no quicker here, and nobody sees a result before all of a batch have theirs."""

    def __init__(
        self,
        threads: int | None = None,
        *,
        lanes: int = 1,
        team: int | None = None,
        split: int = 1,
        by_bus: bool = False,
    ) -> None:
        """``lanes`` threads share a scenario, in teams, and ``split`` of them a block, as on a GPU.

        With ``by_bus`` one lane evaluates the branches of each bus, as on a GPU, rather than all branches in vectors. All of
        that is slow: it is for tests of what only happens there.
        """
        missing = missing_compiler()
        if missing:
            raise InputError(missing)
        self._threads = threads or all_cores()
        self._form = (lanes, team or lanes, split, lanes == 1 and not by_bus)

    def _library(self, rows: int = 0) -> ctypes.CDLL:
        """The kernels for tasks with so many dense rows."""
        return _library(self._form, rows)

    def send(self, *arrays: Array) -> tuple[list[Array], None]:
        """The arrays themselves."""
        return [np.ascontiguousarray(array, np.float64) for array in arrays], None

    def is_short_of_memory(self, network: BatchNetwork, given: RawInput) -> bool:
        """Never: a thread has one slot."""
        return False

    def run(self, network: BatchNetwork, given: RawInput, options: RunOptions) -> RawOutput:
        """Solve a batch; every thread works through scenarios in a slot of its own."""
        varied, n_scenarios = given.local is not None, len(given.demand_p)
        values = net_values(network, network.tables, varied, options)
        threads = max(1, min(self._threads, n_scenarios, options.slots or n_scenarios))
        made = outputs(np, n_scenarios, values["n_point"])
        memory: Array = np.zeros(threads * values["n_slot"])
        softness: Array = np.zeros(threads * values["n_limit"], np.float32)
        work: dict[str, Any] = {"memory": memory, "softness": softness, "n_tiles": threads}
        structures = [filled("Net", values), filled("Batch", batch_values(given, made)), filled("Work", work)]
        library = self._library(network.rows)
        begin = perf_counter()
        library.gridveil_run(*(ctypes.c_void_p(one.ctypes.data) for one in structures))
        seconds = perf_counter() - begin
        made.pop("counter")
        return RawOutput(**made, seconds=seconds)

    def check(self, net: dict[str, Any], batch: dict[str, Any]) -> None:
        """Check answers, every thread its share of them."""
        structures, threads = check_structures(net, batch), max(1, min(self._threads, batch["n_rows"]))
        _check_library().gridveil_check(*(ctypes.c_void_p(one.ctypes.data) for one in structures), threads)

    def on_rows(self, operation: int, net: dict[str, Any], state: dict[str, Any], asked: Array, told: Array) -> None:
        """An operation, every thread on its share of the rows."""
        structures, count = row_structures(net, state), len(asked)
        given = (ctypes.c_void_p(one.ctypes.data) for one in (*structures, asked, told))
        _row_library().gridveil_rows(int(operation), *given, count, max(1, min(self._threads, count)))

    def suited(self, network: BatchNetwork, rows: int) -> NativeEngine:
        """Itself, for all that it is asked."""
        return self

    def open(self, network: BatchNetwork, rows: int, options: RunOptions) -> NativeStream:
        """A stream for so many rows; each thread has a slot in it."""
        return NativeStream(self._library(network.rows), network, rows, options, min(self._threads, rows))

    def advance(self, streams: Sequence[Any]) -> None:
        """Work until enough problems have ended and there are more threads than problems; streams share the cores."""
        busy = [stream for stream in streams if stream.busy]
        under_way = sum(stream.busy for stream in busy)
        working = np.array([0, 0, self._threads, -(-under_way // ENOUGH)], np.int32)
        others = [threading.Thread(target=stream.work, args=(working,)) for stream in busy[1:]]
        for other in others:
            other.start()
        if busy:
            busy[0].work(working)
        for other in others:
            other.join()

    def attending(self, streams: Sequence[Any]) -> AbstractContextManager[None]:
        """Nothing: no work is under way between two calls."""
        return nullcontext()


class NativeStream:
    """Problems under way in slots of the processor."""

    def __init__(self, library: ctypes.CDLL, network: BatchNetwork, rows: int, options: RunOptions, slots: int) -> None:
        self._library, self._network = library, network
        self.arrays, self._rows = StreamArrays.empty(np, network, rows), RowCounts(rows)
        values = net_values(network, network.tables, network.rows > 0, options)
        memory: Array = np.zeros((slots, values["n_slot"]))
        memory[:, values["o_scalar"]] = float(EMPTY)
        self._kept = (memory, np.zeros(slots * values["n_limit"], np.float32))
        work = {"memory": memory, "softness": self._kept[1], "n_tiles": slots}
        self._net, self._work = filled("Net", values), filled("Work", work)

    @property
    def busy(self) -> int:
        """How many problems are under way."""
        return self._rows.busy

    def begin(self, rows: Ints) -> None:
        """Begin problems."""
        self._rows.begin(rows)
        self.arrays.queue[:] = self._rows.ring
        self.arrays.made["counter"][AVAILABLE] = self._rows.put

    def work(self, working: NDArray[np.int32]) -> None:
        """Work until the kernels say that there is something to look at."""
        batch = filled("Batch", self.arrays.batch_values(working))
        self._library.gridveil_run(*(ctypes.c_void_p(one.ctypes.data) for one in (self._net, batch, self._work)))

    def ended(self) -> Ints:
        """Rows whose problems have ended."""
        return self._rows.end(self.arrays.told[0])

    def numbers(self, rows: Ints) -> RowNumbers:
        """What their problems came to."""
        return RowNumbers.of(self.arrays.told, self.arrays.made["cost"], rows)


@cache
def _check_library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(_built(check_source())))
    _confirm(
        library.gridveil_check_sizes, [structure_type(name, CHECK_STRUCTURES).itemsize for name in CHECK_STRUCTURES]
    )
    return library


@cache
def _row_library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(_built(row_source())))
    _confirm(library.gridveil_rows_sizes, [structure_type(name, ROW_STRUCTURES).itemsize for name in ROW_STRUCTURES])
    return library


def _confirm(asked: Any, expected: list[int]) -> None:
    sizes = (ctypes.c_longlong * len(expected))()
    asked(sizes)
    if list(sizes) != expected:
        raise RuntimeError("the structures of the kernels and those of Python differ")


@cache
def _library(form: tuple[int, int, int, bool], rows: int) -> ctypes.CDLL:
    defined = zip(("LANES", "TEAM", "SPLIT", "WIDE"), map(int, form), strict=True)
    lines = [*(f"#define {name} {value}" for name, value in defined), kernel_source(rows)]
    library = ctypes.CDLL(str(_built("\n".join(lines))))
    sizes = [structure_type(name).itemsize for name in ("Net", "Batch", "Work")]
    _confirm(library.gridveil_sizes, [*sizes, N_SCALARS, row_fields(rows)])
    return library


def _built(source: str) -> Path:
    """The compiled library; its name tells source, flags and processor apart."""
    processor = (
        Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n")[0] if Path("/proc/cpuinfo").exists() else ""
    )
    model = [
        line for line in processor.splitlines() if line.startswith(("model name", "flags", "CPU part", "Features"))
    ]
    key = hashlib.sha256("\n".join([source, *FLAGS, *model]).encode()).hexdigest()[:20]
    folder = _cache_folder()
    library = folder / f"batch-{key}.so"
    if library.exists():
        return library
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        text, made = Path(scratch) / "kernels.cpp", Path(scratch) / "kernels.so"
        text.write_text(source, encoding="utf-8")
        try:
            done = subprocess.run(
                [COMPILER, *FLAGS, str(text), "-o", str(made)],
                capture_output=True,
                text=True,
                timeout=_BUILD_LIMIT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise InputError(
                f"{COMPILER} took more than {_BUILD_LIMIT:.0f} s to compile the batch solver; use the structured solver"
            ) from None
        if done.returncode:
            line = next((line for line in done.stderr.splitlines() if "error" in line), "no message")
            raise InputError(
                f"{COMPILER} could not compile the batch solver ({line.strip()}); use the structured solver"
            )
        made.replace(library)  # in one step: another process may be building the same
    return library


def _cache_folder() -> Path:
    named = os.environ.get("GRIDVEIL_CACHE")
    if named:
        return Path(named)
    from platformdirs import user_cache_path

    return user_cache_path("gridveil")
