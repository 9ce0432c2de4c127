"""What a command loads, and in which order it writes: the user waits for both."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

import gridveil
from gridveil.cli.quick_options import QUICK, QuickCommand, QuickGroup
from gridveil.core.choices import DemandBounds
from gridveil.core.lazy import lazy_module
from source_trees import nodes_of

SOURCE = Path(gridveil.__file__).parent
# Libraries that a power network by the structured solver gets by without until its folder is public …
NOT_FOR_THE_PUBLIC_FOLDER = (
    "clarabel", "dask", "distributed", "matplotlib", "opendp", "pandas", "pyarrow", "pydantic", "rich",
    "scipy.linalg", "scipy.sparse", "scipy.spatial", "scipy.special", "scipy.stats",
)  # fmt: skip
# … and those that nothing needs, report and certificate included.
NOT_AT_ALL = tuple(name for name in NOT_FOR_THE_PUBLIC_FOLDER if name not in {"clarabel", "rich"})
WATCHED = """
import json, os, sys
from gridveil.cli import main, single_release

seen = {}

def loaded(group):
    return [name for name in json.loads(os.environ[group]) if name in sys.modules]

def published(folder):
    seen["files"] = sorted(path.name for path in folder.iterdir())
    seen["early"] = loaded("EARLY")

single_release._say_published = published
from numba.core import event
with event.install_recorder("numba:compile") as compilations:
    try:
        main()
    except SystemExit as end:
        seen["code"] = end.code
seen["late"], seen["compiled"] = loaded("LATE"), len(compilations.buffer)
print(json.dumps(seen))
"""


def watched_release(folder: Path) -> dict[str, object]:
    """Which files are public first, what is loaded by then and at the end, and how many kernels were compiled."""
    groups = {"EARLY": json.dumps(NOT_FOR_THE_PUBLIC_FOLDER), "LATE": json.dumps(NOT_AT_ALL)}
    run = subprocess.run(
        [sys.executable, "-c", WATCHED, "release", "veil9", "--seed", "1", "--out", str(folder), "--quiet"],
        env=os.environ | groups,
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    return json.loads(run.stdout)


@pytest.mark.skipif(not QUICK, reason="another typer, which validates options by pydantic")
def test_a_power_release_loads_only_what_it_uses_and_compiles_nothing(tmp_path):
    watched_release(tmp_path / "first")  # compiles whatever is not on disk yet
    seen = watched_release(tmp_path / "second")
    assert seen == {
        "code": 0,
        "files": ["card.html", "card.yaml", "network.m", "proofs", "registry.yaml"],
        "early": [],
        "late": [],
        "compiled": 0,
    }
    assert (tmp_path / "second/simulation/certificate.yaml").exists()
    assert (tmp_path / "second/curator/report.html").exists()


def test_the_terminal_says_when_the_folder_is_public_and_when_all_is_done(cli, tmp_path):
    shown = cli("release", "veil9", "--seed", "1", "--out", tmp_path / "out").err.splitlines()
    told = [line for line in shown if "published:" in line or "report:" in line]
    assert [line.split(" (")[0] for line in told] == [
        f"gridveil: published: {tmp_path / 'out' / 'simulation'}",
        f"gridveil: certificate and report: {tmp_path / 'out' / 'curator' / 'report.html'}",
    ]


def test_a_certificate_that_fails_leaves_the_public_folder_complete(cli, tmp_path, monkeypatch):
    def fails(*_: object) -> None:
        raise RuntimeError("no certificate today")

    monkeypatch.setattr("gridveil.service.release.certify", fails)
    assert cli("release", "veil9", "--seed", "1", "--out", tmp_path / "out").code == 1
    files = sorted(path.name for path in (tmp_path / "out/simulation").iterdir())
    assert files == ["card.html", "card.yaml", "network.m", "proofs", "registry.yaml"]


def kernels(name: str) -> dict[str, ast.FunctionDef]:
    """All functions of the package that bear a decorator."""
    return {
        f"{path.relative_to(SOURCE)}:{node.name}": node
        for path in SOURCE.rglob("*.py")
        for node in nodes_of(path)
        if isinstance(node, ast.FunctionDef)
        and any(isinstance(mark, ast.Name) and mark.id == name for mark in node.decorator_list)
    }


def test_no_kernel_calls_a_kernel_that_is_loaded_without_its_intermediate_code():
    entries = kernels("entry")
    names = {node.name for node in entries.values()}
    assert {"run", "_minimum_degree"} <= names
    calls = {
        f"{where} calls {call.func.id}"
        for where, node in {**kernels("compiled"), **entries}.items()
        for call in ast.walk(node)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in names
    }
    assert not calls


def test_a_lazy_module_is_imported_when_a_name_is_used():
    code = (
        "import sys\nfrom gridveil.core.lazy import lazy_module\nwave = lazy_module('wave')\n"
        "assert 'wave' not in sys.modules\nassert wave.open and 'wave' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = lazy_module("json").no_such_name


OPTIONS = [
    *(["--text", text] for text in ("", "a", "1")),
    *(["--path", path] for path in ("", ".", "a/b")),
    *(["--whole", whole] for whole in ("7", "-7", "007", "1_000", "1.0", "x", "٣", " 7")),
    *(["--choice", choice] for choice in ("none", "nonnegative", "NONE", "other")),
    *(["--share", share] for share in ("0.5", "x")),
    *([*repeated] for repeated in (["--many", "a"], ["--many", "a", "--many", ""])),
    ["--flag"],
    ["--flag=1"],
    [],
]


@pytest.mark.parametrize("arguments", OPTIONS, ids=" ".join)
def test_options_are_read_as_typer_reads_them(arguments):
    def command(
        text: Annotated[str | None, typer.Option()] = None,
        path: Annotated[Path | None, typer.Option()] = None,
        whole: Annotated[int, typer.Option()] = 3,
        choice: Annotated[DemandBounds, typer.Option()] = DemandBounds.NONE,
        share: Annotated[float | None, typer.Option()] = None,
        many: Annotated[list[str] | None, typer.Option()] = None,
        flag: Annotated[bool, typer.Option("--flag")] = False,
    ) -> None:
        print([text, path, whole, choice, share, many, flag])  # noqa: T201

    told = []
    for group, kind in ((None, None), (QuickGroup, QuickCommand)):
        app = typer.Typer(cls=group, rich_markup_mode=None)
        app.command(cls=kind)(command)
        app.callback()(lambda: None)
        result = CliRunner().invoke(app, ["command", *arguments])
        told.append((result.exit_code, result.output))
    assert told[0] == told[1]
