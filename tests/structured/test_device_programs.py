"""The programs for a GPU compile, on machines without one: NVRTC needs none, and is what CuPy calls."""

from __future__ import annotations

import ctypes
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from gridveil.solvers.batch.device_kernels import BORDERED, OPTIONS, ROUND, check_program, row_program, solver_program
from gridveil.solvers.batch.row_kernels import Operation

ARCHITECTURE = "--gpu-architecture=compute_75"  # the oldest that CUDA 13 knows


@cache
def library() -> ctypes.CDLL | None:
    places = getattr(find_spec("nvidia"), "submodule_search_locations", None) or []
    found = sorted(file for place in places for file in Path(place).glob("**/lib/libnvrtc.so.*"))
    return ctypes.CDLL(str(found[0])) if found else None


pytestmark = pytest.mark.skipif(library() is None, reason="needs the package nvidia-cuda-nvrtc")


def compiled(source: str) -> tuple[int, str, str]:
    """Exit code, log and PTX of a program."""
    nvrtc, program = library(), ctypes.c_void_p()
    assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"program.cu", 0, None, None) == 0
    options = [option.encode() for option in (*OPTIONS, ARCHITECTURE)]
    code = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    log, ptx = (text_of(nvrtc, kind, program) for kind in ("ProgramLog", "PTX"))
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return code, log, ptx


def text_of(nvrtc: ctypes.CDLL, kind: str, program: ctypes.c_void_p) -> str:
    size = ctypes.c_size_t()
    getattr(nvrtc, f"nvrtcGet{kind}Size")(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(max(size.value, 1))
    getattr(nvrtc, f"nvrtcGet{kind}")(program, text)
    return text.value.decode()


def entries(ptx: str) -> set[str]:
    return set(re.findall(r"\.entry (\w+)\(", ptx))


@pytest.mark.parametrize("lanes, rows", [(1, 0), (4, 2), (32, 0), (256, 2), (2, 5)])
def test_the_kernels_that_solve_compile(lanes, rows):
    code, log, ptx = compiled(solver_program(lanes, rows=rows))
    assert code == 0, log
    phases = {*ROUND, *(BORDERED.values() if rows else ())} if lanes < 32 else {"rounds"}
    assert entries(ptx) == {"init", "latch", "move_slots", "take_slots", *phases}


def test_the_check_and_the_operations_on_rows_compile():
    for source, expected in (
        (check_program(), {"check_rows"}),
        (row_program(), {f"rows_{one.name.lower()}" for one in Operation}),
    ):
        code, log, ptx = compiled(source)
        assert code == 0, log
        assert entries(ptx) == expected


def test_a_fault_in_a_kernel_is_noticed():
    code, log, _ = compiled(solver_program(1).replace("take_one(", "take_none(", 1))
    assert code != 0 and "take_one" in log
