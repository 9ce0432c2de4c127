"""Scripts under bench/ are run by hand; at least every name that they import must exist."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

SCRIPTS = sorted((Path(__file__).parents[1] / "bench").glob("*.py"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_every_imported_name_exists(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gridveil"):
            module = importlib.import_module(node.module)
            for alias in node.names:
                missing = not hasattr(module, alias.name)
                if missing:
                    importlib.import_module(f"{node.module}.{alias.name}")
