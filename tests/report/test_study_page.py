"""The page of a study: complete, in one file that loads nothing, with every name escaped."""

from __future__ import annotations

import json
import re

import pytest
import typer
from typer.testing import CliRunner

from gridveil.cli.study_output_commands import register
from gridveil.report.study_page import duration, study_page
from gridveil.study.evaluation import read_evaluation
from study_samples import AT_ONCE, crashed, outcome, unverified, write_store

EVIL = "<script>alert(1)</script>&\"'"


def sample_outcomes(kind: str):
    """A small evaluation with failures; one gas network has a name that would run if it could."""
    networks = {"power": (("case14_ieee", 14), ("case39_epri", 39)), "gas": (("24-pipe", 25), (EVIL, 7))}[kind]
    outcomes = [
        outcome(seed, network=network, buses=buses, kind=kind, alpha=alpha, beta=beta, method=method,
                solver="structured" if kind == "power" else "ipopt", seconds=0.4 + 0.1 * seed, cost=100.2)
        for network, buses in networks
        for alpha, beta in ((0.1, 0.01), (1.0, 0.01), (0.1, 0.1), (0.1, 0.001))
        for method in ("bisection", "auto")
        for seed in range(3)
    ]  # fmt: skip
    name, buses = networks[0]
    same = {"network": name, "buses": buses, "kind": kind, "solver": outcomes[0].solver}
    return [*outcomes, outcome(3, steps=AT_ONCE, **same), unverified(4, **same), crashed(5, **same)]


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stores")
    return [write_store(folder / f"{k}.sqlite", sample_outcomes(k), name=f"paper-{k}") for k in ("power", "gas")]


@pytest.fixture(scope="module")
def html(stores):
    return study_page(read_evaluation(stores))


def test_it_is_one_small_file_that_loads_nothing(html):
    assert len(html.encode()) < 5_000_000
    without_names = html.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert "http:" not in without_names and "https:" not in without_names and "@import" not in html
    assert not re.search(r"<(link|img|iframe|object|embed)\b|\ssrc=", html)
    assert all(target.startswith("#") for target in re.findall(r'href="([^"]*)"', html))
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", html))


def test_names_are_escaped(html):
    assert "<script>alert(1)" not in html
    assert html.count("&lt;script&gt;alert(1)&lt;/script&gt;") > 10


def test_it_has_all_tables_figures_counts_and_settings(html):
    for number in ("I", "II", "III", "IV", "V", "VI"):
        assert f'data-tab="Table {number}"' in html and f'data-tab="Table {number}, auto"' in html
    # Distances of both kinds, and two figures of each network that the paper draws: 39 and 24-pipe.
    assert html.count("<figure>") == 2 + 2 + 2
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html))
    assert "Tasks done 102 of 192" in text
    assert "Verified releases 98" in text and "Tasks without a release 4" in text
    assert (
        "Violations of β, bilevel 24 of 98 runs" in text
    )  # 0.2 % off violates β = 0.1 %: 4 networks, 3 seeds, 2 methods
    assert "the worker died" in text and "pushing the proxy never raised" in text
    assert "1 of 4 failed" not in text and "2 of 6 failed" in text
    for setting in (
        "paper-power",
        "paper-gas",
        "Made by hand",
        "laplace, on positive sites",
        "10 min",
        "python 3.11.0",
    ):
        assert setting in text
    assert "0123456789abcdef" in text and "Wall time" in text


def test_violating_means_are_bold_and_sortable(html):
    assert re.search(r"<strong>−5\.0</strong>", html)
    rows = re.findall(r'<td class="n result[^"]*" data-value="([^"]+)"', html)
    assert len(rows) > 100 and all(float(value) == float(value) for value in rows)


def test_the_command(tmp_path):
    stores = [
        write_store(tmp_path / f"{name}.sqlite", [outcome(0, network=name), unverified(1, network=name)])
        for name in ("one", "two")
    ]
    app = typer.Typer(pretty_exceptions_enable=False)
    register(app)
    out = tmp_path / "page.html"
    made = CliRunner().invoke(app, ["page", *map(str, stores), "--out", str(out), "--json"])
    report = json.loads(made.stdout)
    assert (report["tasks"], report["verified"]) == (4, 2)
    assert report["bytes"] == out.stat().st_size
    assert out.read_text().startswith("<!DOCTYPE html>")


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.0, "0 s"), (3.21, "3.2 s"), (600, "10 min"), (5990, "1 h 40 min"), (14700, "4 h 05 min")]
)
def test_durations(seconds, text):
    assert duration(seconds) == text
