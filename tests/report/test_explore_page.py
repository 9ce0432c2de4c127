"""The page and the files of an exploration."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from browser import DESKTOP, PHONE, browser_tab, check_page
from gridveil.report.explore_figure import explore_figure
from gridveil.report.explore_page import explore_page, write_exploration
from gridveil.report.explore_table import text_rows
from gridveil.sectors.registry import load_case
from gridveil.study.explore import ExploreGrid, explore_public

EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def found():
    grid = ExploreGrid(alphas=("0.01pu", "0.1pu"), epsilons=("0.5", "1"), betas=("1%", "10%"), seeds=2)
    exploration = explore_public(load_case("veil2"), grid)
    first = replace(exploration.rows[0], verified=1, failures={f"{EVIL} failed": 1})
    lost = replace(exploration.rows[1], verified=0, failures={"x": 2}, distance_released=None, cost_error=None)
    return replace(exploration, case=EVIL, rows=(first, lost, *exploration.rows[2:]))


def test_all_files_are_written_and_the_rows_come_back(found, tmp_path):
    names = write_exploration(found, tmp_path / "deep" / "out")
    assert names == ["explore.html", "explore.png", "explore.svg", "explore.json"]
    rows = json.loads((tmp_path / "deep" / "out" / "explore.json").read_text())["rows"]
    assert [row["distance_noisy"]["mean"] for row in rows] == [row.distance_noisy.mean for row in found.rows]
    assert rows[1]["distance_released"] is None and rows[0]["failures"] == {f"{EVIL} failed": 1}
    assert (tmp_path / "deep" / "out" / "explore.png").read_bytes().startswith(b"\x89PNG")


def test_the_table_tells_failures_from_successes(found):
    rows = text_rows(found)
    assert [row[4] for row in rows[:3]] == ["1 of 2", "0 of 2", "2 of 2"]
    assert rows[1][6:8] == ["–", "–"]
    assert rows[0][3] == "62.2%" and rows[2][3] == "73.1%"  # e^ε/(1 + e^ε) for ε = 0.5 and 1


def test_settings_with_failures_are_drawn_hollow(found):
    left = explore_figure(found).axes[0]
    points = [line for line in left.lines if len(line.get_xdata()) == 1 and line.get_marker() in "os"]
    assert [line.get_markerfacecolor() == "none" for line in points].count(
        True
    ) == 1  # the setting without a run has no point
    assert len(points) == len(found.rows) - 1


def test_the_page_works_in_a_browser_and_escapes_names(found, tmp_path):
    path = tmp_path / "explore.html"
    path.write_text(explore_page(found))
    assert EVIL not in path.read_text() and path.stat().st_size < 200_000
    with browser_tab(path) as tab:
        assert EVIL in tab.page.inner_text("h1")
        assert "3 runs produced no release" in tab.page.inner_text("main")
        for width in (DESKTOP, PHONE):
            tab.page.set_viewport_size({"width": width, "height": 900})
            assert tab.click_everything() >= 10
            assert tab.overflow() == 0


def test_the_page_of_a_usual_exploration_opens_fits_and_clicks(tmp_path):
    grid = ExploreGrid(alphas=("0.02pu", "0.1pu", "0.5pu"), epsilons=("1",), betas=("1%", "5%"), seeds=4)
    path = tmp_path / "explore.html"
    path.write_text(explore_page(explore_public(load_case("veil9"), grid)))
    assert check_page(path, "explore-veil9", tmp_path) > 0
