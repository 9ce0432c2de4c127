"""Files around the package agree with each other: metadata, lock, conda recipe, container, workflow, checks of a release."""

from __future__ import annotations

import importlib.util
import re
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from types import ModuleType

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def script(name: str) -> ModuleType:
    sys.path.insert(0, str(ROOT / "bench"))
    try:
        spec = importlib.util.spec_from_file_location(name, ROOT / "bench" / f"{name}.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(ROOT / "bench"))


def plain(requirements: list[str]) -> set[str]:
    return {re.sub(r"\s", "", text) for text in requirements if "sys_platform" not in text}


def test_the_conda_recipe_asks_for_the_core():
    recipe = yaml.safe_load((ROOT / "recipe/recipe.yaml").read_text())
    wanted = [text for text in recipe["requirements"]["run"] if not text.startswith("python ")]
    assert plain(wanted) == plain(PROJECT["dependencies"])
    assert recipe["context"]["version"] == PROJECT["version"]
    assert f"python {PROJECT['requires-python']}" in recipe["requirements"]["run"]


def test_the_lock_holds_every_library_of_the_core_and_of_a_study():
    locked = {
        line.split("==")[0].lower() for line in (ROOT / "requirements.lock").read_text().splitlines() if "==" in line
    }
    named = plain(PROJECT["dependencies"]) | plain(PROJECT["optional-dependencies"]["study"])
    assert {re.split(r"[<>=]", text)[0].lower() for text in named} <= locked


def test_the_container_is_not_root_and_keeps_its_state_under_data():
    lines = (ROOT / "Containerfile").read_text().splitlines()
    steps = [line.split()[0] for line in lines if line and line[0].isupper()]
    last = len(steps) - 1 - steps[::-1].index("FROM")
    assert steps.index("USER") > last and "ENTRYPOINT" in steps[last:]
    text = "\n".join(lines)
    assert re.search(r"^USER (?!root|0)\w+", text, re.M) and "GRIDVEIL_HOME=/data/home" in text
    assert "GRIDVEIL_CONTAINER=1" in text and '".[app,study]"' in text  # the app is there, and can be reached
    copied = [word for line in lines if line.startswith("COPY") and "--from" not in line for word in line.split()[1:-1]]
    allowed = [line[1:] for line in (ROOT / ".containerignore").read_text().splitlines() if line.startswith("!")]
    assert set(copied) == set(allowed) and all((ROOT / path).exists() for path in copied)
    linked = {path.resolve().relative_to(ROOT).as_posix() for path in (ROOT / "src").rglob("*") if path.is_symlink()}
    assert linked == {"docs/proofs"} and linked <= set(
        copied
    )  # a link into nothing would leave every release without them


def test_every_python_that_is_declared_is_tested_by_the_workflow():
    declared = {text.split(" :: ")[-1] for text in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+$", text)}
    workflow = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text())
    assert set(workflow["jobs"]["test"]["strategy"]["matrix"]["python"]) == declared


def test_data_of_others_is_seen_in_a_distribution(tmp_path):
    check = script("release_check")
    members = {
        "gridveil/sectors/data/veil9.m": 100, "gridveil/study/published/pglib.csv": 100, "gridveil/cli/main.py": 100,
        "gridveil/sectors/data/case118.m": 100, "gridveil/data/nesta.bin": 100, "gridveil/large.csv": check.LARGEST_FILE + 1,
    }  # fmt: skip
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as wheel:
        for name, size in members.items():
            wheel.writestr(name, b"x" * size)
    foreign = ["gridveil/sectors/data/case118.m", "gridveil/data/nesta.bin", "gridveil/large.csv"]
    assert check.foreign_data(tmp_path / "a.whl") == foreign
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as sdist:
        for name, size in members.items():
            (tmp_path / "member").write_bytes(b"x" * size)
            sdist.add(tmp_path / "member", name)
    assert check.foreign_data(tmp_path / "a.tar.gz") == foreign


@pytest.mark.parametrize(
    ("licence", "free"),
    [
        ("MIT", True),
        ("BSD 3-Clause", True),
        ("LGPL-3.0-only", True),
        ("GPL-3.0-only", False),
        ("", False),
        ("Proprietary", False),
    ],
)
def test_licences_are_judged(licence, free):
    assert bool(script("release_check").FREE.search(licence)) is free


def test_packages_that_the_audit_skipped_are_not_called_clean():
    verdict = script("release_check").audit_verdict
    clean, skipped = {"name": "a", "vulns": []}, {"name": "b", "skip_reason": "not found"}
    assert verdict([clean]) == "pip-audit: no known vulnerabilities in 1 packages"
    assert "NOT audited" in verdict([clean, skipped])
    with pytest.raises(SystemExit, match="known vulnerabilities in c"):
        verdict([clean, skipped, {"name": "c", "vulns": [{"id": "X"}]}])


def test_the_table_of_environments_shows_what_could_not_be_measured():
    module = script("environments")
    row = module.Environment(
        name="core", command="pip install gridveil", install_seconds=20.0, first_release_seconds=5.5
    )
    missing = module.Environment(name="container", command="x", note="not built")
    table = module.table([row, missing])
    assert "| 25.5 |" in table and "| – | – | – | – | – | – | not built |" in table
