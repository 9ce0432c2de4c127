"""A release that was stopped goes on in its folder: nothing is charged twice, and nothing that was paid for is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path

import pytest

import gridveil
from gridveil.privacy.curator import Curator
from gridveil.privacy.ledger import Ledger
from gridveil.sectors.registry import load_case
from gridveil.service.budget import ledger_of

OPTIONS = ("--alpha", "1MVA", "--beta", "20%", "--cost-share", "1/5", "--budget", "5")
PLACES = {
    "before the charge": "gridveil.privacy.ledger.Ledger.charge",
    "charged, not drawn": "gridveil.privacy.curator.Curator.draw",
    "drawn, not kept": "gridveil.service.publish.store_draw",
    "values kept, no sum": "gridveil.service.draw.linear_cost",
    "sum charged, not drawn": "gridveil.privacy.curator.Curator.draw_sum",
    "all kept, not repaired": "gridveil.service.keeping.repair",
    "repaired, not written": "gridveil.service.publish.verify_written",
}


def release(cli, out, *options):
    return cli("release", "veil2", *OPTIONS, "--out", out, *options)


def spent() -> Fraction:
    return ledger_of(load_case("veil2")).spent


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_ctrl_c_says_what_was_charged_and_the_same_command_goes_on(cli, tmp_path, monkeypatch, place):
    def stop(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(place, stop)
        stopped = release(cli, tmp_path / "out")
    assert stopped.code == 130
    charged = spent()
    words = f"charged: ε = {float(charged):g} at α = 1 MVA" if charged else "nothing was charged"
    assert words in stopped.err and "gridveil release veil2" in stopped.err
    draw = tmp_path / "out" / "curator" / "draw.json"
    assert (str(draw) in stopped.err) == draw.exists()
    kept = json.loads(draw.read_text())["values"] if draw.exists() else None
    made = release(cli, tmp_path / "out", *(() if charged else ("--yes",)))
    assert made.code == 0, made.err
    assert spent() == 1 and len(ledger_of(load_case("veil2")).charges) == 2
    assert (tmp_path / "out" / "public" / "card.yaml").exists()
    assert not list((tmp_path / "out").rglob("begun.json")) and not list((tmp_path / "out").glob(".staging*"))
    if kept is not None:
        assert json.loads(draw.read_text())["values"] == kept


@pytest.mark.parametrize(
    "place", ["gridveil.privacy.curator.Curator.draw_group_sums", "gridveil.service.draw.linear_cost"]
)
def test_kept_totals_are_charged_once_too(cli, tmp_path, monkeypatch, place):
    """Stopped after the charge of the totals and before their draw, and after their draw."""
    options = ("--keep", "total=50%", "--totals-share", "1/4")

    def stop(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(place, stop)
        assert release(cli, tmp_path / "out", *options).code == 130
    assert spent() == Fraction(4, 5)  # the values and the totals: all but the fifth for the cost
    draw = tmp_path / "out" / "curator" / "draw.json"
    kept = json.loads(draw.read_text())
    refused = release(cli, tmp_path / "out", "--keep", "total=50%", "--totals-share", "1/3")
    assert refused.code == 2 and spent() == Fraction(4, 5)
    made = release(cli, tmp_path / "out", *options)
    assert made.code == 0, made.err
    assert spent() == 1 and len(ledger_of(load_case("veil2")).charges) == 3
    after = json.loads(draw.read_text())
    assert after["values"] == kept["values"] and len(after["totals"]) == 1
    assert not kept["totals"] or after["totals"] == kept["totals"]


def test_a_release_that_failed_goes_on_with_another_beta(cli, tmp_path):
    impossible = ("--cost-target", "forecast", "--forecast-cost", "1e9")
    options = ("--alpha", "1MVA", "--budget", "5", "--out", tmp_path / "out")
    assert cli("release", "veil2", *options, *impossible, "--beta", "1$/h").code == 3
    assert cli("release", "veil2", *options, *impossible[:3], "1370", "--beta", "50%").code == 0
    assert spent() == 1


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("--epsilon", "2"), "begun with epsilon 1, and its draw is bound to that, not to 2"),
        (("--alpha", "2MVA"), "begun with alpha 1 MVA"),
        (("--cost-share", "1/4"), "begun with cost target private, 1/5"),
        (("--seed", "1"), "begun with seed none"),
    ],
)
def test_what_binds_the_draw_cannot_change(cli, tmp_path, monkeypatch, change, told):
    with monkeypatch.context() as patch:
        patch.setattr("gridveil.service.keeping.repair", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        release(cli, tmp_path / "out")
    before = spent()
    refused = release(cli, tmp_path / "out", *change)
    assert refused.code == 2 and told in refused.err and spent() == before == 1


def test_the_record_serves_its_own_data_alone(cli, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("gridveil.service.keeping.repair", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        release(cli, tmp_path / "out")
    record, draw = (tmp_path / "out" / "curator" / name for name in ("begun.json", "draw.json"))
    text, drawn = record.read_text(), draw.read_text()
    draw.unlink()
    gone = release(cli, tmp_path / "out")  # another draw under the same charge would be a second one
    assert gone.code == 2 and "its draw is gone" in gone.err and spent() == 1
    draw.write_text(drawn)
    record.write_text(text.replace('"epsilon": "1"', '"epsilon": "3"'))
    refused = release(cli, tmp_path / "out", "--epsilon", "3")
    assert refused.code == 2 and "was changed after it was written" in refused.err
    record.write_text(text)
    monkeypatch.setattr(Curator, "digest", lambda *_: "00")
    assert "was begun with other data" in release(cli, tmp_path / "out").err


def test_a_finished_folder_is_not_gone_on_with(cli, tmp_path):
    assert release(cli, tmp_path / "out").code == 0
    refused = release(cli, tmp_path / "out")
    assert refused.code == 2 and f"--reuse {tmp_path / 'out'}" in refused.err and spent() == 1


def test_python_keeps_the_draw_of_a_release_that_was_stopped(monkeypatch):
    case = gridveil.load("veil2")
    with monkeypatch.context() as patch:
        patch.setattr("gridveil.service.keeping.repair", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt) as stopped:
            case.release(alpha="1MVA", beta="20%", cost_share="1/5", budget=5)
    assert "reuse=case.draws[-1]" in stopped.value.__notes__[0]
    (draw,) = case.draws
    assert draw.total is not None
    assert case.release(beta="20%", reuse=draw).status == "verified" and spent() == 1


WATCHED = """
import os, sys, time
from gridveil.cli import main
module, name = os.environ["STOP_AT"].rsplit(".", 1)
import importlib
parts = module.split(".")
try:
    owner = importlib.import_module(module)
except ModuleNotFoundError:
    owner = getattr(importlib.import_module(".".join(parts[:-1])), parts[-1])
def wait(*_, **__):
    open(os.environ["MARK"], "w").close()
    time.sleep(600)
setattr(owner, name, wait)
main()
"""


@pytest.mark.parametrize(
    "place", ["charged, not drawn", "values kept, no sum", "sum charged, not drawn", "repaired, not written"]
)
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT], ids=["kill -9", "Ctrl-C"])
def test_a_real_process_that_is_stopped_loses_nothing(cli, tmp_path, place, how):
    mark = tmp_path / "mark"
    arguments = ["release", "veil2", *OPTIONS, "--out", str(tmp_path / "out")]
    process = subprocess.Popen(
        [sys.executable, "-c", WATCHED, *arguments],
        env=os.environ | {"STOP_AT": PLACES[place], "MARK": str(mark)},
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 120
    while not mark.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    assert mark.exists(), process.stderr.read()
    process.send_signal(how)
    _, told = process.communicate(timeout=60)
    assert process.returncode == (-9 if how is signal.SIGKILL else 130), told
    if how is signal.SIGINT:
        assert "charged: ε = " in told and "go on" in told
    assert cli(*arguments).code == 0
    assert spent() == 1 and len(ledger_of(load_case("veil2")).charges) == 2


def test_two_processes_cannot_go_on_with_one_folder(cli, tmp_path, monkeypatch):
    from gridveil.core.errors import InputError
    from gridveil.service.publish import destination

    with monkeypatch.context() as patch:
        patch.setattr("gridveil.service.keeping.repair", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        release(cli, tmp_path / "out")
    with (
        destination(tmp_path / "out", go_on=True),
        pytest.raises(InputError, match="another release"),
        destination(tmp_path / "out", go_on=True),
    ):
        pytest.fail("the folder was taken twice")
    assert Path(tmp_path / "out" / "curator" / "draw.json").exists() and Ledger.open(ledger_of(load_case("veil2")).path)
