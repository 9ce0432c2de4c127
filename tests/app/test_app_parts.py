"""Parts of the app without a browser: requests, the data folder, the preview, and what the checklist says."""

from __future__ import annotations

import re
import shlex
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

import gridveil
from app_server import planted_case
from gridveil.app.data_folder import DataFolder
from gridveil.app.request import ReleaseRequest
from gridveil.app.work import Simulator, finish_release
from gridveil.cli.main import app
from gridveil.core.band import Tolerance
from gridveil.core.choices import CostTargetMode
from gridveil.core.deadline import OutOfTimeError, check_time, stoppable
from gridveil.core.errors import InputError
from gridveil.privacy.curator import published_values
from gridveil.privacy.ledger_book import HOME
from gridveil.privacy.mechanisms.simulation import simulate_laplace
from gridveil.sectors.registry import load_case
from gridveil.service.prepare import PublicCase
from gridveil.service.settings import CostTargetSettings, ReleaseSettings
from gridveil.study.preview import QUICK_RUNS, WHOLE_RUNS, preview, preview_base
from gridveil.study.study_file import read_study

REQUEST = ReleaseRequest(source="veil9", epsilon="1/2", alpha="7MVA", beta="3%", bounds="nonnegative", target="derived",
                         publisher="A grid company", title="our grid")  # fmt: skip
SETTINGS = ReleaseSettings(epsilon="1", alpha="10MVA", beta=Tolerance.parse("1%"))


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv(HOME, str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def data(tmp_path):
    return DataFolder(tmp_path / "data")


def stated(folder: Path) -> dict[str, object]:
    card = yaml.safe_load((folder / "public" / "card.yaml").read_text())
    promise, mode = card["promise"], card["cost_target"]["mode"]
    assert {"publisher": "A grid company", "network": "our grid"}.items() <= card["publication"].items()
    return {"epsilon": promise["epsilon"], "alpha": round(promise["alpha"], 9), "unit": promise["unit"], "cost": mode}


def test_command_and_script_make_the_release_that_the_app_makes(data):
    stored = data.new_release("veil9", ReleaseRequest.of(REQUEST.plain() | {"budget": "3"}).plain())
    stored.write()
    finish_release(stored, stage=lambda words: None)
    answer = CliRunner().invoke(app, [*shlex.split(REQUEST.command("by-command"))[1:], "--yes"])
    assert answer.exit_code == 0, answer.output
    script = REQUEST.script("by-script").replace("release(\n", "release(\n    confirm=True,\n")
    exec(compile(script, "release.py", "exec"), {})
    wanted = {"epsilon": 0.5, "alpha": 7.0, "unit": "MVA", "cost": "derived"}
    assert stated(stored.folder) == stated(Path("by-command")) == stated(Path("by-script")) == wanted


def test_a_draw_is_used_again_at_no_cost_and_with_its_promise(data):
    first = data.new_release("veil9", ReleaseRequest.of(REQUEST.plain() | {"budget": "0.5"}).plain())
    first.write()
    finish_release(first, stage=lambda words: None)
    again = ReleaseRequest(source="veil9", epsilon="9", alpha="1MVA", beta="8%", reuse=first.name,
                           publisher="A grid company", title="our grid")  # fmt: skip
    second = data.new_release("veil9", again.plain())
    second.write()
    finish_release(second, stage=lambda words: None)  # the cap leaves nothing
    assert stated(second.folder) | {"cost": ""} == stated(first.folder) | {"cost": ""}
    assert list(data.reusable("veil9", "")) and not data.reusable("veil2", "")


def test_the_study_file_is_one(data, tmp_path):
    (tmp_path / "network.m").write_bytes(Path(str(load_source("veil9"))).read_bytes())
    (tmp_path / "study.toml").write_text(REQUEST.study("network.m", load_case("veil9").field))
    study = read_study(tmp_path / "study.toml")
    (cell,) = study.cells
    assert (cell.alpha, cell.beta, study.epsilon) == pytest.approx((0.07, 0.03, 0.5))


def load_source(name: str) -> Path:
    from gridveil.sectors.builtin import resolve_case

    return resolve_case(name)


@pytest.mark.parametrize(
    "wrong", [{"alpha": "10"}, {"beta": "1"}, {"epsilon": "0"}, {"alpha": "-1MVA"}, {"alpha": "1kg/s"}]
)
def test_numbers_without_a_meaning_are_refused(wrong):
    with pytest.raises(InputError):
        ReleaseRequest.of(REQUEST.plain() | wrong).settings(load_case("veil9").field)


def test_only_files_of_the_folder_are_offered(data, tmp_path):
    (tmp_path / "outside.m").write_text("secret")
    (data.folder / "link.m").symlink_to(tmp_path / "outside.m")
    (data.folder / "grid.m").write_text("x")
    offered = data.sources()["In the data folder"]
    assert list(offered.values()) == ["grid.m"]
    for source in (
        str(tmp_path / "outside.m"),
        str(data.folder / "link.m"),
        "../outside.m",
        f"{data.folder}/../outside.m",
        "",
    ):
        assert not data.is_source(source)


def test_an_upload_keeps_to_its_place(data, tmp_path):
    for name in ("../../evil.m", "/etc/evil.m", "ev il\x00.m", "....m", ".m.m"):
        sent = tmp_path / "0.m"
        sent.write_text("function mpc = x")
        source = Path(data.take_upload(sent, name))
        assert source.parent == data.folder / "cases" and source.stat().st_mode & 0o777 == 0o600
        assert not sent.exists() and data.is_source(str(source))
    with pytest.raises(InputError):
        data.take_upload(tmp_path / "0.m", "page.html")
    assert not (tmp_path / "evil.m").exists()


def test_the_preview_measures_what_it_says():
    base = preview_base(PublicCase.of(load_case("veil9")))
    settings = ReleaseSettings(
        epsilon="1", alpha="10MVA", beta=Tolerance.parse("1%"), target=CostTargetSettings(mode=CostTargetMode.DERIVED)
    )
    run = base.run_quickly(settings, seed=3)
    truth = published_values(base.case)
    noisy = simulate_laplace(base.case.values, epsilon=1.0, alpha=0.1, seed=3).values
    assert run.verified and abs(run.cost) <= 0.01 * (1 + 1e-9)
    assert run.distance_noisy == pytest.approx(np.linalg.norm(noisy - truth) / np.linalg.norm(truth))
    names, place = base.zones
    assert set(names) == {"area 1", "area 2"}
    # Sites lie at buses 2, 3, 4, 5 (area 1) and 7, 8, 9 (area 2) of the file.
    assert [names[k] for k in place] == ["area 1"] * 4 + ["area 2"] * 3
    values = truth * 1.1
    assert base._zone_changes(truth, values) == pytest.approx((0.1, 0.1))


def test_the_preview_depends_on_nothing_secret():
    case = load_case("veil9")
    other = case.with_values(case.values.scaled(3.0))
    runs = [next(preview(preview_base(PublicCase.of(one)), SETTINGS)) for one in (case, other)]
    assert runs[0] == runs[1]


def test_a_preview_is_streamed_and_ends(monkeypatch):
    monkeypatch.setattr("gridveil.study.preview.QUICK_RUNS", 4)
    monkeypatch.setattr("gridveil.study.preview.WHOLE_RUNS", 2)
    runs = list(preview(preview_base(PublicCase.of(load_case("veil2"))), SETTINGS))
    assert [run.whole for run in runs] == [False] * 4 + [True] * 2


def test_a_new_simulation_stops_the_running_one():
    public, simulator = PublicCase.of(load_case("veil9")), Simulator()
    first = simulator.start(public, SETTINGS)
    deadline = time.monotonic() + 60
    while not first.runs and time.monotonic() < deadline:
        time.sleep(0.01)
    second = simulator.start(public, SETTINGS)
    while not second.runs and time.monotonic() < deadline:
        time.sleep(0.01)
    simulator.cancel()
    assert first.cancelled.is_set() and second.runs and not first.trouble and not second.trouble
    assert len(first.runs) < QUICK_RUNS + WHOLE_RUNS


def test_a_cancelled_simulation_stops_in_the_middle_of_a_release(monkeypatch):
    begun = threading.Event()

    def endless(base: object, settings: object, batch: object, *, alone: object) -> Iterator[None]:
        begun.set()
        while base is not None:
            check_time()
            time.sleep(0.001)
        yield

    monkeypatch.setattr("gridveil.app.work.preview", endless)
    simulator = Simulator()
    simulation = simulator.start(PublicCase.of(load_case("veil2")), SETTINGS)
    assert begun.wait(timeout=60)
    simulator.cancel()
    deadline = time.monotonic() + 60
    while not simulation.done and time.monotonic() < deadline:
        time.sleep(0.01)
    assert simulation.done and not simulation.trouble and not simulation.runs


def test_work_stops_at_the_event():
    stop = threading.Event()
    with stoppable(stop):
        check_time()
        stop.set()
        with pytest.raises(OutOfTimeError):
            check_time()
    check_time()


def test_the_checklist_names_places_and_no_value(data, tmp_path):
    from gridveil.app.checks import check

    path, truth = planted_case(tmp_path)
    # A limit of a generator that equals a demand.
    planted = re.sub(r"(mpc\.gen = \[\s*\n(?:\s*\S+){8}\s+)(\S+)", rf"\g<1>{truth[2]:.5f}", path.read_text(), count=1)
    path.write_text(planted)
    request = ReleaseRequest(source=str(path), sites="all", epsilon="1", alpha="10MVA", beta="2%", budget="1")
    checked = check(request, None, data)
    words = " ".join(text for _, text in checked.lines)
    assert checked.go and "equals a site's demand" in words
    assert not any(f"{value:.{digits}g}" in words for value in truth for digits in (4, 5, 6, 7))
    over = check(ReleaseRequest.of(request.plain() | {"epsilon": "2"}), None, data)
    assert not over.go
    undeclared = check(ReleaseRequest.of(request.plain() | {"sites": "rows"}), None, data)
    assert not undeclared.go


def test_the_app_names_no_other_place():
    """Neither styles, scripts nor Python of the app hold an address elsewhere."""
    folder = Path(gridveil.__file__).parent / "app"
    text = "".join(path.read_text() for path in folder.rglob("*") if path.suffix in {".py", ".js", ".css"})
    assert set(re.findall(r"\w+://[^\s\"'{]*", text)) <= {"http://"}
