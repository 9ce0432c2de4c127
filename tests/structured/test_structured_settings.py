"""The table of settings in the docs is the module of settings, line by line."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import NamedTuple

from gridveil.solvers.structured import settings

PAGE = Path(__file__).parents[2] / "docs" / "structured-solver.md"
ROW = re.compile(r"\| (\S.*?) \| `([A-Z_0-9]+)` \| (\S+) \| (.+?) \| (.+?) \|")
NO_SYMBOL = "–"


class Entry(NamedTuple):
    value: float
    text: str


def documented() -> list[tuple[str, Entry]]:
    """Name, value and text of each row of the table, in the order of the page."""
    rows = [match.groups() for match in map(ROW.fullmatch, PAGE.read_text(encoding="utf-8").splitlines()) if match]
    return [
        (name, Entry(float(value), f"{'' if symbol == NO_SYMBOL else f'{symbol}: '}{purpose}. {choice}."))
        for symbol, name, value, purpose, choice in rows
    ]


def defined() -> list[tuple[str, Entry]]:
    """The same of each assignment of the module and of the string under it."""
    body = ast.parse(Path(settings.__file__).read_text(encoding="utf-8")).body[1:]
    entries = []
    for assignment, text in zip(body[::2], body[1::2], strict=True):
        assert (
            isinstance(assignment, ast.Assign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
        )
        (target,) = assignment.targets
        assert isinstance(target, ast.Name)
        entries.append((target.id, Entry(getattr(settings, target.id), str(text.value.value))))
    return entries


def test_table_and_module_agree():
    assert documented() == defined()


def test_every_name_of_the_module_is_in_the_table():
    names = {name for name in vars(settings) if name.isupper()}
    assert names == {name for name, _ in documented()}
    assert len(names) == len(documented())


def test_every_setting_is_used():
    package = Path(settings.__file__).parent
    others = [file.read_text(encoding="utf-8") for file in package.glob("*.py") if file.name != "settings.py"]
    words = set(re.findall(r"\w+", "\n".join(re.sub(r"(?s)import \(.*?\)|import .*?\n", "", text) for text in others)))
    assert {name for name, _ in documented()} <= words


def test_no_other_module_hides_a_number_under_a_name():
    """A number that can be tuned belongs into the table; statuses and indices are whole numbers."""
    package = Path(settings.__file__).parent
    hidden = []
    for file in package.glob("*.py"):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Assign | ast.AnnAssign) and file.name != "settings.py" and node.value is not None:
                numbers = (part.value for part in ast.walk(node.value) if isinstance(part, ast.Constant))
                hidden += [f"{file.name}:{node.lineno}" for number in numbers if isinstance(number, float)]
    assert hidden == []
