"""The kernels for the GPU at hand, compiled by NVRTC through CuPy, and facts of that device."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from gridveil.solvers.batch.compiled_check import check_source
from gridveil.solvers.batch.layout import kernel_source
from gridveil.solvers.batch.row_kernels import Operation, row_source

WARP = 32
BLOCK = 128
LEAST_CAPABILITY = 70
OPTIONS = ("--std=c++17",)
BOUNDED = ("ASSEMBLE", "FACTOR", "SOLVE", "RECOVER", "OTHER")
BOUNDS = (2, 3, 4, 4, 4)
"""Blocks per multiprocessor that the kernels of each group are compiled for: more blocks leave fewer registers."""
ROUND = ("assemble", "start", "assemble", "factor", "predict", "aim", "surplus", "correct", "recover", "search", "step")
"""Kernels of a round where lanes of several slots share a warp, in their order."""
RESIDENT = 256
"""Threads for which the registers of a multiprocessor are enough, where slots go through all of a round in one kernel."""
BORDERED = {"factor": "border", "correct": "refine"}
"""Kernels of tasks with dense rows, by the one that each follows."""


def missing_gpu() -> str | None:
    """What the GPU engine lacks, in one line, or None."""
    try:
        import cupy
    except ImportError:
        return "the GPU batch solver needs CuPy: pip install 'gridveil[gpu]'"
    try:
        capability = int(cupy.cuda.Device().compute_capability)
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"the GPU batch solver needs a CUDA device, and CuPy finds none ({error})"
    if capability < LEAST_CAPABILITY:
        return f"the GPU batch solver needs compute capability 7.0, and the device has {capability / 10:.1f}"
    return None


def block_size(lanes: int) -> int:
    """Threads of a block: those of several tiles, or of one slot."""
    return BLOCK if lanes <= WARP else lanes


def solver_program(lanes: int, bounds: tuple[int, ...] = BOUNDS, rows: int = 0, each_phase: bool = False) -> str:
    """The program of the kernels that solve, as ``kernels_for`` compiles it."""
    blocks = {**dict(zip(BOUNDED, bounds, strict=True)), "ROUNDS": RESIDENT // block_size(lanes)}
    least = "\n".join(f"#define BLOCKS_{name} {count}" for name, count in blocks.items())
    defined = "#define EACH_PHASE\n" if each_phase else ""
    return f"#define LANES {lanes}\n#define BLOCK {block_size(lanes)}\n{defined}{least}\n{kernel_source(rows)}"


def check_program() -> str:
    """That of the independent check, a block for each answer."""
    return f"#define LANES {BLOCK}\n{check_source()}"


def row_program() -> str:
    """That of the operations on rows of releases, a block for each row."""
    return f"#define LANES {BLOCK}\n{row_source()}"


def _compiled(program: str) -> Any:
    import cupy

    return cupy.RawModule(code=program, options=OPTIONS, backend="nvrtc")


@cache
def kernels_for(lanes: int, bounds: tuple[int, ...], rows: int = 0, each_phase: bool = False) -> dict[str, Any]:
    """The kernels by name, for so many lanes per slot and dense rows; and "lanes" themselves.

    Where slots go through rounds on their own, there is one kernel for all; with ``each_phase`` those of the phases as well.
    """
    phases = each_phase or lanes < WARP
    module = _compiled(solver_program(lanes, bounds, rows, each_phase))
    of_a_round = (*dict.fromkeys(ROUND), *(BORDERED.values() if rows else ())) if phases else ()
    names = ("init", *of_a_round, *(("rounds",) if lanes >= WARP else ()), "move_slots", "take_slots", "latch")
    return {name: module.get_function(name) for name in names} | {"lanes": lanes}


@cache
def check_kernel() -> Any:
    """The independent check."""
    return _compiled(check_program()).get_function("check_rows")


@cache
def row_kernels() -> dict[int, Any]:
    """The operations on rows of releases."""
    module = _compiled(row_program())
    return {one.value: module.get_function(f"rows_{one.name.lower()}") for one in Operation}


def registers(lanes: int, bounds: tuple[int, ...] = BOUNDS) -> dict[str, tuple[int, int]]:
    """Registers per thread, and bytes per thread that did not fit into them, of each kernel."""
    return {
        name: (kernel.num_regs, kernel.local_size_bytes)
        for name, kernel in kernels_for(lanes, bounds).items()
        if name != "lanes"
    }


def device_facts() -> dict[str, Any]:
    """Name, memory and driver of the current device."""
    import cupy

    properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)
    return {
        "device": properties["name"].decode(),
        "memory_bytes": int(properties["totalGlobalMem"]),
        "multiprocessors": int(properties["multiProcessorCount"]),
        "runtime": int(cupy.cuda.runtime.runtimeGetVersion()),
        "cupy": cupy.__version__,
        "numpy": np.__version__,
    }
