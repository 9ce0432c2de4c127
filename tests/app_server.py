"""The app as a process of its own, as a steward starts it, and what is needed to drive it in a browser."""

from __future__ import annotations

import http.client
import os
import re
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

from gridveil.privacy.ledger_book import LedgerBook
from gridveil.sectors.builtin import resolve_case
from seeded_noise import command_with_noise

WAIT = 60_000  # milliseconds: other work may share the machine
DEMAND = re.compile(r"^(\s*\d+\s+\d\s+)(\S+)(\s+)(\S+)(\s+.*)$", re.MULTILINE)


class AppServer:
    """``gridveil app`` on a free port; ``home`` holds its ledgers, ``data`` its cases and releases."""

    def __init__(self, folder: Path, case: str | None = None, *options: str, **environment: str) -> None:
        self.home, self.data = folder / "home", folder / "data"
        words = ["app", *([] if case is None else [case]), "--data", str(self.data), *options]
        self.process = subprocess.Popen(
            [sys.executable, "-c", command_with_noise("app"), *words],
            env=os.environ | {"GRIDVEIL_HOME": str(self.home)} | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        first = self.process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)/\?token=(\S+)", first)
        assert found, f"the app did not start: {first}{self.process.stdout.read()}"
        self.url, self.port, self.token = found[0], int(found[1]), found[2]
        self.said: list[str] = []
        threading.Thread(target=lambda: self.said.extend(self.process.stdout), daemon=True).start()

    @property
    def cookie(self) -> str:
        return f"gridveil-{self.port}={self.token}"

    def ask(
        self, path: str, method: str = "GET", *, address: str = "127.0.0.1", **headers: str
    ) -> http.client.HTTPResponse:
        """One request with the given headers and no others (``_`` stands for ``-``)."""
        connection = http.client.HTTPConnection(address, self.port, timeout=60)
        connection.putrequest(method, path, skip_host="Host" in headers, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name.replace("_", "-"), value)
        connection.endheaders()
        return connection.getresponse()

    def ledger(self):
        (entry,) = LedgerBook(self.home).entries()
        return LedgerBook(self.home).find(entry.dataset)

    def kill(self) -> None:
        """End it at once (SIGKILL)."""
        self.process.kill()
        self.process.wait()


@contextmanager
def app_server(folder: Path, case: str | None = None, *options: str, **environment: str):
    """Give a running app; skips the test without the extra."""
    pytest.importorskip("shiny", reason="needs shiny")
    server = AppServer(folder, case, *options, **environment)
    try:
        yield server
    finally:
        server.kill()


def planted_case(folder: Path) -> tuple[Path, list[float]]:
    """veil9 with demands that can be recognised wherever they turn up; return the file and the numbers (MW, MVAr)."""
    text = resolve_case("veil9").read_text()
    head, mark, rest = text.partition("mpc.bus = [")
    table, end, tail = rest.partition("];")
    numbers: list[float] = []

    def plant(row: re.Match[str]) -> str:
        if float(row[2]) == 0 and float(row[4]) == 0:
            return row[0]
        p, q = float(row[2]) + 0.157_39, float(row[4]) + 0.063_71
        numbers.extend((p, q))
        return f"{row[1]}{p:.5f}{row[3]}{q:.5f}{row[5]}"

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "planted.m"
    path.write_text(head + mark + DEMAND.sub(plant, table) + end + tail)
    assert len(numbers) == 14
    return path, numbers


def choose(page, step: str) -> None:
    """Go to a step by its tab."""
    page.locator(f"#steps [role=tab][data-value={step}]").click(timeout=WAIT)


def load_network(page, source: str | None = None) -> None:
    """Choose a network and wait for its public facts."""
    choose(page, "case")
    if source is not None:
        page.locator("#source").select_option(source)
    page.locator("#load").click()
    page.locator("#secret_facts h3").first.wait_for(timeout=WAIT)


def check_and_confirm(page) -> None:
    """Run the checklist, tick every box, and release."""
    choose(page, "release")
    page.locator("#check").click()
    page.locator(".verdict").wait_for(timeout=WAIT)
    for box in page.locator("#checklist input[type=checkbox]").all():
        box.check()
    page.locator("#confirm").click()
