"""The README's first hour works as written, from top to bottom, in an empty folder."""

from __future__ import annotations

import re

import yaml

from docs_blocks import ROOT, run_page
from gridveil.privacy.ledger import Ledger


def test_first_hour(tmp_path):
    run_page(ROOT / "README.md", tmp_path)
    for folder in ("released", "mine", "wider"):
        assert {path.name for path in (tmp_path / folder / "public").iterdir()} == {
            "network.m",
            "card.yaml",
            "card.html",
        }
        assert (tmp_path / folder / "curator" / "report.html").stat().st_size > 10_000
        assert yaml.safe_load((tmp_path / folder / "public" / "card.yaml").read_text())["simulation"] is False
    assert Ledger.open(tmp_path / "mygrid.m.ledger").spent == 1  # the wider band used the same noise
    assert "<html" in (tmp_path / "small.html").read_text()
    assert (tmp_path / "explored" / "explore.html").exists()


def test_files_named_in_the_text_exist():
    text = (ROOT / "README.md").read_text()
    for name in re.findall(r"`(notebooks/[\w.]+)`", text):
        assert (ROOT / name).exists(), name
