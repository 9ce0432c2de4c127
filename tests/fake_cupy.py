"""A stand-in for CuPy whose graphs, and kernels called "rounds", run the native library on the structures they are launched with.

Of a batch the first one solves everything; of a stream every one goes on until one problem has ended.
"""

from __future__ import annotations

import ctypes
import sys
import types

import numpy as np
import pytest

from gridveil.solvers.batch import device_kernels
from gridveil.solvers.batch.compiled_check import CHECK_STRUCTURES
from gridveil.solvers.batch.engine import N_COUNTERS
from gridveil.solvers.batch.engine_native import NativeEngine, _check_library, _row_library
from gridveil.solvers.batch.layout import STRUCTURES, structure_type
from gridveil.solvers.batch.row_kernels import ANSWERED, ROW_STRUCTURES, WIDE, Operation
from gridveil.solvers.batch.stream import AVAILABLE, EMPTY

MULTIPROCESSORS, FREE_BYTES = 2, 10**9


class Stream:
    def __init__(self, non_blocking: bool = False, priority: int = 0) -> None:
        pass

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def begin_capture(self) -> None:
        pass

    def end_capture(self) -> types.SimpleNamespace:
        return types.SimpleNamespace(launch=lambda stream: RawModule.solve())

    def wait_event(self, event: object) -> None:
        pass

    def synchronize(self) -> None:
        pass


class Event:
    def __init__(self, disable_timing: bool, block: bool = False) -> None:
        self._recorded = False

    def record(self) -> None:
        self._recorded = True

    def synchronize(self) -> None:
        assert self._recorded, "waits for nothing"


class Device:
    compute_capability = "90"
    mem_info = (FREE_BYTES, FREE_BYTES)
    attributes = {"MultiProcessorCount": MULTIPROCESSORS}  # noqa: RUF012

    def synchronize(self) -> None:
        pass


class RawModule:
    """Compiles nothing: the first rounds after "init" solve the batch natively, the kernels of their phases do nothing."""

    waiting = None
    launched: list[str] = []  # noqa: RUF012
    started: list[int] = []  # noqa: RUF012
    """Tiles that each kernel "start" was launched for."""

    @staticmethod
    def advance(net, batch, work, rows) -> None:
        """Rounds of a stream: every slot goes on, in a thread of its own, until one has ended."""
        working, own = np.array([0, 0, 99, 1], np.int32), batch.copy()
        own["working"] = working.ctypes.data
        library = NativeEngine(threads=1)._library(rows)
        library.gridveil_run(*(ctypes.c_void_p(one.ctypes.data) for one in (net, own, work)))

    @classmethod
    def solve(cls) -> None:
        if cls.waiting is None:
            return
        (net, batch, work), rows = cls.waiting
        cls.waiting = None
        library = NativeEngine(threads=1)._library(rows)
        library.gridveil_run(*(ctypes.c_void_p(one.ctypes.data) for one in (net, batch, work)))

    def __init__(self, code: str, options: tuple[str, ...], backend: str) -> None:
        assert backend == "nvrtc"
        known = "struct CheckNet" in code or "struct RowNet" in code
        assert known or ("struct Net" in code and "#define BLOCKS_FACTOR 3" in code)
        self._rows = 2 if "#define ROWS 2" in code else 0

    def get_function(self, name: str):
        def launch(grid, block, arguments) -> None:
            RawModule.launched.append(name)
            arguments = with_structures(name, arguments)
            if name == "start":
                RawModule.started.append(int(arguments[2]["n_tiles"][0]))
            if name == "check_rows":
                assert grid == (int(arguments[1]["n_rows"][0]),)
                _check_library().gridveil_check(*(ctypes.c_void_p(one.ctypes.data) for one in arguments), 1)
            elif name.startswith("rows_"):
                on_rows(Operation[name.removeprefix("rows_").upper()], grid, *arguments)
            elif name == "latch":
                counter = (ctypes.c_int * N_COUNTERS).from_address(int(arguments[0]["counter"][0]))
                counter[AVAILABLE] = int(arguments[1])
            elif name == "rounds" and arguments[1]["queue"][0]:
                RawModule.advance(*arguments[:3], self._rows)
            elif name == "rounds":
                RawModule.solve()
            elif name == "take_slots":
                take_slots(*arguments)
            elif name == "init" and arguments[1]["queue"][0]:
                net, _, work = arguments
                size, state = int(net["n_slot"][0]), 8 * int(net["o_scalar"][0])
                for tile in range(int(work["n_tiles"][0])):
                    ctypes.c_double.from_address(int(work["memory"][0]) + 8 * size * tile + state).value = EMPTY
            elif name == "init":
                RawModule.waiting = arguments, self._rows

        return launch


def with_structures(name, arguments):
    """What was passed by value, which CuPy takes of one element alone, as the structures that the kernel declares."""
    ours = {"latch": ("Batch",), "move_slots": ("Net", "Work"), "take_slots": ("Net", "Work")}
    names = ours.get(name, ("Net", "Batch", "Work"))
    if name == "check_rows" or name.startswith("rows_"):
        names = tuple(CHECK_STRUCTURES if name == "check_rows" else ROW_STRUCTURES)
    declared = STRUCTURES | CHECK_STRUCTURES | ROW_STRUCTURES
    assert all(one.size == 1 and one.dtype.kind == "V" for one in arguments[: len(names)])
    passed = zip(names, arguments, strict=False)
    return (*(one.view(structure_type(of, declared)) for of, one in passed), *arguments[len(names) :])


def on_rows(operation, grid, net, state, asked, told) -> None:
    """An operation on rows of releases."""
    assert grid == (len(asked),) and asked.shape == (len(asked), WIDE) and told.shape == (len(asked), ANSWERED)
    given = (ctypes.c_void_p(one.ctypes.data) for one in (net, state, asked, told))
    _row_library().gridveil_rows(int(operation), *given, len(asked), 1)


def take_slots(net, work, memory, softness, width, source, without_work) -> None:
    """The kernel of this name, for tiles of one slot."""
    assert width == 1
    sizes = (int(net["n_slot"][0]), int(net["n_limit"][0]))
    for to, of in enumerate(source.tolist()):
        for name, size, old, kind in zip(("memory", "softness"), sizes, (memory, softness), "df", strict=True):
            place = np.ctypeslib.as_array(
                ctypes.cast(int(work[name][0]), ctypes.POINTER({"d": ctypes.c_double, "f": ctypes.c_float}[kind])),
                shape=((to + 1) * size,),
            )[to * size :]
            if of >= 0:
                place[:] = old[of * size : (of + 1) * size]
            elif name == "memory":
                place[int(net["o_scalar"][0])] = without_work


class Array(np.ndarray):
    """An array that is told what to hold, as CuPy's are."""

    def set(self, values: np.ndarray, stream: object = None) -> None:
        self[:] = values

    def get(self, stream: object, out: np.ndarray, blocking: bool) -> None:
        assert not blocking
        out[:] = self


@pytest.fixture
def cupy(monkeypatch):
    stand_in = types.ModuleType("cupy")
    stand_in.__getattr__ = lambda name: getattr(np, name)  # type: ignore[method-assign]
    stand_in.cuda = types.SimpleNamespace(Device=Device, Stream=Stream, runtime=types.SimpleNamespace())
    stand_in.cuda.runtime.CUDARuntimeError = RuntimeError
    stand_in.cuda.Event = Event
    stand_in.cuda.get_current_stream = Stream
    stand_in.cuda.alloc_pinned_memory = bytearray
    stand_in.zeros = lambda *given: np.zeros(*given).view(Array)
    stand_in.full = lambda *given: np.full(*given).view(Array)
    stand_in.asnumpy, stand_in.RawModule = np.asarray, RawModule
    stand_in.empty = lambda *given: np.full(*given[:1], np.nan, *given[1:]).view(Array)
    stand_in.get_default_memory_pool = lambda: types.SimpleNamespace(free_bytes=lambda: 0)
    monkeypatch.setitem(sys.modules, "cupy", stand_in)
    for made in (device_kernels.kernels_for, device_kernels.check_kernel, device_kernels.row_kernels):
        made.cache_clear()
    yield stand_in
    for made in (device_kernels.kernels_for, device_kernels.check_kernel, device_kernels.row_kernels):
        made.cache_clear()
