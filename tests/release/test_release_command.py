"""gridveil release, end to end on power networks."""

from __future__ import annotations

import json

import numpy as np
import powerio
import pytest
import yaml

from conftest import nesta, optimum, two_bus_net
from gridveil.sectors.builtin import resolve_case
from gridveil.sectors.load import load_case

FIELDS = {
    "case", "epsilon", "alpha", "beta", "method", "simulation", "status", "cost_target", "cost", "cost_error", "delta",
    "optimisations", "seconds", "certificate", "files", "curator",
}  # fmt: skip
CURATOR_FIELDS = {"distance_noisy", "distance_highpoint", "distance_released", "highpoint_cost_error"}


def run(cli, case, out, *options):
    result = cli("release", case, "--out", out, "--json", *options)
    assert (result.code, result.err) == (0, ""), result.err
    return json.loads(result.out)


@pytest.mark.parametrize("seed", range(4))
def test_simulation_ends_verified_and_keeps_its_cost(cli, tmp_path, seed):
    report = run(cli, "veil9", tmp_path / "out", "--seed", seed, "--alpha", "0.2")
    assert set(report) == FIELDS and set(report["curator"]) == CURATOR_FIELDS
    assert report["status"] == "verified" and report["simulation"] is True
    assert abs(report["cost_error"]) <= 0.01
    assert sorted(report["files"]) == [
        "curator/demands.csv", "curator/draw.json", "curator/report.html", "curator/report.json", "simulation/card.html",
        "simulation/card.yaml", "simulation/network.m",
    ]  # fmt: skip
    written = load_case(str(tmp_path / "out" / "simulation" / "network.m"))
    assert optimum(written).cost == pytest.approx(report["cost"], rel=1e-6)
    original = load_case("veil9")
    distance = np.linalg.norm(written.demand.reveal() - original.demand.reveal()) / np.linalg.norm(
        original.demand.reveal()
    )
    assert distance == pytest.approx(report["curator"]["distance_released"], rel=1e-6)


def test_a_simulation_says_so_and_stays_out_of_public(cli, tmp_path):
    run(cli, "veil9", tmp_path / "plain", "--seed", 1)
    assert not (tmp_path / "plain" / "public").exists()
    run(cli, "veil9", tmp_path / "insisted", "--seed", 1, "--simulation")
    public = tmp_path / "insisted" / "public"
    assert yaml.safe_load((public / "card.yaml").read_text())["name"].startswith("SIMULATION, NOT PRIVATE")
    assert "SIMULATION_NOT_PRIVATE" in (public / "network.m").read_text()


def test_the_same_seed_gives_the_same_files(cli, tmp_path):
    for name in ("one", "two"):
        run(cli, "veil9", tmp_path / name, "--seed", 5)
    for file in ("network.m", "card.yaml", "card.html"):
        assert (tmp_path / "one/simulation" / file).read_bytes() == (tmp_path / "two/simulation" / file).read_bytes()


def test_a_release_without_seed_is_private_and_new_each_time(cli, tmp_path):
    reports = [run(cli, "veil9", tmp_path / name, "--ledger", tmp_path / "l.ledger") for name in ("one", "two")]
    assert all(not report["simulation"] for report in reports)
    texts = [(tmp_path / name / "public" / "network.m").read_text() for name in ("one", "two")]
    assert texts[0] != texts[1]


@pytest.mark.parametrize(
    ("token", "name"), [("powermodels-json", "case.json"), ("pandapower-json", "case.json"), ("pypsa-csv", "case")]
)
def test_the_release_has_the_format_of_its_source(cli, tmp_path, token, name):
    source = tmp_path / "in" / name
    source.parent.mkdir()
    powerio.emit(powerio.parse(str(resolve_case("veil9"))), token, str(source))
    run(cli, source, tmp_path / "out", "--seed", 2)
    released = tmp_path / "out" / "simulation" / ("network" if source.is_dir() else f"network{source.suffix}")
    assert load_case(str(released)).file_format == token


def test_bounded_demands(cli, tmp_path):
    run(cli, "veil9", tmp_path / "out", "--seed", 0, "--alpha", "0.5", "--demand-bounds", "nonnegative", "--beta", "5%")
    assert load_case(str(tmp_path / "out/simulation/network.m")).demand.reveal().real.min() >= -1e-6


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        (["--epsilon", "0"], "epsilon"),
        (["--epsilon", "x"], "epsilon"),
        (["--alpha", "-0.1"], "alpha"),
        (["--beta", "0%"], "beta"),
        (["--beta", "one"], "beta"),
    ],
)
def test_bad_settings_write_nothing(cli, tmp_path, options, hint):
    result = cli("release", "veil9", "--out", tmp_path / "out", *options)
    assert result.code == 2 and hint in result.err and result.err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_folder_in_use_is_refused(cli, tmp_path):
    (tmp_path / "mine.txt").write_text("keep")
    result = cli("release", "veil9", "--out", tmp_path)
    assert result.code == 2 and "--out" in result.err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_no_release_has_exit_code_3_and_writes_nothing(cli, tmp_path):
    net = two_bus_net()
    net.gen[0][8] = 10.0  # the generator cannot serve the load
    path = tmp_path / "short.m"
    path.write_text(net.text())
    result = cli("release", path, "--out", tmp_path / "out", "--seed", 1)
    assert result.code == 3 and "gridveil solve" in result.err
    assert not (tmp_path / "out").exists()


@pytest.mark.nesta
@pytest.mark.parametrize("name", ["case14_ieee", "case30_fsr", "case57_ieee", "case89_pegase"])
@pytest.mark.parametrize("alpha", ["0.1", "1"])
def test_nesta_releases_end_verified(cli, tmp_path, name, alpha):
    report = run(cli, nesta(name), tmp_path / "out", "--seed", 7, "--alpha", alpha)
    assert report["status"] == "verified" and abs(report["cost_error"]) <= 0.01
    assert report["curator"]["distance_released"] <= 2 * report["curator"]["distance_noisy"]  # Theorem 1
