"""Kernels are compiled whole: parts have no machine code of their own, and what lies on disk runs without a compilation."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import gridveil

SOURCE = """
import numpy as np
from gridveil.programs.kernel import compiled, entry

@compiled
def square(x):
    return x * x

@compiled
def fill(values, factor):
    for k in range(len(values)):
        values[k] = factor * square(float(k))

@entry
def total(n, factor):
    values = np.zeros(n)
    fill(values, factor)
    return values.sum()
"""
CALL = """
import numba.core.event as event, json, sys
compiled = []
class Listener(event.Listener):
    def on_start(self, e): compiled.append(e.data["dispatcher"].py_func.__name__)
    def on_end(self, e): pass
event.register("numba:compile", Listener())
if "read-only" in sys.argv:
    from numba.core import caching
    def refuse(*_, **__): raise PermissionError
    caching.tempfile.TemporaryFile = caching.IndexDataCacheFile.save = refuse  # root may write everywhere
import kernels
print(json.dumps([eval(sys.argv[1]), sorted(set(compiled) & {"square", "fill", "total"})]))
"""


def run(folder, expression, *more):
    source = str(Path(gridveil.__file__).parents[1])
    places = {"NUMBA_CACHE_DIR": str(folder / "cache"), "XDG_CACHE_HOME": str(folder / "own")}
    environment = os.environ | places | {"PYTHONPATH": source}
    found = subprocess.run(
        [sys.executable, "-c", CALL, expression, *more],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return found.stdout.strip(), sorted({path.name.split("-")[0] for path in (folder / "cache").rglob("*.nbc")})


def test_a_kernel_is_compiled_with_its_parts_and_kept_without_them(tmp_path):
    (tmp_path / "kernels.py").write_text(SOURCE)
    assert run(tmp_path, "kernels.total(4, 2.0)") == ('[28.0, ["fill", "square", "total"]]', ["kernels.total"])
    assert run(tmp_path, "kernels.total(5, 2.0)") == ("[60.0, []]", ["kernels.total"])
    # From Python a part is a kernel by itself.
    alone = run(tmp_path, "kernels.square(3.0)")
    assert alone == ('[9.0, ["square"]]', ["kernels.square", "kernels.total"])
    assert run(tmp_path, "kernels.square(3.0)")[0] == "[9.0, []]"


def test_kernels_of_a_folder_that_cannot_be_written_are_used(tmp_path):
    """As in a container, whose kernels belong to its image."""
    (tmp_path / "kernels.py").write_text(SOURCE)
    run(tmp_path, "kernels.total(4, 2.0)")
    assert run(tmp_path, "kernels.total(4, 2.0)", "read-only") == ("[28.0, []]", ["kernels.total"])
    # What the folder lacks is compiled, and not kept.
    assert run(tmp_path, "kernels.square(3.0)", "read-only") == ('[9.0, ["square"]]', ["kernels.total"])
