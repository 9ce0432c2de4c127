"""Optional libraries: what is missing is told in one line, and the core gets by without any of them."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from gridveil.core.errors import InputError
from gridveil.core.extras import EXTRA_OF, is_installed, optional_package, require, told_of

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OPTIONAL = (*EXTRA_OF, "dask", "opendp", "shiny", "fontTools", "PIL")
BLOCKED = """
import sys
for name in {blocked!r}:
    sys.modules[name] = None
from gridveil.cli import main
main()
"""
DISTRIBUTION = {"cupy": "cupy-cuda13x"}


def command(folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a command where no optional library can be imported."""
    return subprocess.run(
        [sys.executable, "-c", BLOCKED.format(blocked=OPTIONAL), *map(str, arguments)],
        env=os.environ | {"GRIDVEIL_HOME": str(folder / "home")},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def names(requirements: list[str]) -> set[str]:
    return {text.split(";")[0].split("[")[0].split(">")[0].split("=")[0].split("<")[0].strip() for text in requirements}


def test_every_extra_that_is_told_brings_the_library():
    for library, extra in EXTRA_OF.items():
        assert DISTRIBUTION.get(library, library) in names(PROJECT["optional-dependencies"][extra]), (library, extra)


def test_no_optional_library_is_in_the_core():
    assert not names(PROJECT["dependencies"]) & {DISTRIBUTION.get(one, one) for one in EXTRA_OF}


def test_a_private_release_with_report_and_certificate_needs_the_core_alone(tmp_path):
    asked = ("--epsilon", 1, "--alpha", "10MVA", "--beta", "5%", "--budget", 2)
    done = command(tmp_path, "release", "veil9", *asked, "--out", "out")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out/public/certificate.yaml").exists() and (tmp_path / "out/curator/report.html").exists()


@pytest.mark.parametrize(
    ("words", "library", "extra"),
    [
        ("explore veil2 --out explored", "matplotlib", "report"),
        ("generate out --out data", "pyarrow", "generate"),
        ("release veil9 --series hours.csv --seed 1 --out out", "pandas", "series"),
        ("bench --cases veil9 --out b", "matplotlib", "report"),
        ("study table none.sqlite", "pandas", "study"),
        ("study run small --engine dask --scheduler tcp://127.0.0.1:1", "distributed", "cluster"),
    ],
)
def test_a_missing_extra_is_told_in_one_line_before_anything_is_done(tmp_path, words, library, extra):
    done = command(tmp_path, *words.split())
    told = f"gridveil: {library} is not installed; install it with: pip install 'gridveil[{extra}]'\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", told)
    assert not [path for path in tmp_path.iterdir() if path.name != "home"]


def test_names_of_pglib_are_told_with_their_extra(tmp_path):
    done = command(tmp_path, "inspect", "case118_ieee")
    assert done.returncode == 2 and "pip install 'gridveil[cases]'" in done.stderr


def test_only_what_an_extra_brings_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert not is_installed("pandas") and is_installed("json")
    with pytest.raises(InputError, match=r"pip install 'gridveil\[series\]'"):
        require("json", "pandas", extra="series")
    with pytest.raises(InputError, match="pandas is not installed"):
        optional_package("pandas")
    assert told_of(ImportError("gone", name="pandas.core")) is not None
    assert told_of(ImportError("a bug of ours", name="gridveil.no_such")) is None
