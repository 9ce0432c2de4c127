"""The app in headless Chromium: a release from the first click, with planted demands that must turn up nowhere else."""

from __future__ import annotations

import io
import os
import re
import zipfile
from pathlib import Path

import pytest

from app_server import WAIT, app_server, check_and_confirm, choose, load_network, planted_case
from browser import AXE, DESKTOP, PHONE, Tab, chromium

SHOWN = {
    "case": "#case_facts dl",
    "secret": "#secret_facts h3",
    "private": "#promise table",
    "simulate": "#simulation svg",
    "release": "#check",
    "publish": "#published iframe",
}
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
HASH = re.compile(r"\b[0-9a-f]{64}\b")
SERIOUS = {"serious", "critical"}


@pytest.fixture(scope="module")
def browser():
    with chromium() as one:
        yield one


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("app")


@pytest.fixture(scope="module")
def planted(folder):
    return planted_case(folder / "data")


@pytest.fixture(scope="module")
def server(folder, planted):
    with app_server(folder) as one:
        yield one


class AppTab(Tab):
    """An open app: whatever it sends and receives is kept, and any request elsewhere is trouble."""

    def __init__(self, page, server) -> None:
        self.heard: list[str] = []
        self.here = f"http://127.0.0.1:{server.port}/"
        super().__init__(page)
        page.on("websocket", self._listen)
        page.on("response", self._keep)

    def _listen(self, socket) -> None:
        self._note(not socket.url.startswith(self.here.replace("http", "ws")), socket.url)
        for event in ("framereceived", "framesent"):
            socket.on(event, lambda frame: self.heard.append(str(frame)))

    def _keep(self, response) -> None:
        self.heard.append(response.url)
        if "/files/" not in response.url and "text/html" in response.headers.get("content-type", ""):
            self.heard.append(response.text())

    def _note(self, bad: bool, text: str) -> None:
        local = text.startswith((f"request: {self.here}", "request: data:", "request: blob:"))
        super()._note(bad and not local and "DEPRECATED" not in text, text)  # a date picker of Shiny's own


def open_app(browser, server, *, width: int = DESKTOP, dark: bool = False, **more) -> AppTab:
    size = {"width": width, "height": 844 if width < 640 else 800}
    context = browser.new_context(viewport=size, color_scheme="dark" if dark else "light", **more)
    tab = AppTab(context.new_page(), server)
    tab.page.goto(server.url)
    tab.page.locator("#steps [role=tab]").first.wait_for(timeout=WAIT)
    return tab


def turned_up(text: str, truth: list[float], digits: int = 4) -> set[float]:
    """True values (MW or MVAr) among the numbers of a text, as they are or per unit, to so many digits; hashes aside."""
    tokens = {token for token in NUMBER.findall(HASH.sub("", text)) if len(token.replace(".", "").strip("0")) >= digits}
    shown, near = [float(token) for token in tokens], 10.0**-digits
    return {
        value for value in truth for number in shown for scale in (1.0, 100.0) if abs(number * scale / value - 1) < near
    }


def shot(tab: Tab, name: str) -> None:
    place = os.environ.get("GRIDVEIL_SCREENSHOTS")
    if place:
        tab.screenshot(Path(place) / f"app-{name}.png")


@pytest.fixture(scope="module")
def released(browser, server, planted):
    """Release the planted case by clicks; keep all that was heard until the curator's own pages."""
    tab = open_app(browser, server)
    page, (path, _) = tab.page, planted
    load_network(page, str(path))
    page.locator("#secret_facts .warning").first.wait_for(timeout=WAIT)  # sites are read off the demands
    page.locator("input[name=sites][value=all]").check()
    page.locator("#secret_facts").get_by_text("9 load sites").wait_for(timeout=WAIT)
    page.locator("#to_private").click()
    page.locator("#alpha").fill("10")
    page.locator("#field_trouble .trouble").wait_for(timeout=WAIT)
    page.locator("#alpha").fill("10MVA")
    page.locator("#beta").fill("2%")
    page.locator("#budget_cap").fill("3")
    page.locator("#budget").get_by_text("left after it 2").wait_for(timeout=WAIT)
    page.locator("#to_simulate").click()
    page.locator("#simulation svg").first.wait_for(timeout=WAIT)
    check_and_confirm(page)
    page.locator("#published iframe").wait_for(timeout=WAIT)
    return tab


def test_a_release_from_the_first_click(released, server):
    page = released.page
    (folder,) = (path for path in (server.data / "releases").iterdir() if path.is_dir())
    assert {path.name for path in folder.iterdir()} == {"public", "curator"}
    assert not list((folder / "public").rglob("report*")) and not list((folder / "public").rglob("demands*"))
    assert float(server.ledger().spent) == pytest.approx(1.0)
    card = page.frame_locator("#published iframe").first
    card.get_by_text("In plain words").first.wait_for(timeout=WAIT)
    assert "left after it 1" in page.locator("#budget").inner_text().replace("\n", " ")
    assert not released.trouble, released.trouble


def test_no_true_value_leaves_before_the_curators_own_pages(released, server, planted):
    _, truth = planted
    heard = "\n".join(released.heard)
    assert len(heard) > 50_000 and "simulated releases" in heard  # pages and frames were recorded
    assert not turned_up(heard, truth)
    assert not turned_up("\n".join(server.said), truth) and server.said == []
    names = "\n".join(str(path.relative_to(server.data)) for path in server.data.rglob("*"))
    assert not turned_up(names, truth)
    (report,) = server.data.rglob("curator/demands.csv")
    assert turned_up(report.read_text(), truth) == set(truth)  # the search finds them where they are
    assert not turned_up((server.data / "last.json").read_text(), truth)


def test_downloads_hold_what_they_say(released, server, planted):
    _, truth = planted
    (folder,) = (path for path in (server.data / "releases").iterdir() if path.is_dir())

    def download(name: str) -> bytes:
        answer = server.ask(f"/files/{folder.name}/{name}", Cookie=server.cookie)
        assert answer.status == 200 and "attachment" in answer.getheader("Content-Disposition")
        return answer.read()

    public = zipfile.ZipFile(io.BytesIO(download("public.zip")))
    assert public.namelist() and all(f"{folder.name}/public/" in name for name in public.namelist())
    # Files state twelve digits, of hundreds of noisy numbers: to four of them some may agree by chance.
    found = {name: turned_up(public.read(name).decode(errors="replace"), truth, digits=6) for name in public.namelist()}
    assert not any(found.values()), found
    assert any("/curator/" in name for name in zipfile.ZipFile(io.BytesIO(download("folder.zip"))).namelist())
    command = download("command.txt").decode()
    assert "--alpha 10MVA --beta 2% --sites all" in command and "--budget" not in command  # it has a ledger now
    compile(download("release.py"), "release.py", "exec")
    assert b'beta = ["2%"]' in download("study.toml") and b'alpha = ["0.1pu"]' in download("study.toml")
    answer = server.ask(f"/files/{folder.name}/curator/report.html", Cookie=server.cookie)
    assert answer.status == 200 and "sandbox" in answer.getheader("Content-Security-Policy")
    assert server.ask(f"/files/{folder.name}/curator/report.html").status == 403


@pytest.mark.parametrize(("width", "dark"), [(DESKTOP, False), (PHONE, True)], ids=["1280 light", "390 dark"])
def test_every_step_fits_and_has_no_serious_fault(browser, released, server, width, dark):
    axe = AXE.read_text() if AXE.exists() else None
    tab = open_app(browser, server, width=width, dark=dark, bypass_csp=True)
    tab.page.locator("#case_facts dl").wait_for(timeout=WAIT)
    faults = []
    for step, part in SHOWN.items():
        choose(tab.page, step)
        tab.page.locator(part).first.wait_for(timeout=WAIT)
        if step == "release":
            tab.page.locator("#check").click()
            tab.page.locator(".verdict").wait_for(timeout=WAIT)
        assert tab.overflow() <= 0, f"{step} is {tab.overflow()} px wider than a window of {width} px"
        shot(tab, f"{step}-{width}{'-dark' if dark else ''}")
        if axe is not None:
            tab.page.evaluate(axe)
            found = tab.page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
            faults += [(step, one["id"], one["nodes"][0]["target"]) for one in found if one["impact"] in SERIOUS]
    assert not faults
    assert not tab.trouble, tab.trouble
    tab.page.context.close()
    if axe is None:
        pytest.skip("needs axe-core (make browser); everything else was checked")


def test_keys_alone_lead_to_a_release(browser, released, server):
    """Tab, arrows, space and return from the first field to the published card; the second draw has to be confirmed."""
    tab = open_app(browser, server)
    page, keys = tab.page, tab.page.keyboard
    page.locator("#case_facts dl").wait_for(timeout=WAIT)

    def reach(wanted: str) -> None:
        for _ in range(120):
            if page.evaluate("wanted => document.activeElement?.matches(wanted)", wanted):
                return
            keys.press("Tab")
        raise AssertionError(f"no key leads to {wanted}")

    for button in ("#load", "#to_private"):
        reach(button)
        keys.press("Enter")
        page.locator({"#load": "#to_private", "#to_private": "#controls"}[button]).wait_for(timeout=WAIT)
    reach("#beta_range")
    before = page.locator("#beta").input_value()
    keys.press("ArrowRight")
    assert page.locator("#beta").input_value() != before and page.locator("#beta").input_value().endswith("%")
    reach("#to_simulate")
    keys.press("Enter")
    page.locator("#simulation svg").first.wait_for(timeout=WAIT)
    reach("#to_release")
    keys.press("Enter")
    page.locator("#check").wait_for(timeout=WAIT)
    reach("#check")
    keys.press("Enter")
    page.locator(".verdict").wait_for(timeout=WAIT)
    boxes = page.locator("#checklist input[type=checkbox]").count()
    assert boxes == 2  # the charge, and that these data were drawn from before
    for k in range(boxes):
        reach(f"#agree_{k}")
        keys.press("Space")
    reach("#confirm")
    keys.press("Enter")
    page.locator("#published iframe").wait_for(timeout=WAIT)
    assert float(server.ledger().spent) == pytest.approx(2.0)
    assert not tab.trouble, tab.trouble
    page.context.close()


def test_a_moved_slider_cancels_the_simulation(browser, released, server):
    tab = open_app(browser, server)
    page = tab.page
    page.locator("#case_facts dl").wait_for(timeout=WAIT)
    choose(page, "simulate")
    page.locator("#simulation svg").first.wait_for(timeout=WAIT)
    odds = page.locator("#simulation strong").inner_text()
    page.locator("#epsilon_range").focus()
    for _ in range(12):
        page.keyboard.press("ArrowLeft")
    page.locator("#simulation strong").filter(has_not_text=odds).wait_for(timeout=WAIT)
    count = page.locator("#simulation dd").first.inner_text()
    assert int(count.partition(" ")[0]) < 50  # it began anew
    assert not tab.trouble, tab.trouble
    page.context.close()


def test_what_was_not_offered_is_not_loaded(browser, released, server):
    """A path that a browser makes up is refused, and nothing of its message shows the file."""
    tab = open_app(browser, server)
    page = tab.page
    page.locator("#case_facts dl").wait_for(timeout=WAIT)
    for path in ("/etc/passwd", "../planted.m", str(server.data / "releases"), "veil9/../veil9"):
        page.evaluate("path => Shiny.setInputValue('source', path)", path)
        page.evaluate("() => Shiny.setInputValue('load:shiny.action', Date.now())")
        page.get_by_text("Choose a network first").first.wait_for(timeout=WAIT, state="attached")
    assert "root:" not in "\n".join(tab.heard)
    page.context.close()
