"""kill −9 of the server in every step: the form comes back, what was charged is finished, and nothing is charged twice."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from app_server import WAIT, AppServer, app_server, check_and_confirm, choose
from browser import chromium
from gridveil.app.data_folder import DataFolder, StoredRelease
from gridveil.app.request import ReleaseRequest
from gridveil.app.work import finish_release
from gridveil.core.errors import InputError
from gridveil.privacy.ledger_book import HOME, LedgerBook

pytest.importorskip("shiny", reason="needs shiny")

# With noise of seven times this size every hundredth draw of veil9 has no prices, and the cost target's share stays unspent.
FIELDS = {"epsilon": "0.5", "alpha": "1MVA", "beta": "3%", "budget_cap": "2"}


@pytest.fixture(scope="module")
def page():
    with chromium() as browser:
        yield browser.new_context().new_page()


def kill_when(server: AppServer, condition) -> threading.Thread:
    """Kill the server as soon as a condition on its files holds."""

    def watch() -> None:
        while server.process.poll() is None and not condition():
            time.sleep(0.0005)
        server.kill()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread


def charged(server: AppServer) -> bool:
    return any(path.read_bytes().count(b"\n") > 1 for path in server.home.glob("ledgers/*.ledger"))


def exists(server: AppServer, pattern: str) -> bool:
    return next(server.data.glob(f"releases/{pattern}"), None) is not None


MOMENTS = {
    "announced": lambda server: exists(server, "*/curator/begun.json"),
    "charged": charged,
    "drawn": lambda server: exists(server, "*/curator/draw.json"),
    "published": lambda server: exists(server, "*/public"),
}


def fill(page) -> None:
    choose(page, "private")
    for name, value in FIELDS.items():
        page.locator(f"#{name}").fill(value)
    page.locator("#budget").get_by_text("left after it 1.5").wait_for(timeout=WAIT)


def test_nothing_is_lost_and_nothing_charged_twice(page, tmp_path):
    """Killed in each step of the form, then at four moments of one release, and finished by the fifth server."""
    for step in ("case", "secret", "private", "simulate", "release"):
        with app_server(tmp_path, "veil9") as server:
            page.goto(server.url)
            page.locator("#case_facts dl").wait_for(timeout=WAIT, state="attached")
            if step == "case":
                fill(page)
            assert {name: page.locator(f"#{name}").input_value() for name in FIELDS} == FIELDS
            choose(page, step)
            if step == "release":
                killer = kill_when(server, lambda: MOMENTS["announced"](server))
                check_and_confirm(page)
                killer.join(timeout=WAIT / 1000)
            else:
                assert not LedgerBook(server.home).entries()  # nothing is made, so nothing is charged
                assert not list((server.data / "releases").iterdir())
            server.kill()
    for moment in ("charged", "drawn", "published", None):
        with app_server(tmp_path, "veil9") as server:
            page.goto(server.url)
            page.locator("#finish").click(timeout=WAIT)
            if moment is not None:
                kill_when(server, lambda: MOMENTS[moment](server)).join(timeout=WAIT / 1000)  # noqa: B023
                assert server.process.poll() is not None
                continue
            page.locator("#published iframe").wait_for(timeout=WAIT)
            assert page.locator("#finish").count() == 0
            assert float(server.ledger().spent) == pytest.approx(0.5, abs=1e-12)
            assert len({charge.draw for charge in server.ledger().charges}) == len(server.ledger().charges) <= 2
            (stored,) = DataFolder(server.data).releases()
            wanted = {"curator/report.html", "public/card.yaml", "public/certificate.yaml"}
            assert stored.finished and wanted < set(stored.files())
            assert server.said == []


def test_two_servers_finish_one_release_once(tmp_path, monkeypatch):
    monkeypatch.setenv(HOME, str(tmp_path / "home"))
    data = DataFolder(tmp_path / "data")
    request = ReleaseRequest(source="veil9", epsilon="1", alpha="10MVA", beta="2%", budget="1")
    stored = data.new_release("veil9", request.plain())
    stored.write()
    endings: list[str] = []

    def finish() -> None:
        try:
            finish_release(stored, stage=lambda words: None)
            endings.append("finished")
        except InputError as error:
            endings.append(str(error))

    threads = [threading.Thread(target=finish) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert endings.count("finished") >= 1
    assert all(words == "finished" or "another server" in words for words in endings)
    (entry,) = LedgerBook(tmp_path / "home").entries()
    assert float(LedgerBook(tmp_path / "home").find(entry.dataset).spent) == pytest.approx(1.0)


def test_a_release_over_budget_is_refused_whoever_asks(tmp_path, monkeypatch):
    """Two different releases at once, and a cap for one: the ledger's lock decides."""
    monkeypatch.setenv(HOME, str(tmp_path / "home"))
    data = DataFolder(tmp_path / "data")
    request = ReleaseRequest(source="veil9", epsilon="1", alpha="10MVA", beta="2%", budget="1")
    asked: list[StoredRelease] = [data.new_release("veil9", request.plain()) for _ in range(2)]
    endings: list[str] = []
    for stored in asked:
        stored.write()
        try:
            finish_release(stored, stage=lambda words: None)
            endings.append("finished")
        except InputError as error:
            endings.append(str(error))
    assert endings[0] == "finished" and "budget" in endings[1]
    (entry,) = LedgerBook(tmp_path / "home").entries()
    assert float(LedgerBook(Path(tmp_path / "home")).find(entry.dataset).spent) == pytest.approx(1.0)
