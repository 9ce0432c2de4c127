"""The README's first hour works as written, from top to bottom, in an empty folder."""

from __future__ import annotations

import re

import yaml

from docs_blocks import ROOT, run_page
from gridveil.privacy.ledger import Ledger
from gridveil.privacy.ledger_book import LedgerBook


def test_first_hour(tmp_path):
    run_page(ROOT / "README.md", tmp_path)
    for folder in ("released", "mine", "wider"):
        assert {path.name for path in (tmp_path / folder / "public").iterdir()} == {
            "network.m",
            "card.yaml",
            "card.html",
            "proofs",
            "registry.yaml",
            "certificate.yaml",
        }
        assert (tmp_path / folder / "curator" / "report.html").stat().st_size > 10_000
        card = yaml.safe_load((tmp_path / folder / "public" / "card.yaml").read_text())
        assert card["simulation"] is False and card["cost_target"]["mode"] == "private"
    # One ledger for the network under both names, and nothing spent on the wider band, which used the same noise.
    (ledger,) = (Ledger.open(entry.path) for entry in LedgerBook().entries())
    assert (ledger.spent, ledger.cap, ledger.unit) == (2, 3, "MVA")
    assert "<html" in (tmp_path / "small.html").read_text()
    assert (tmp_path / "explored" / "explore.html").exists()


def test_files_named_in_the_text_exist():
    text = (ROOT / "README.md").read_text()
    for name in re.findall(r"`(notebooks/[\w.]+)`", text):
        assert (ROOT / name).exists(), name
