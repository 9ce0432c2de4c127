"""Mutated case files through ``gridveil inspect``: exit code 0 or 2 only, no traceback, within 5 s and 1 GB each.

Run with ``make fuzz`` (20 000 files) or ``python bench/fuzz.py COUNT SEED``. Each file is read in a forked child, so that a
crash of the parser is seen as what it is. A failing input is kept in the folder that is printed.
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import re
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import powerio

from gridveil.cli import main
from gridveil.sectors.builtin import resolve_case

SECONDS, BYTES = 5, 2**30
NUMBER = re.compile(rb"(?<![\w.])-?\d+(?:\.\d+)?")
ODD_NUMBERS = [
    b"0",
    b"-1",
    b"1e308",
    b"1e-308",
    b"NaN",
    b"Inf",
    b"-Inf",
    b"999999999999",
    b"-0.0",
    b"",
    b"1e9999",
    b"0x10",
    b"'",
]
FORMATS = {
    "psse": "raw",
    "powermodels-json": "json",
    "egret-json": "json",
    "pandapower-json": "json",
    "powerworld": "aux",
}


def corpus() -> list[tuple[str, bytes]]:
    """Give small good files in several formats: (suffix, content)."""
    files = []
    for name in ("veil9", "case5_pjm", "case14_ieee"):
        path = resolve_case(name)
        files.append(("m", path.read_bytes()))
        module = powerio.parse(str(path))
        for token, suffix in FORMATS.items():
            files.append((suffix, (powerio.emit(module, token).text or "").encode()))
    return files


def mutate(content: bytes, rng: random.Random) -> bytes:
    """Apply one or two random damages."""
    for _ in range(rng.randint(1, 2)):
        content = rng.choice(MUTATIONS)(content, rng)
    return content


def flip_bytes(content: bytes, rng: random.Random) -> bytes:
    """Overwrite a few bytes."""
    data = bytearray(content)
    for _ in range(rng.randint(1, 8)):
        if data:
            data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data)


def damage_lines(content: bytes, rng: random.Random) -> bytes:
    """Drop, double or swap a line."""
    lines = content.split(b"\n")
    i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
    kind = rng.randrange(3)
    if kind == 0:
        del lines[i]
    elif kind == 1:
        lines.insert(j, lines[i])
    else:
        lines[i], lines[j] = lines[j], lines[i]
    return b"\n".join(lines)


def replace_number(content: bytes, rng: random.Random) -> bytes:
    """Put an odd number in place of one of the file's."""
    places = list(NUMBER.finditer(content))
    if not places:
        return content
    place = rng.choice(places)
    return content[: place.start()] + rng.choice(ODD_NUMBERS) + content[place.end() :]


def truncate(content: bytes, rng: random.Random) -> bytes:
    """Cut the file short."""
    return content[: rng.randrange(len(content) + 1)]


def break_encoding(content: bytes, rng: random.Random) -> bytes:
    """Write the file in another encoding, or put a foreign byte into it."""
    choice = rng.randrange(3)
    if choice == 0:
        return content.decode("latin-1").encode("utf-16")
    position = rng.randrange(len(content) + 1)
    return content[:position] + (b"\xff\xfe" if choice == 1 else b"\x00") + content[position:]


MUTATIONS = [flip_bytes, damage_lines, replace_number, replace_number, truncate, break_encoding]


def warm_up() -> None:
    """Run the command once before any fork, so that children find every module loaded."""
    sys.argv = ["gridveil", "inspect", "veil9", "--json"]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        main()


def inspect_in_child(path: Path, log: Path) -> tuple[str, float]:
    """Read one file in a forked child; give the verdict and the seconds."""
    clock = time.perf_counter()
    child = os.fork()
    if child == 0:
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.alarm(SECONDS)
        sys.argv = ["gridveil", "inspect", str(path)]
        try:
            main()
        except SystemExit as stop:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(int(stop.code or 0))
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(99)
    _, status, usage = os.wait4(child, 0)
    seconds = time.perf_counter() - clock
    if os.WIFSIGNALED(status):
        return f"killed by signal {os.WTERMSIG(status)}", seconds
    code = os.WEXITSTATUS(status)
    if code not in {0, 2}:
        return f"exit code {code}", seconds
    if b"Traceback" in log.read_bytes():
        return "traceback", seconds
    if usage.ru_maxrss * 1024 > BYTES:
        return "memory", seconds
    return f"exit {code}", seconds


def campaign(count: int, seed: int) -> int:
    """Send ``count`` damaged files; print a summary; give the number of failures."""
    rng = random.Random(seed)
    files = corpus()
    warm_up()
    folder = Path(tempfile.mkdtemp(prefix="gridveil-fuzz-"))
    verdicts: Counter[str] = Counter()
    slowest = 0.0
    for number in range(count):
        suffix, content = rng.choice(files)
        path = folder / f"case.{suffix}"
        path.write_bytes(mutate(content, rng))
        verdict, seconds = inspect_in_child(path, folder / "log")
        verdicts[verdict] += 1
        slowest = max(slowest, seconds)
        if verdict not in {"exit 0", "exit 2"}:
            path.rename(folder / f"failure-{number}.{suffix}")
            print(f"file {number}: {verdict}, kept as {folder}/failure-{number}.{suffix}", flush=True)
    failures = count - verdicts["exit 0"] - verdicts["exit 2"]
    print(f"{count} files: {dict(verdicts)}; slowest {slowest:.2f} s; {failures} failures")
    return failures


if __name__ == "__main__":
    arguments = [int(argument) for argument in sys.argv[1:]]
    count = arguments[0] if arguments else 20_000
    seed = arguments[1] if len(arguments) > 1 else 0
    sys.exit(min(campaign(count, seed), 1))
