"""Clean environments as users get them: size, seconds from ``pip install`` to the first release, and the commands.

``python bench/environments.py --out docs/results`` builds the wheel, installs it into fresh environments (the core, and all
extras but the GPU's), releases veil9 privately in each, and writes environments.json and environments.md. The container is
built and measured where a container engine answers, and said to be missing where none does.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
NOT_FOR_USERS = {"bench", "dev", "docs", "gpu"}
RELEASE = (
    "release",
    "veil9",
    "--epsilon",
    "1",
    "--alpha",
    "10MVA",
    "--beta",
    "1%",
    "--budget",
    "3",
    "--out",
    "released",
)
IMAGE = "gridveil-environment-check"


@dataclass(frozen=True, kw_only=True)
class Environment:
    """What was measured of one environment; None where it could not be."""

    name: str
    command: str
    packages: int | None = None
    megabytes: float | None = None
    install_seconds: float | None = None
    first_release_seconds: float | None = None
    busy_seconds: float | None = None
    """Of processors, for both: what a busy machine does not stretch."""
    note: str = ""

    @property
    def total_seconds(self) -> float | None:
        """From ``pip install`` to the first verified release."""
        if self.install_seconds is None or self.first_release_seconds is None:
            return None
        return self.install_seconds + self.first_release_seconds


def build(folder: Path, *kinds: str) -> list[Path]:
    """Build distributions of a clean copy of the sources: ``sdist`` and ``wheel``, as pip's users get them."""
    copy = folder / "sources"
    others = (".git", ".venv*", "build", "dist", "*.nb[ic]", "__pycache__", "*.egg-info", "demo-out")
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*others))
    made = folder / "dist"
    run([sys.executable, "-m", "build", "--no-isolation", *(f"--{kind}" for kind in kinds), "--outdir", made, copy])
    return sorted((folder / "dist").iterdir())


def run(command: list[object], **options: object) -> str:
    """Run a command; gives what it printed, and shows it if the command fails."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]
    if done.returncode:
        sys.exit(f"failed: {' '.join(words)}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return str(done.stdout)


def new_environment(folder: Path, python: str = sys.executable) -> Path:
    """A fresh virtual environment; gives its Python."""
    run([python, "-m", "venv", folder])
    return folder / ("Scripts" if os.name == "nt" else "bin") / "python"


def install(python: Path, requirement: str) -> float:
    """Install by pip; gives the seconds."""
    clock = time.perf_counter()
    run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", requirement])
    return time.perf_counter() - clock


def first_release(python: Path, folder: Path) -> tuple[float, str]:
    """Release veil9 privately in a folder; gives the seconds and what was said on the way."""
    folder.mkdir()
    variables = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "NUMBA", "GRIDVEIL"))
    }
    clock = time.perf_counter()
    done = subprocess.run(
        [python.with_name("gridveil"), *RELEASE],
        cwd=folder,
        env=variables | {"GRIDVEIL_HOME": str(folder / "home")},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode or not (folder / "released/public/certificate.yaml").exists():
        sys.exit(f"no release in a clean environment: {done.stdout}{done.stderr}")
    return time.perf_counter() - clock, done.stderr


def megabytes(folder: Path) -> float:
    """What the files of a folder take, in MB."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir()) / 1e6


def measured(name: str, wheel: Path, extras: list[str], folder: Path) -> Environment:
    """Install the wheel with extras, and release."""
    python = new_environment(folder / name)
    before = os.times()
    requirement = f"{wheel}[{','.join(extras)}]" if extras else str(wheel)
    seconds = install(python, requirement)
    release, said = first_release(python, folder / f"{name}-release")
    after = os.times()
    busy = after.children_user + after.children_system - before.children_user - before.children_system
    listed = json.loads(run([python, "-m", "pip", "list", "--format", "json", "--disable-pip-version-check"]))
    found = Environment(
        name=name,
        command=f"pip install gridveil[{','.join(extras)}]" if extras else "pip install gridveil",
        packages=len(listed),
        megabytes=round(megabytes(folder / name)),
        install_seconds=round(seconds, 1),
        first_release_seconds=round(release, 1),
        busy_seconds=round(busy, 1),
        note="solved by Ipopt and Clarabel: nothing was compiled" if "nothing is compiled yet" in said else "",
    )
    shutil.rmtree(folder / name)
    return found


def container() -> Environment:
    """Build the image and release in it, where an engine answers."""
    engine = next((one for one in ("podman", "docker") if shutil.which(one) and _answers(one)), None)
    command = "podman run --rm -v ./data:/data gridveil release ..."
    if engine is None:
        return Environment(name="container", command=command, note="not built: no container engine answers here")
    clock = time.perf_counter()
    run([engine, "build", "--tag", IMAGE, "--file", ROOT / "Containerfile", ROOT])
    built = time.perf_counter() - clock
    size = int(run([engine, "image", "inspect", IMAGE, "--format", "{{.Size}}"])) / 1e6
    clock = time.perf_counter()
    run([engine, "run", "--rm", "--read-only", "--tmpfs", "/tmp", "--tmpfs", "/data:mode=1777", IMAGE, *RELEASE])
    return Environment(
        name="container",
        command=command,
        megabytes=round(size),
        install_seconds=round(built, 1),
        first_release_seconds=round(time.perf_counter() - clock, 1),
        note="with compiled kernels inside; to install means to build the image",
    )


def _answers(engine: str) -> bool:
    return subprocess.run([engine, "info"], capture_output=True, check=False).returncode == 0


def table(rows: list[Environment]) -> str:
    """The rows as Markdown."""

    def cell(value: object) -> str:
        return "–" if value is None else str(value)

    lines = [
        "| Environment | Command | Packages | MB | Install (s) | First release (s) | Together (s) | Busy (s) | |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        total = None if row.total_seconds is None else round(row.total_seconds, 1)
        values = (row.packages, row.megabytes, row.install_seconds, row.first_release_seconds, total, row.busy_seconds)
        lines.append(f"| {row.name} | `{row.command}` | {' | '.join(map(cell, values))} | {row.note} |")
    return "\n".join(lines) + "\n"


def measure(wanted: list[str]) -> tuple[str, list[Environment]]:
    """Measure environments; gives a line about the machine, and a row for each."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    rows = []
    with tempfile.TemporaryDirectory(prefix="gridveil-environments-") as name:
        folder = Path(name)
        (wheel,) = build(folder, "wheel")
        if "core" in wanted:
            rows.append(measured("core", wheel, [], folder))
        if "all" in wanted:
            rows.append(measured("all", wheel, sorted(set(extras) - NOT_FOR_USERS), folder))
    if "container" in wanted:
        rows.append(container())
    load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
    cores = f"{os.cpu_count()} cores, load {load}"
    return f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, {cores}", rows


def main() -> None:
    """Measure, print the table and write it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="folder for environments.json and environments.md")
    parser.add_argument("--only", default="core,all,container", help="environments to measure")
    options = parser.parse_args()
    machine, rows = measure(options.only.split(","))
    text = f"{table(rows)}\n{machine}. Packages came from a local index, so installation counts no network.\n"
    print(text)
    if options.out:
        (options.out / "environments.md").write_text(text, encoding="utf-8")
        document = {
            "machine": machine,
            "environments": [asdict(row) | {"total_seconds": row.total_seconds} for row in rows],
        }
        (options.out / "environments.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
