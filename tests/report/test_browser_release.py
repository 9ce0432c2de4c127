"""The pages of a release in headless Chromium: no error, no request, nothing wider than the window, everything clicked."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from browser import DESKTOP, PHONE, axe_faults, browser_tab, check_page, chromium
from gridveil.core.band import Tolerance
from gridveil.report.card_page import card_page
from gridveil.report.curator_page import curator_page
from gridveil.sectors.geometry import Places
from gridveil.sectors.registry import load_case
from gridveil.service.account import NoAccount
from gridveil.service.card import card
from gridveil.service.release import make_release
from gridveil.service.settings import ReleaseSettings

NASTY = "</script><script>document.title='owned';alert(1)</script><img src=x onerror=alert(1)>"
SETTINGS = ReleaseSettings(epsilon="1", alpha="0.1pu", beta=Tolerance.parse("1%"), seed=1)
OPENED = """() => [...document.querySelectorAll("#map .nodes > g:not([hidden]) circle")].length"""
OVERLAPS = """() => {
  const boxes = [...document.querySelectorAll("#map .labels text:not([hidden])")].map((text) => text.getBoundingClientRect());
  let count = 0;
  boxes.forEach((a, i) => boxes.slice(i + 1).forEach((b) => {
    count += a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
  }));
  return { labels: boxes.length, overlaps: count };
}"""


@pytest.fixture(scope="module")
def browser():
    with chromium() as one:
        yield one


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Write the report and the card page of a case, once."""
    folder, made = tmp_path_factory.mktemp("pages"), {}

    def write(name: str) -> tuple[Path, Path]:
        if name not in made:
            case = load_case(name)
            release = make_release(case, SETTINGS, NoAccount())
            made[name] = folder / f"{name}-report.html", folder / f"{name}-card.html"
            made[name][0].write_text(curator_page(release, ledger=None, places=Places()))
            made[name][1].write_text(card_page(card(release.public)))
        return made[name]

    return write


@pytest.mark.parametrize("case", ["veil9", "veilgas", "case300_ieee"])
def test_reports_open_fit_and_click(browser, pages, tmp_path, case):
    assert check_page(pages(case)[0], f"report-{case}", tmp_path, browser) > 60


def test_the_card_page_opens_fits_and_clicks(browser, pages, tmp_path):
    assert check_page(pages("veil9")[1], "card-veil9", tmp_path, browser) > 8


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_no_labels_overlap_on_300_buses_at_any_zoom(browser, pages, width):
    with browser_tab(pages("case300_ieee")[0], width=width, browser=browser) as tab:
        shown = []
        for _ in range(6):
            found = tab.page.evaluate(OVERLAPS)
            assert found["overlaps"] == 0
            shown.append(found["labels"])
            tab.page.locator("[data-zoom=in]").click()
        assert shown == sorted(shown) and shown[-1] > shown[0] >= (80 if width == DESKTOP else 20)


def test_a_bus_tells_its_numbers_and_colours_change(browser, pages):
    with browser_tab(pages("veil9")[0], browser=browser) as tab:
        circle = tab.page.locator("#map .nodes circle").nth(3)  # bus 4: 37 MW and 11 MVAr
        circle.click()
        details = tab.page.locator(".map-details").inner_text()
        assert "37 MW, 11 MVAr" in details and "Released demand" in details and "Voltage" in details
        before = circle.get_attribute("class")
        tab.page.get_by_role("button", name="Change of line loading").click()
        assert circle.get_attribute("class") != before
        assert tab.page.locator("#map .edges g[class^=s]").count() > 0
        tab.page.locator("#map input").fill("7")
        assert tab.page.locator(".map-details h3").inner_text() == "7"
        box = tab.page.locator("#map svg").bounding_box()
        seen = tab.page.locator("#map svg").get_attribute("viewBox")
        tab.page.mouse.move(box["x"] + 200, box["y"] + 200)
        tab.page.mouse.down()
        tab.page.mouse.move(box["x"] + 120, box["y"] + 150, steps=4)
        tab.page.mouse.up()
        assert tab.page.locator("#map svg").get_attribute("viewBox") != seen


def test_an_area_of_a_large_network_opens_into_its_buses(browser, pages):
    """By the mouse, by the keyboard and by search; what was opened tells its numbers, and labels never overlap."""
    with browser_tab(pages("case1354_pegase")[0], browser=browser) as tab:
        page = tab.page
        assert page.evaluate(OPENED) == 0 and page.locator("#map .area").count() > 20
        disc = page.locator("#map .area").nth(4)
        count = int(re.search(r", (\d+) buses", disc.get_attribute("aria-label"))[1])  # type: ignore[index]
        disc.focus()
        page.keyboard.press("Enter")
        assert page.evaluate(OPENED) >= count
        assert "Change of active demand" in page.locator(".map-details").inner_text()
        found = page.evaluate(OVERLAPS)
        assert found["labels"] > 5 and found["overlaps"] == 0
        page.locator("[data-zoom=reset]").click()
        assert page.evaluate(OPENED) == 0
        page.locator("#map input").fill("7069")
        assert page.locator(".map-details h3").inner_text() == "7069"
        assert "True demand" in page.locator(".map-details").inner_text() and page.evaluate(OPENED) > 0
        page.get_by_role("button", name="Change of line loading").click()
        assert page.locator("#map .edges g[class^=s]").count() > 0


def test_a_dot_tells_its_numbers_and_a_curve_its_values(browser, pages):
    with browser_tab(pages("veil9")[0], browser=browser) as tab:
        page, tip = tab.page, tab.page.locator(".chart-tip")
        scatter = page.locator("#demands svg.figure").first
        scatter.scroll_into_view_if_needed()
        box = scatter.bounding_box()
        where = scatter.evaluate("""svg => {
          const [left, top] = svg.dataset.axes.split(" ").map(Number);
          const [x, y] = svg.querySelector("path.dots").getAttribute("d").match(/M([\\d.]+) ([\\d.]+)/).slice(1).map(Number);
          const unit = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
          return [(left + x) * unit, (top + y) * unit];
        }""")
        page.mouse.move(box["x"] + where[0], box["y"] + where[1])
        names = page.locator("#sites tbody tr td:first-child").all_inner_texts()
        lines = tip.inner_text().split("\n")
        assert lines[0] in names and lines[1].startswith("P true (MW): ")
        row = page.locator("#sites tbody tr", has=page.locator("td:first-child", has_text=re.compile(f"^{lines[0]}$")))
        true = float(row.locator("td").nth(1).get_attribute("data-value"))
        assert float(lines[1].split(": ")[1].replace(",", "")) == pytest.approx(true, rel=1e-3)
        page.mouse.move(5, 5)
        assert not tip.is_visible()
        page.get_by_role("tab", name="Line loadings").click()
        curve = page.locator("[data-tab='Line loadings'] svg.figure")
        curve.scroll_into_view_if_needed()
        box = curve.bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        assert "true demands: " in tip.inner_text() and "released demands: " in tip.inner_text()


def test_terms_are_explained_to_the_keyboard_too(browser, pages):
    with browser_tab(pages("veil9")[1], browser=browser) as tab:
        term = tab.page.locator(".term").first
        assert not term.locator(".tip").is_visible()
        term.focus()
        assert term.locator(".tip").is_visible() and "even" in term.locator(".tip").inner_text()


@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_no_fault_on_the_pages_of_a_release(browser, pages, dark):
    for page in pages("veil9"):
        assert axe_faults(page, browser, dark=dark) == []
    assert axe_faults(pages("case1354_pegase")[0], browser, dark=dark, within="#network") == []


def test_tables_sort_as_numbers_and_filter(browser, pages):
    with browser_tab(pages("case300_ieee")[0], browser=browser) as tab:
        table = tab.page.locator("#sites")
        heading = table.get_by_role("button", name="P true (MW)")
        for falling in (True, False):
            heading.click()
            values = [float(cell) for cell in table.locator("tbody tr td:nth-child(2)").evaluate_all(
                "cells => cells.map((cell) => cell.dataset.value)"
            )]  # fmt: skip
            assert values == sorted(values, reverse=falling)
        assert table.locator("tbody tr:visible").count() == 12
        table.locator(".more").click()
        assert table.locator("tbody tr:visible").count() == len(values)
        table.locator("input").fill("9533")
        assert table.locator("tbody tr:visible").count() == 1


def test_a_name_that_is_a_script_stays_a_name(browser, tmp_path):
    case = load_case("veilgas")
    network = case.network
    junction = replace(network.junction, id=tuple(f"{NASTY}{name}" for name in network.junction.id))
    named = replace(case, name=NASTY, network=replace(network, junction=junction))
    page = tmp_path / "nasty.html"
    page.write_text(curator_page(make_release(named, SETTINGS, NoAccount()), ledger=None, places=Places()))
    with browser_tab(page, browser=browser) as tab:
        assert tab.click_everything() > 30
        tab.page.locator("[data-zoom=reset]").click()
        tab.page.locator("#map .nodes circle").first.click()
        assert tab.page.locator(".map-details h3").inner_text() == f"{NASTY}1"
        assert tab.page.locator("img").count() == 0 and "owned" not in tab.page.title().split("'")[0]
        assert tab.page.locator("h1").inner_text().endswith(NASTY)


def test_the_warning_is_on_every_sheet_and_hidden_tabs_are_printed(browser, pages):
    """A table header is repeated on every sheet, so the banner must be one when printed."""
    with browser_tab(pages("veil9")[0], browser=browser) as tab:
        tab.page.emulate_media(media="print")
        banner = tab.page.locator(".banner")
        assert banner.evaluate("element => getComputedStyle(element).display") == "table-header-group"
        assert tab.page.evaluate("getComputedStyle(document.body).display") == "table"
        assert tab.page.locator("[data-tab]:visible").count() == tab.page.locator("[data-tab]").count() == 3


def test_the_helper_notices_errors_and_requests(browser, tmp_path):
    """A page that does what ours must not do fails in the helper itself."""
    bad = {
        "throws": "<script>throw new Error('broken')</script>",
        "logs": "<script>console.error('no')</script>",
        "loads": "<img src='https://example.org/x.png'>",
    }
    for name, body in bad.items():
        page = tmp_path / f"{name}.html"
        page.write_text(f"<!DOCTYPE html><title>x</title><body>{body}</body>")
        with pytest.raises(AssertionError), browser_tab(page, browser=browser) as tab:
            tab.page.wait_for_timeout(50)
