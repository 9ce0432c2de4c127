"""Fenced blocks of Markdown pages: found with their marks, and run as a reader would run them."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from seeded_noise import install_command

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
RECORDS = ("results/", "study/", "screenshots/")  # what was measured: shown, not run
RUN, SHOWN = {"sh", "python"}, {"text", "toml", "yaml", "json"}

# Why a block is not run. A new reason has to be written here, where somebody reads it.
REASONS = {
    "installs gridveil",
    "waits for a browser",
    "installs packages",
    "needs the paper's networks",
    "needs a cluster",
    "needs a GPU",
    "needs a PyPSA network with snapshots",
    "needs a container engine",
    "takes hours",
}
MARK = re.compile(r"<!-- (not run|file|exit code|output|not compared)(?:: ?| |)(.*?) ?-->")
FENCE = re.compile(r"^(?P<indent> *)```(?P<language>[\w-]*)(?P<rest>.*)$")


@dataclass(frozen=True)
class Block:
    """A fenced block: its page, the line of its fence, its language, the mark above it (kind and words) and its text."""

    page: Path
    line: int
    language: str
    kind: str
    words: str
    text: str

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def runs(self) -> bool:
        return self.language in RUN and self.kind != "not run"


def pages() -> list[Path]:
    """Pages that people work with: all but records of measurements."""
    found = [page for page in sorted(DOCS.rglob("*.md")) if not str(page.relative_to(DOCS)).startswith(RECORDS)]
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *found]


def blocks(page: Path) -> list[Block]:
    """All fenced blocks of a page, in order."""
    found, opened, body = [], None, []
    lines = page.read_text().splitlines()
    for number, line in enumerate(lines, start=1):
        fence = FENCE.match(line)
        if opened is None and fence:
            assert not fence["indent"], f"{page.name}:{number}: an indented block would not be run; move it to the left"
            mark = MARK.fullmatch(lines[number - 2].strip()) if number > 1 else None
            kind, words = mark.groups() if mark else ("", "")
            opened, body = (number, fence["language"], kind, words), []
        elif opened is not None and line.strip() == "```":
            found.append(Block(page, *opened, "\n".join(body) + "\n"))
            opened = None
        elif opened is not None:
            body.append(line)
    assert opened is None, f"{page.name}: a block is not closed"
    return found


def run_page(page: Path, folder: Path) -> list[dict[str, object]]:
    """Run a page from top to bottom in one folder, as one session; gives the names that each Python block left."""
    space: dict[str, object] = {"__name__": "page"}
    said, left = "", []
    for block in blocks(page):
        if block.kind == "file":
            (folder / block.words).write_text(block.text)
        elif block.kind == "output":
            check_output(block, said)
        elif block.runs and block.language == "sh":
            said = run_shell(block, folder)
        elif block.runs:
            said = run_python(block, folder, space)
            left.append(dict(space))
    return left


def run_shell(block: Block, folder: Path) -> str:
    """Run a block by bash with the commands of this environment at hand; gives what it printed."""
    environment = {name: value for name, value in os.environ.items() if name != "GRIDVEIL_DATA"}
    commands = install_command(folder.with_name(f"{folder.name}-commands"), block.place)
    environment |= {
        "PATH": f"{commands}:{Path(sys.executable).parent}:{environment['PATH']}",
        "COLUMNS": "100",
        "MPLBACKEND": "agg",
    }
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block.text], cwd=folder, env=environment, capture_output=True, text=True,
        timeout=900, check=False,
    )  # fmt: skip
    expected = int(block.words) if block.kind == "exit code" else 0
    assert done.returncode == expected, f"{block.place}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def run_python(block: Block, folder: Path, space: dict[str, object]) -> str:
    """Run a block in the page's own namespace; gives what it printed."""
    printed = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(printed):
        exec(compile(block.text, block.place, "exec"), space)
    return printed.getvalue()


def check_output(block: Block, said: str) -> None:
    """Whether the lines shown stand in what was printed, in this order; spaces do not matter, a line … is for any number."""
    printed = iter([" ".join(line.split()) for line in said.splitlines()])
    for line in block.text.splitlines():
        wanted = " ".join(line.split())
        if wanted not in ("", "…"):
            assert any(wanted in line for line in printed), (
                f"{block.place}: {wanted!r} was not printed (again):\n{said}"
            )
