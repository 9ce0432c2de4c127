"""Jobs that square numbers, fail or kill their process; a module of its own, since workers load it anew."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from gridveil.core.errors import InputError


def build(folder: Path, key: str) -> tuple[str, int]:
    with (folder / f"built-{key}").open("a") as file:
        file.write(f"{os.getpid()}\n")
    if key == "unbuildable":
        raise InputError("there is no such network")
    if key == "deadly":
        os.kill(os.getpid(), signal.SIGKILL)
    return key, os.getpid()


def variable(_: str, name: str) -> str | None:
    return os.environ.get(name)


def niceness(*_: object) -> int:
    return os.nice(0)


def work(folder: Path, state: tuple[str, int], job: int | str) -> object:
    assert state[1] == os.getpid()
    if isinstance(job, int):
        return state[0], job**2, os.environ.get("OMP_NUM_THREADS"), os.getpid()
    with (folder / f"ran-{job}").open("a") as file:
        file.write("x")
    if job == "leaky":
        raise ValueError("the demand is 41.75 MW")
    if job == "unpicklable":
        return lambda: None
    if job == "deadly" or (job == "once" and (folder / "ran-once").stat().st_size == 1):
        os.kill(os.getpid(), signal.SIGKILL)
    return job
