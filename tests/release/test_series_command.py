"""``gridveil release --series`` and ``case.release_series``: tables in, tables of the same form out, one charge."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import yaml

import gridveil
from gridveil.core.errors import InputError
from gridveil.privacy.ledger_book import LedgerBook
from gridveil.sectors.registry import load_case
from gridveil.sectors.series_table import site_names
from gridveil.service.series_card import plain_words

HOURS = 6


def demands(hours: int = HOURS) -> pd.DataFrame:
    """Long table of veil9's own demands, scaled hour by hour."""
    case = load_case("veil9")
    values = np.outer(1 - 0.05 * np.arange(hours) % 0.4, case.values.reveal()) * case.field.base
    times = pd.date_range("2026-01-05", periods=hours, freq="h")
    return pd.DataFrame(
        {
            "timestamp": times.repeat(len(case.field)),
            "site": np.tile(case.field.places, hours),
            "p_mw": values.real.ravel(),
            "q_mvar": values.imag.ravel(),
        }
    )


def wide(frame: pd.DataFrame, *columns: str) -> pd.DataFrame:
    parts = [
        frame.pivot(index="timestamp", columns="site", values=column).add_suffix(f".{column}") for column in columns
    ]
    return pd.concat(parts, axis=1).reset_index()


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "loads.csv"
    demands().to_csv(path, index=False)
    return path


def test_a_table_comes_back_in_its_own_form(cli, tmp_path, table):
    out = tmp_path / "out"
    run = cli(
        "release", "veil9", "--series", table, "--protects", "hour", "--alpha", "1MVA", "--budget", 2, "--out", out,
        "--workers", 1, "--json",
    )  # fmt: skip
    assert run.code == 0, run.err
    report = json.loads(run.out)
    assert report["hours"] == report["hours_verified"] == HOURS
    assert report["promise"]["protects"] == "hour" and report["promise"]["epsilon_of_a_whole_profile"] == HOURS
    assert report["data_set"] == {
        "epsilon": 1, "cap": 2, "alpha": 1, "unit": "MVA", "draws": 1, "delta": 0, "protects": "hour"
    }  # fmt: skip
    before, after = pd.read_csv(table), pd.read_csv(out / "public" / "series.csv")
    assert list(after.columns) == list(before.columns) and len(after) == len(before)
    assert (after[["timestamp", "site"]] == before[["timestamp", "site"]]).all(axis=None)
    noise = np.hypot(after.p_mw - before.p_mw, after.q_mvar - before.q_mvar)
    assert 1 < np.sqrt(np.mean(noise**2)) < 5  # planar Laplace at 1 MVA: 2.45 MVA
    hours = pd.read_csv(out / "public" / "hours.csv")
    assert (abs(hours.optimal_cost - hours.cost_target) <= hours.beta).all() and (hours.status == "verified").all()
    card = yaml.safe_load((out / "public" / "card.yaml").read_text())
    assert (
        card["in_plain_words"][0].startswith("One hour of one load site")
        and "add up to epsilon = 6" in card["in_plain_words"][1]
    )
    assert json.loads((out / "curator" / "report.json").read_text())["curator"]["errors_released"]["hourly"] > 0


def test_a_released_hour_is_what_the_reader_of_the_network_finds(cli, tmp_path, table):
    """The network file holds the hour of the highest released demand; its optimum is that of hours.csv."""
    out = tmp_path / "out"
    assert (
        cli(
            "release",
            "veil9",
            "--series",
            table,
            "--protects",
            "profile",
            "--seed",
            1,
            "--alpha",
            "0.1MVA",
            "--out",
            out,
        ).code
        == 0
    )
    series = pd.read_csv(out / "simulation" / "series.csv")
    peak = series.groupby("timestamp").p_mw.sum().idxmax()
    solved = gridveil.load(str(out / "simulation" / "network.m")).solve()
    hours = pd.read_csv(out / "simulation" / "hours.csv", index_col="timestamp")
    assert solved.cost == pytest.approx(hours.optimal_cost[peak], rel=1e-6)


@pytest.mark.parametrize("form", ["long", "wide"])
def test_forms_of_one_table_are_read_alike(form):
    """Same seed, same demands: the same release from a long and a wide frame, and with a power factor instead of MVAr."""
    frame = demands()
    case = gridveil.load("veil9")
    options = {"protects": "profile", "epsilon": 1, "alpha": "1MVA", "beta": "5%", "seed": 4, "basis": "level"}
    expected = case.release_series(frame, **options).to_pandas()
    factor = frame.p_mw / np.hypot(frame.p_mw, frame.q_mvar) * np.where(frame.q_mvar < 0, -1, 1)
    if form == "long":
        other = frame.drop(columns="q_mvar").assign(power_factor=factor)
        np.testing.assert_allclose(case.release_series(other, **options).to_pandas().q_mvar, expected.q_mvar, atol=1e-3)
        return
    found = case.release_series(wide(frame, "p_mw", "q_mvar"), **options).to_pandas()
    assert found.columns[0] == "timestamp" and set(found.columns[1:]) == {
        f"{site}.{part}" for site in case.case.field.places for part in ("p_mw", "q_mvar")
    }
    pivoted = expected.pivot(index="timestamp", columns="site", values="p_mw")
    for site in case.case.field.places:
        np.testing.assert_array_equal(found[f"{site}.p_mw"], pivoted[site])
    only = wide(frame, "p_mw").rename(columns=lambda name: name.removesuffix(".p_mw"))
    fixed = case.release_series(only.set_index("timestamp"), power_factor=0.9, **options).to_pandas()
    assert list(fixed.columns[1:3]) == [f"{case.case.field.places[0]}.p_mw", f"{case.case.field.places[0]}.q_mvar"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda f: f.drop(columns="timestamp"), "no column of timestamps"),
        (lambda f: f.drop(columns="p_mw"), "no column 'p_mw'"),
        (lambda f: f.drop(columns="q_mvar"), "no reactive power"),
        (lambda f: f[f.site != f.site[0]], "nothing for site"),
        (lambda f: f.assign(site=f.site + "x"), "no site of the case"),
        (lambda f: f.iloc[1:], "no finite number for site"),
        (lambda f: pd.concat([f, f.iloc[:1]]), "twice"),
        (lambda f: f.assign(p_mw="4321.5 MW"), "no number"),
        (lambda f: f.iloc[:0], "nothing for site|no hours"),
        (lambda f: f.drop(columns="q_mvar").assign(power_factor=1.5), "power factor must lie"),
    ],
)
def test_bad_tables_are_refused_without_a_value(change, words):
    with pytest.raises(gridveil.core.errors.InputError, match=words) as refused:
        gridveil.load("veil9").release_series(
            change(demands()).reset_index(drop=True), protects="hour", epsilon=1, alpha="1MVA", beta="1%", seed=1
        )
    numbers = {repr(value) for value in demands()[["p_mw", "q_mvar"]].to_numpy().ravel().tolist()}
    assert not any(number in str(refused.value) for number in numbers if len(number) > 3)
    assert "4321" not in str(refused.value)


def test_a_public_shape_gives_every_hour_its_share(tmp_path):
    frame, case = demands(), gridveil.load("veil9")
    shape = frame.drop_duplicates("timestamp")[["timestamp"]].assign(weight=[1.0, 2.0, 3.0, 2.0, 1.0, 3.0])
    path = tmp_path / "typical.parquet"
    shape.to_parquet(path)
    made = case.release_series(frame, protects="profile", epsilon=5, alpha="0.1MVA", beta="5%", seed=4, basis=str(path))
    noisy = made._release.draw.values
    np.testing.assert_allclose(noisy / noisy[0], np.outer(shape.weight, np.ones(7)), rtol=1e-12)
    assert made.card["mechanism"]["numbers_per_profile"] == 1
    with pytest.raises(gridveil.core.errors.InputError, match="timestamps of the series"):
        case.release_series(
            frame.iloc[7:], protects="profile", epsilon=5, alpha="1MVA", beta="5%", seed=4, basis=str(path)
        )


@pytest.mark.parametrize("promise", [{"protects": "hour"}, {"protects": "profile", "noise": "shared-shape"}])
def test_gas_has_series_too(promise):
    case = gridveil.load("veilgas")
    hours = pd.date_range("2026-01-05", periods=3, freq="h")
    flows = np.outer([1.0, 0.9, 0.8], case.case.values.reveal()) * case.case.field.base
    frame = pd.DataFrame({"snapshot": hours, **dict(zip(site_names(case.case.field), flows.T, strict=True))})
    made = case.release_series(frame, epsilon=1, alpha="0.05kg/s", beta="5%", seed=2, **promise)
    assert made.card["hours_verified"] == 3 and made.card["promise"]["unit"] == "kg/s"
    assert list(made.to_pandas().columns) == list(frame.columns)
    assert 0 < made.errors.hourly < 0.5


def test_the_card_says_what_was_measured():
    made = gridveil.load("veil9").release_series(
        demands(), protects="profile", epsilon=1, alpha="0.1MVA", beta="5%", seed=4, noise="shared-shape"
    )
    assert made.card["mechanism"]["numbers_per_profile"] == 1 and made.card["mechanism"]["basis"] == "week"
    values = made._release.draw.values
    np.testing.assert_allclose(values / values[0], np.outer(values[:, 0] / values[0, 0], np.ones(7)), rtol=1e-9)
    private = replace(made._release, draw=replace(made._release.draw, simulation=False))
    assert "the sum of all profiles by 6 numbers" in plain_words(private)[1]


def test_the_basis_is_chosen_from_public_data():
    """More privacy, coarser basis; the true demands play no part."""
    frame, case = demands(24 * 7), gridveil.load("veil9")
    found = [
        case.release_series(f, protects="profile", epsilon=epsilon, alpha="1MVA", beta="5%", seed=4)._release.basis.name
        for f in (frame, frame.assign(p_mw=0.01 * frame.p_mw))
        for epsilon in ("0.2", "4", "40")
    ]
    assert found == ["level", "parts", "week"] * 2


def test_options_of_a_series_need_one_and_a_series_needs_its_promise(cli, tmp_path, table):
    lonely = cli("release", "veil9", "--protects", "hour", "--out", tmp_path / "a")
    assert lonely.code == 2 and "belong to --series" in lonely.err
    silent = cli("release", "veil9", "--series", table, "--seed", 1, "--out", tmp_path / "a")
    assert silent.code == 2 and "--protects hour, or --protects profile" in silent.err
    assert not (tmp_path / "a").exists()


def series_command(table, out, *more):
    return (
        "release", "veil9", "--series", table, "--protects", "hour", "--alpha", "1MVA", "--budget", 2, "--out", out, *more
    )  # fmt: skip


@pytest.mark.parametrize("engine", ["native", "gpu"])
def test_a_missing_engine_costs_nothing(cli, tmp_path, table, monkeypatch, engine):
    """It is missed before a ledger is made, whose cap can never be changed, and before anything is charged."""
    monkeypatch.setattr("gridveil.solvers.batch.engine_native.COMPILER", "no-such-compiler")
    monkeypatch.setitem(sys.modules, "cupy", None)
    run = cli(*series_command(table, tmp_path / "out", "--batch", engine))
    assert run.code == 2 and f"the {engine if engine == 'native' else 'GPU'} batch solver needs" in run.err
    assert not LedgerBook().entries() and not (tmp_path / "out").exists()


def test_an_engine_that_fails_in_the_middle_leaves_a_way_on(cli, tmp_path, table, monkeypatch):
    def fails(*_, **__):
        raise InputError("the device is gone; use another engine")

    with monkeypatch.context() as patch:
        patch.setattr("gridveil.service.series.run_all", fails)
        patch.setattr("gridveil.service.series.engine_beside", lambda choice, solver: object())
        run = cli(*series_command(table, tmp_path / "out", "--batch", "auto"))
    assert run.code == 2 and "the device is gone" in run.err
    assert f"what is charged is not charged again: go on in the same folder, {tmp_path / 'out'}" in " ".join(
        run.err.split()
    )
    run = cli(*series_command(table, tmp_path / "out", "--workers", 1))
    assert run.code == 0, run.err
    (entry,) = LedgerBook().entries()
    assert len(LedgerBook().find(entry.dataset).charges) == 1


def test_a_killed_command_goes_on_and_is_charged_once(cli, tmp_path, ledger_home):
    """SIGKILL while hours are being repaired; the same command then ends the series with the draws of the first."""
    table, out = tmp_path / "loads.parquet", tmp_path / "out"
    demands(200).to_parquet(table)
    arguments = [
        "release", "veil9", "--series", table, "--protects", "profile", "--basis", "hours", "--alpha", "0.01MVA", "--budget", 3,
        "--out", out, "--workers", 1,
    ]  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-c", "from gridveil.cli import main; main()", *map(str, arguments)],
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env=os.environ | {"GRIDVEIL_HOME": str(ledger_home)},
    )
    state, deadline = out / "curator" / "series.json", time.monotonic() + 120
    while not (state.exists() and '"drawn"' in state.read_text()):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (out / "public").exists()
    stored = (out / "curator" / "series.npy").read_bytes()
    run = cli(*arguments)
    assert run.code == 0, run.err
    assert "cost nothing again" in run.err
    assert (out / "curator" / "series.npy").read_bytes() == stored and (out / "public" / "series.parquet").exists()
    (entry,) = LedgerBook().entries()
    assert len(LedgerBook().find(entry.dataset).charges) == 1
    assert cli(*arguments).code == 2  # a folder that is complete is not written again
