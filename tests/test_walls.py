"""The two walls: modules import only from their left, and only named modules may look at true demands."""

from __future__ import annotations

import ast
import copy
import pickle
from pathlib import Path

import numpy as np
import pytest

import gridveil
from gridveil.core.secret import SecretDemand
from gridveil.sectors.case import Case
from gridveil.sectors.load import load_case

SOURCE = Path(gridveil.__file__).parent
LEFT_TO_RIGHT = [
    "core",
    "programs",
    "sectors",
    "solvers",
    "privacy",
    "bilevel",
    "service",
    "study",
    "benchmark",
    "report",
    "api",
    "cli",
    "__init__",
]
ANYWHERE: set[str] = set()
MAY_REVEAL = {
    f"privacy/{module}.py" for module in ("attacks", "curator", "draw", "limits", "neighbours", "mechanisms/simulation")
}


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def room(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    names = [
        node.module if isinstance(node, ast.ImportFrom) else alias.name
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    ]
    return {name.split(".")[1] for name in names if name and name.startswith("gridveil.")}


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_data_flows_one_way(path):
    here = room(path)
    for there in imported_rooms(path) - ANYWHERE - {here}:
        assert here not in ANYWHERE, f"{here} is below every room and must not import {there}"
        assert LEFT_TO_RIGHT.index(there) < LEFT_TO_RIGHT.index(here), f"{here} must not import {there}"


def test_only_named_modules_reveal_demands():
    found = {
        str(path.relative_to(SOURCE))
        for path in modules()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in {"reveal", "_SecretDemand__values"}
    }
    assert found == MAY_REVEAL


@pytest.mark.parametrize(
    "use",
    [
        copy.copy,
        copy.deepcopy,
        pickle.dumps,
        np.asarray,
        list,
        lambda secret: secret[0],
        lambda secret: secret == 0,
        hash,
        lambda secret: secret.__dict__,
    ],
)
def test_demands_do_not_leave_by_accident(use):
    with pytest.raises((TypeError, AttributeError)):
        use(SecretDemand(np.array([4321.5, 1.25])))


def test_nothing_printed_shows_a_demand():
    case = load_case("veil9")
    case = Case(
        name="case", network=case.network, demand=SecretDemand(np.abs(case.demand.reveal())), file_format="none"
    )
    shown = "".join([repr(case), str(case.demand), f"{case.demand}", repr(vars(case)), repr([case.demand])])
    assert "7 sites, values hidden" in shown
    values = np.abs(case.demand.reveal())
    for number in {*values, *(100 * values)}:
        assert f"{number:.4g}" not in shown


def test_demands_are_read_only():
    secret = SecretDemand(np.array([1.0, 2.0]))
    with pytest.raises(ValueError, match="read-only"):
        secret.reveal()[0] = 9.0
