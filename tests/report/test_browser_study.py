"""The page of a study in a real browser: it opens offline, fits, and its tabs and headings work."""

from __future__ import annotations

from pathlib import Path

import pytest

from browser import browser_tab, check_page
from gridveil.report.study_page import study_page
from gridveil.study.evaluation import read_evaluation
from study_samples import outcome, unverified, write_store

DISTANCES = {"case14_ieee": 0.7, "case39_epri": 0.06, "<img src=x onerror=alert(1)>": 0.4}


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    outcomes = [
        outcome(seed, network=network, alpha=alpha, released_distance=alpha * distance)
        for network, distance in DISTANCES.items()
        for alpha in (0.1, 1.0)
        for seed in range(3)
    ]
    store = write_store(folder / "s.sqlite", [*outcomes, unverified(9)])
    file = folder / "page.html"
    file.write_text(study_page(read_evaluation([store])), encoding="utf-8")
    return file


def test_it_opens_fits_and_survives_clicks(page, tmp_path):
    assert check_page(page, "study", tmp_path) > 20


def test_tabs_and_sorting(page):
    with browser_tab(page) as tab:
        tab.page.get_by_role("tab", name="Table V", exact=True).click()
        shown = tab.page.locator(".tabs > section:visible")
        assert shown.count() == 1 and "Table V, power" in shown.inner_text()
        heading = shown.locator("thead th").nth(1).locator("button")
        networks = shown.locator("tbody tr td:first-child")
        heading.click()
        heading.click()
        by_distance = sorted(DISTANCES, key=DISTANCES.__getitem__)
        assert networks.all_inner_texts() == by_distance
        heading.click()
        assert networks.all_inner_texts() == by_distance[::-1]
