"""The two walls: modules import only from their left, and only named modules may look at true demands."""

from __future__ import annotations

import ast
import copy
import dataclasses
import inspect
import pickle
import re
from pathlib import Path
from typing import get_args, get_type_hints

import numpy as np
import pytest

import gridveil
from gridveil.core.secret import SecretValues
from gridveil.sectors.registry import SECTORS, load_case
from gridveil.service.prepare import Prepared, PublicCase
from gridveil.service.release import PublicRelease
from gridveil.service.series import SeriesRelease
from source_trees import nodes_of

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
    "app",
    "cli",
    "testing",
    "__init__",
]
ANYWHERE: set[str] = set()
MAY_REVEAL = {
    f"privacy/{module}.py"
    for module in (
        *("attacks", "curator", "limits", "neighbours", "secret_attacks", "secret_leaks", "series_curator"),
        "mechanisms/simulation",
    )
}
# Values that are no secret: read back from what a release has written, made up, of a public benchmark network, or demands
# that their owner has left out of a list of secrets.
MAY_ASK_FOR_PUBLISHED_VALUES = {
    "benchmark/public_case.py",
    "benchmark/releases.py",
    "service/audit.py",
    "service/data_set_source.py",
    "service/secrets.py",
    "service/simulated.py",
    "service/verify.py",
    "service/written.py",
    "study/explore.py",
    "study/preview.py",
    "study/trial.py",
}
# Makers of public files, and the types that hold true values or lead to them.
PUBLIC_MAKERS = (
    "service/card.py",
    "service/registry_card.py",
    "service/registry_document.py",
    "service/series_card.py",
    "service/series_registry.py",
    "report/card_page.py",
    "report/series_page.py",
    "sectors/gas/gaslib_write.py",
    "sectors/gas/matgas_write.py",
    "sectors/power/export.py",
    "sectors/power/write.py",
)
HOLD_TRUE_VALUES = {
    "Case", "Curator", "CuratorRecord", "CuratorSolution", "Comparison", "Release", "Secret", "SecretValues", "SeriesCase",
    "SeriesCurator", "SeriesErrors", "ValuesOverTime",
}  # fmt: skip


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def room(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    names = [
        node.module if isinstance(node, ast.ImportFrom) else alias.name
        for node in nodes_of(path)
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


def test_nothing_outside_the_sectors_asks_what_kind_a_network_is():
    """Neither by its class nor by its kind: whoever needs to know asks the network's sector."""
    asking = re.compile(r"isinstance\([^)]*Network\b|network\.kind\s*(==|!=|in\b|is\b)")
    found = {
        str(path.relative_to(SOURCE))
        for path in modules()
        if room(path) not in ("core", "programs", "sectors") and asking.search(path.read_text())
    }
    assert not found


def test_only_named_modules_reveal_demands():
    found = {
        str(path.relative_to(SOURCE))
        for path in modules()
        for node in nodes_of(path)
        if isinstance(node, ast.Attribute) and node.attr in {"reveal", "_SecretValues__values"}
    }
    assert found == MAY_REVEAL


def names_in(path: Path) -> set[str]:
    return {
        node.id if isinstance(node, ast.Name) else node.attr
        for node in nodes_of(path)
        if isinstance(node, ast.Name | ast.Attribute)
    }


def test_only_named_modules_ask_for_published_values():
    """The function cannot tell whether values are a secret, so whoever calls it must be looked at."""
    found = {str(path.relative_to(SOURCE)) for path in modules() if "published_values" in names_in(path)}
    assert found == MAY_ASK_FOR_PUBLISHED_VALUES


def annotated_types(functions: list[ast.FunctionDef]) -> set[str]:
    """Every name that an annotation of an argument or a result mentions."""
    hints = [
        hint
        for function in functions
        for argument in [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
        for hint in (argument.annotation, function.returns)
        if hint is not None
    ]
    # As text, so that an annotation in quotes counts too.
    return {word for hint in hints for word in re.findall(r"\w+", ast.unparse(hint))}


def functions_of(path: Path) -> list[ast.FunctionDef]:
    return [node for node in nodes_of(path) if isinstance(node, ast.FunctionDef)]


@pytest.mark.parametrize("name", PUBLIC_MAKERS)
def test_makers_of_public_files_take_nothing_that_holds_true_values(name):
    path = SOURCE / name
    assert not annotated_types(functions_of(path)) & HOLD_TRUE_VALUES
    imported = {alias.name for node in nodes_of(path) if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert not imported & HOLD_TRUE_VALUES


@pytest.mark.parametrize(
    "name",
    ["service/card.py", "service/registry_card.py", "service/series_card.py", "service/series_registry.py"],
)
def test_cards_are_made_from_a_public_release_alone(name):
    public = [function for function in functions_of(SOURCE / name) if not function.name.startswith("_")]
    assert public
    for function in public:
        assert annotated_types([function]) & {"PublicRelease", "PublicCase", "SeriesRelease"}, function.name
        assert len(function.args.args) == 1 and not function.args.kwonlyargs, function.name


def test_public_types_hold_nothing_that_leads_to_true_values():
    """PublicRelease, SeriesRelease, PublicCase and Prepared, and every dataclass of ours inside them."""
    waiting: list[object] = [PublicRelease, SeriesRelease, PublicCase, Prepared]
    seen: set[str] = set()
    while waiting:
        kind = waiting.pop()
        names = {word for hint in get_type_hints(kind).values() for word in re.findall(r"\w+", str(hint))}
        assert not names & HOLD_TRUE_VALUES, kind
        for hint in get_type_hints(kind).values():
            for part in (hint, *get_args(hint)):
                if dataclasses.is_dataclass(part) and str(part) not in seen:
                    seen.add(str(part))
                    waiting.append(part)
    assert any("ReleasedData" in name for name in seen) and any("Draw" in name for name in seen)


@pytest.mark.parametrize("sector", [s for s in SECTORS if hasattr(type(s), "write")], ids=lambda sector: sector.kind)
def test_writers_of_sectors_take_a_network_and_released_values(sector):
    parameters = inspect.signature(sector.write).parameters
    assert list(parameters) == ["network", "values", "folder", "file_format", "title"]
    words = {word for one in parameters.values() for word in re.findall(r"\w+", str(one.annotation))}
    assert not words & HOLD_TRUE_VALUES


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
        use(SecretValues(np.array([4321.5, 1.25])))


def test_nothing_printed_shows_a_demand():
    case = load_case("veil9")
    case = case.with_values(SecretValues(np.array(case.values.reveal())))
    shown = "".join([repr(case), str(case.values), f"{case.values}", repr(vars(case)), repr([case.values])])
    assert "7 sites, values hidden" in shown
    values = np.abs(case.values.reveal())
    for number in {*values, *(100 * values)}:
        assert f"{number:.4g}" not in shown


def test_demands_are_read_only():
    secret = SecretValues(np.array([1.0, 2.0]))
    with pytest.raises(ValueError, match="read-only"):
        secret.reveal()[0] = 9.0


def test_no_class_name_is_used_for_two_things():
    homes: dict[str, list[str]] = {}
    for path in modules():
        for node in nodes_of(path):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(str(path.relative_to(SOURCE)))
    assert not {name: places for name, places in homes.items() if len(places) > 1}
