"""Pages in headless Chromium: opened, clicked through and photographed; any error or network request fails the test."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
DESKTOP, PHONE = 1280, 390
AXE = Path(__file__).parents[1] / ".browser" / "node_modules" / "axe-core" / "axe.min.js"
FAULTS = """async (within) => (await axe.run(within)).violations.map(
  (fault) => `${fault.impact} ${fault.id}: ${fault.nodes[0].html.slice(0, 200)}`
)"""
CLICKABLE = "button, [role=tab], summary, a[href^='#'], input[type=checkbox], input[type=radio]"
CLICK_ALL = """(wanted) => {
  let count = 0;
  for (const element of [...document.querySelectorAll(wanted)]) {
    if (element.getClientRects().length === 0) continue;
    element.click();
    count += 1;
  }
  return count;
}"""


class Tab:
    """An open page and the trouble it has had; ``page`` is playwright's own."""

    def __init__(self, page) -> None:
        self.page = page
        self.trouble: list[str] = []
        page.on("console", lambda message: self._note(message.type in {"error", "warning"}, message.text))
        page.on("pageerror", lambda error: self._note(True, str(error)))
        page.on("dialog", lambda dialog: (self._note(True, f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: self._note(_leaves(request.url), f"request: {request.url[:200]}"))

    def _note(self, bad: bool, text: str) -> None:
        if bad and text not in self.trouble:
            self.trouble.append(text)

    def click_everything(self) -> int:
        """Click each visible button, tab, sort heading and link within the page once; give how many there were."""
        return int(self.page.evaluate(CLICK_ALL, CLICKABLE))

    def overflow(self) -> int:
        """Pixels by which the page is wider than the window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        """Photograph the page (PNG)."""
        self.page.screenshot(path=path, full_page=whole)


@contextmanager
def chromium() -> Iterator:
    """Give a headless browser; skips the test where there is none."""
    if CHROMIUM is None:
        pytest.skip("needs chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def browser_tab(file: Path, *, width: int = DESKTOP, dark: bool = False, browser=None) -> Iterator[Tab]:
    """Open a file offline; fails the test on leaving if the page logged, raised or requested anything."""
    if browser is None:
        with chromium() as own, browser_tab(file, width=width, dark=dark, browser=own) as tab:
            yield tab
        return
    size = {"width": width, "height": 844 if width < 640 else 800}
    context = browser.new_context(viewport=size, color_scheme="dark" if dark else "light", offline=True)
    try:
        tab = Tab(context.new_page())
        tab.page.goto(file.resolve().as_uri())
        yield tab
        assert not tab.trouble, tab.trouble
    finally:
        context.close()


def axe_faults(file: Path, browser, *, dark: bool = False, within: str = "html") -> list[str]:
    """What axe-core objects to on a page; skips the test where it is not installed (make browser)."""
    if not AXE.exists():
        pytest.skip("needs axe-core: make browser")
    context = browser.new_context(
        viewport={"width": DESKTOP, "height": 800},
        color_scheme="dark" if dark else "light",
        offline=True,
        bypass_csp=True,
    )
    try:
        page = context.new_page()
        page.goto(file.resolve().as_uri())
        page.add_script_tag(path=AXE)
        return list(page.evaluate(FAULTS, within))
    finally:
        context.close()


def check_page(file: Path, name: str, folder: Path, browser=None) -> int:
    """Open a page at desk and phone width, photograph it, insist that it fits, and click everything; give the clicks.

    Photographs NAME-1280.png and NAME-390.png go to the folder named by GRIDVEIL_SCREENSHOTS, or else to ``folder``.
    """
    if browser is None:
        with chromium() as own:
            return check_page(file, name, folder, own)
    shots = Path(os.environ.get("GRIDVEIL_SCREENSHOTS", folder))
    shots.mkdir(parents=True, exist_ok=True)
    clicks = 0
    for width in (DESKTOP, PHONE):
        with browser_tab(file, width=width, browser=browser) as tab:
            tab.screenshot(shots / f"{name}-{width}.png")
            assert tab.overflow() <= 0, f"{name} is {tab.overflow()} px wider than a window of {width} px"
            clicks += tab.click_everything()
            assert tab.overflow() <= 0, f"{name} overflows at {width} px after clicking"
    return clicks


def _leaves(url: str) -> bool:
    return not url.startswith(("file://", "data:", "blob:"))
