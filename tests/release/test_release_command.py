"""gridveil release, end to end on power networks."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import powerio
import pytest
import yaml

from conftest import nesta, optimum, two_bus_net
from gridveil.core.band import Tolerance
from gridveil.core.choices import CostTargetMode
from gridveil.core.errors import InputError, NoReleaseError
from gridveil.privacy.mechanisms.simulation import simulate_laplace
from gridveil.privacy.noisy import Draw
from gridveil.sectors.builtin import resolve_case
from gridveil.sectors.registry import load_case
from gridveil.service import target
from gridveil.service.prepare import PublicCase, prepare
from gridveil.service.publish import destination
from gridveil.service.settings import CostTargetSettings, ReleaseSettings

FIELDS = {
    "case", "field", "epsilon", "alpha", "alpha_unit", "beta", "method", "simulation", "status", "cost_target", "cost_target_mode",
    "cost_target_error", "cost", "cost_error", "cost_spread", "delta", "optimisations", "seconds", "certificate", "data_set",
    "files", "curator", "schema", "units",
}  # fmt: skip
CURATOR_FIELDS = {"distance_noisy", "distance_highpoint", "distance_released", "highpoint_cost_error", "fidelity"}


def run(cli, case, out, *options):
    result = cli("release", case, "--out", out, "--json", *options)
    assert (result.code, result.err) == (0, ""), result.err
    return json.loads(result.out)


@pytest.mark.parametrize("seed", range(4))
def test_simulation_ends_verified_and_keeps_its_cost(cli, tmp_path, seed):
    report = run(cli, "veil9", tmp_path / "out", "--seed", seed, "--alpha", "0.2pu")
    assert set(report) == FIELDS and set(report["curator"]) == CURATOR_FIELDS
    assert report["status"] == "verified" and report["simulation"] is True
    assert abs(report["cost_error"]) <= 0.01
    assert sorted(report["files"]) == [
        "curator/demands.csv", "curator/draw.json", "curator/report.html", "curator/report.json", "simulation/card.html",
        "simulation/card.yaml", "simulation/certificate.yaml", "simulation/network.m", "simulation/proofs/kept-totals.md",
        "simulation/proofs/planar-laplace.md",
        "simulation/proofs/profile.md", "simulation/proofs/release.md", "simulation/proofs/scalar-laplace.md",
        "simulation/proofs/secrets.md",
        "simulation/registry.yaml",
    ]  # fmt: skip
    written = load_case(str(tmp_path / "out" / "simulation" / "network.m"))
    assert optimum(written).cost == pytest.approx(report["cost"], rel=1e-6)
    original = load_case("veil9")
    distance = np.linalg.norm(written.values.reveal() - original.values.reveal()) / np.linalg.norm(
        original.values.reveal()
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
    for file in ("network.m", "card.yaml", "card.html", "registry.yaml", "certificate.yaml"):
        assert (tmp_path / "one/simulation" / file).read_bytes() == (tmp_path / "two/simulation" / file).read_bytes()


def test_a_release_without_seed_is_private_and_new_each_time(cli, tmp_path):
    reports = [
        run(cli, "veil9", tmp_path / "one", "--alpha", "2MVA", "--budget", "3"),
        run(cli, "veil9", tmp_path / "two", "--alpha", "2MVA", "--yes"),
    ]
    assert all(not report["simulation"] for report in reports)
    assert [report["data_set"]["draws"] for report in reports] == [2, 4]
    assert all((report["alpha"], report["alpha_unit"]) == (2, "MVA") for report in reports)
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
    run(
        cli,
        "veil9",
        tmp_path / "out",
        "--seed",
        0,
        "--alpha",
        "0.5pu",
        "--demand-bounds",
        "nonnegative",
        "--beta",
        "5%",
    )
    assert load_case(str(tmp_path / "out/simulation/network.m")).values.reveal().real.min() >= -1e-6


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


def test_two_releases_cannot_take_one_folder(tmp_path):
    """Both returned 0, and their files were mixed."""
    out = tmp_path / "out"
    out.mkdir()
    with destination(out):
        for other in (out, out / "curator" / ".."):
            with pytest.raises(InputError, match="choose another --out"), destination(other):
                pytest.fail("the folder was taken twice")
        (out / "curator" / "draw.json").write_text("paid for")
    assert [path.name for path in out.rglob("*.json")] == ["draw.json"]


def test_of_two_releases_that_find_a_folder_empty_one_gets_it(tmp_path, monkeypatch):
    """The race itself: the other one makes its folder between our look and our own attempt."""
    out = tmp_path / "out"
    look = Path.iterdir

    def look_and_lose(path):
        found = list(look(path))
        (out / "curator").mkdir(exist_ok=True)
        return iter(found)

    out.mkdir()
    monkeypatch.setattr(Path, "iterdir", look_and_lose)
    with pytest.raises(InputError, match="another release"), destination(out):
        pytest.fail("the folder was taken twice")


def test_what_fails_before_it_writes_leaves_no_folder(tmp_path):
    with pytest.raises(InputError), destination(tmp_path / "a" / "b"):
        raise InputError("no budget")
    assert list(tmp_path.iterdir()) == []


def short_of_supply(folder):
    """A file whose generator cannot serve its load."""
    net = two_bus_net()
    net.gen[0][8] = 10.0
    path = folder / "short.m"
    path.write_text(net.text())
    return path


def test_a_cost_that_does_not_exist_cannot_be_declared_public(cli, tmp_path):
    result = cli("release", short_of_supply(tmp_path), "--out", tmp_path / "out", "--seed", 1, "--declare-cost-public")
    assert result.code == 3 and "gridveil solve" in result.err
    assert not (tmp_path / "out").exists()


def test_true_values_that_cannot_be_served_make_no_difference(cli, tmp_path):
    """Whether O(d°) exists is a secret too: such a case is released like any other."""
    report = run(cli, short_of_supply(tmp_path), tmp_path / "out", "--seed", 1, "--beta", "10$/h")
    assert report["status"] == "verified" and abs(report["cost"] - report["cost_target"]) <= 10


def test_demands_that_are_all_zero_have_no_distances(cli, tmp_path):
    source = tmp_path / "zero.m"
    source.write_text(resolve_case("veil2").read_text().replace("\t60\t20\t", "\t0\t0\t"))
    options = ("--sites", tmp_path / "sites.txt", "--seed", 2, "--alpha", "1MVA", "--beta", "500$/h")
    (tmp_path / "sites.txt").write_text("2\n")
    report = run(cli, source, tmp_path / "out", *options)
    assert report["status"] == "verified"
    assert {report["curator"][name] for name in CURATOR_FIELDS if name.startswith("distance")} == {None}
    kept = json.loads((tmp_path / "out/curator/report.json").read_text())
    assert kept["curator"]["distance_released"] is None


def test_sites_that_follow_the_demands_are_refused_and_nothing_is_left_behind(cli, tmp_path, ledger_home):
    source = tmp_path / "town.m"
    source.write_text(two_bus_net().text())
    refused = cli("release", source, "--out", tmp_path / "out", "--budget", "3", "--alpha", "1MVA", "--beta", "5%")
    assert refused.code == 2 and "--sites all" in refused.err and refused.err.count("\n") == 1
    assert not (tmp_path / "out").exists() and not list(ledger_home.rglob("*.ledger"))
    # What the message says works, with the same folder and the same budget.
    declared = ("--sites", "all", "--budget", "3", "--alpha", "1MVA", "--beta", "5%")
    assert run(cli, source, tmp_path / "out", *declared)["status"] == "verified"


def test_a_cost_of_zero_made_by_noise_is_no_fault_of_the_input(monkeypatch):
    """A share of zero is no band: then there is no release, or, on a retreat, no such aim."""
    case = load_case("veil2")
    settings = ReleaseSettings(
        epsilon="1", alpha="0.1pu", beta=Tolerance.parse("1%"), target=CostTargetSettings(mode=CostTargetMode.DERIVED)
    )
    prepared = prepare(PublicCase.of(case), solver="ipopt")
    draw = Draw(noisy=simulate_laplace(case.values, epsilon=1.0, alpha=0.1, seed=1))
    monkeypatch.setattr(target, "derived_cost", lambda *_: 0.0)
    with pytest.raises(NoReleaseError, match="beta as an amount"):
        target.aim(prepared, draw, settings)
    aim = target.Aim(target=settings.beta.around(300.0, CostTargetMode.PRIVATE), error=None)
    assert [other.target.value for other in target.retreats(prepared, draw, aim, settings)] == [150.0, 75.0]
    amount = replace(settings, beta=Tolerance.parse("50$/h"))
    assert target.aim(prepared, draw, amount).target.value == 0.0
    assert [other.target.value for other in target.retreats(prepared, draw, aim, amount)] == [150.0, 75.0, 0.0]


@pytest.mark.nesta
@pytest.mark.parametrize("name", ["case14_ieee", "case30_fsr", "case57_ieee", "case89_pegase"])
@pytest.mark.parametrize("alpha", ["0.1pu", "1pu"])
def test_nesta_releases_end_verified(cli, tmp_path, name, alpha):
    report = run(cli, nesta(name), tmp_path / "out", "--seed", 7, "--alpha", alpha)
    assert report["status"] == "verified" and abs(report["cost_error"]) <= 0.01
    assert report["curator"]["distance_released"] <= 2 * report["curator"]["distance_noisy"]  # Theorem 1
