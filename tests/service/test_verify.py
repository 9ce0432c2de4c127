"""gridveil verify: an outsider's check of a folder, and what it finds when somebody tampers with it."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from gridveil.sectors.registry import load_case


@pytest.fixture(scope="module")
def released(tmp_path_factory) -> Path:
    """A private release of veil9, written once."""
    import os

    import gridveil

    home = tmp_path_factory.mktemp("home")
    before = os.environ.get("GRIDVEIL_HOME")
    os.environ["GRIDVEIL_HOME"] = str(home)
    try:
        made = gridveil.load("veil9").release(alpha="2MVA", beta="2%", budget=3)
        made.save(home / "out", publisher="Town works", contact="data@town.example", licence="CC-BY-4.0")
    finally:
        os.environ.pop("GRIDVEIL_HOME") if before is None else os.environ.update(GRIDVEIL_HOME=before)
    return home / "out" / "public"


@pytest.fixture
def folder(released, tmp_path) -> Path:
    shutil.copytree(released, tmp_path / "public")
    return tmp_path / "public"


def failed(cli, folder: Path, code: int = 1) -> dict[str, str]:
    result = cli("verify", folder, "--json")
    found = json.loads(result.out)
    assert result.code == code, result.out
    return {one["name"]: one["detail"] for one in found["findings"] if one["passed"] is False}


def change_card(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    card = yaml.safe_load((folder / "card.yaml").read_text())
    change(card)
    (folder / "card.yaml").write_text(yaml.safe_dump(card, sort_keys=False, allow_unicode=True))


def rehash(folder: Path) -> None:
    """What a careful forger does: state the hashes of the changed files."""

    def restate(card: dict[str, Any]) -> None:
        for entry in card["files"]:
            content = (folder / entry["file"]).read_bytes()
            entry |= {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}

    change_card(folder, restate)
    (folder / "card.html").unlink()


def test_a_release_is_verified_without_the_curators_state(cli, folder):
    assert failed(cli, folder, code=0) == {}
    card = yaml.safe_load((folder / "card.yaml").read_text())
    stated = card["publication"]
    assert (stated["publisher"], stated["contact"], stated["licence"], stated["network"]) == (
        "Town works", "data@town.example", "CC-BY-4.0", "veil9",
    )  # fmt: skip
    assert len(stated["date"]) == len("2026-01-01")
    assert {one["file"] for one in card["files"]} == {
        "certificate.yaml", "network.m", "registry.yaml", "proofs/kept-totals.md",
        "proofs/planar-laplace.md", "proofs/profile.md", "proofs/release.md",
        "proofs/scalar-laplace.md",
        "proofs/secrets.md",
    }  # fmt: skip
    assert all((folder / one["proof"]).is_file() for one in card["mechanisms"])
    shown = cli("verify", folder)
    assert shown.code == 0 and shown.out.startswith("VERIFIED") and "ipopt (flat)" in shown.out


def test_a_changed_network_is_found(cli, folder):
    text = (folder / "network.m").read_text()
    (folder / "network.m").write_text(text.replace("\t190\t20;", "\t191\t20;"))
    assert "network.m: was changed" in failed(cli, folder)["files"]


def test_a_network_with_restated_hashes_is_found_by_its_cost(cli, folder):
    text = (folder / "network.m").read_text()
    assert "\t24\t0;" in text
    (folder / "network.m").write_text(text.replace("\t24\t0;", "\t30\t0;"))
    rehash(folder)
    assert set(failed(cli, folder)) >= {"cost in band", "cost on the card"}


def test_missing_and_added_files_are_found(cli, folder):
    (folder / "registry.yaml").unlink()
    (folder / "more.csv").write_text("1,2\n")
    told = failed(cli, folder)["files"]
    assert "registry.yaml: is missing" in told and "more.csv: is not on the card" in told


@pytest.mark.parametrize(
    ("change", "where", "told"),
    [
        (lambda card: card["promise"].update(epsilon=0.1), "card", "the promise says 0.1"),
        (lambda card: card["promise"].update(alpha=20.0), "card", "another alpha"),
        (lambda card: card["post_processing"].update(optimal_cost=9e9), "card", "outside the band"),
        (lambda card: card["cost_target"].update(value=9e3), "cost in band", "band"),
        (lambda card: card["data_set"].update(epsilon=9.0), "card", "more than its cap"),
        (lambda card: card.pop("promise"), "card", "lacks something"),
        (lambda card: card["files"].append({"file": "../../secret", "bytes": 0, "sha256": ""}), "files", "leads out"),
        (lambda card: card["in_plain_words"].insert(0, "Absolutely private."), "page of the card", "not the page"),
    ],
)
def test_a_changed_card_is_found(cli, folder, change, where, told):
    change_card(folder, change)
    assert told in failed(cli, folder)[where]


def test_a_changed_page_of_the_card_is_found(cli, folder):
    page = folder / "card.html"
    page.write_text(page.read_text().replace("</main>", "<p>Absolutely private.</p></main>"))
    assert "page of the card" in failed(cli, folder)


def test_a_simulation_is_no_release_whatever_its_card_says(cli, tmp_path):
    assert cli("release", "veil9", "--seed", "1", "--out", tmp_path / "out").code == 0
    place = tmp_path / "out" / "simulation"
    assert "simulation, which protects nobody" in failed(cli, tmp_path / "out")["simulation"]

    def stamp(card: dict[str, Any]) -> None:
        card |= {"simulation": False, "name": "Network with differentially private demands"}

    change_card(place, stamp)
    told = failed(cli, place)["simulation"]
    assert "the variant says" in told and "the network file says" in told


def test_what_is_no_release_cannot_be_verified(cli, tmp_path, folder):
    empty = cli("verify", tmp_path / "nothing", "--json")
    assert empty.code == 2 and json.loads(empty.out)["error"]["exit_code"] == 2
    (folder / "card.yaml").write_text("a: [")
    assert cli("verify", folder).code == 2
    (folder / "card.yaml").write_text("name: old card\n")
    old = cli("verify", folder)
    assert old.code == 2 and "gridveil-card/2" in old.err


def test_gas_and_series_are_verified_too(cli, tmp_path):
    gas = ("--alpha", "0.5kg/s", "--beta", "30%", "--budget", "2")
    assert cli("release", "veilgas", *gas, "--out", tmp_path / "gas").code == 0
    assert failed(cli, tmp_path / "gas", code=0) == {}
    case = load_case("veil2")
    value = case.values.reveal()[0] * case.field.base
    rows = [
        {"timestamp": f"2026-01-01 0{hour}:00", "site": "2", "p_mw": value.real, "q_mvar": value.imag}
        for hour in range(2)
    ]
    pd.DataFrame(rows).to_csv(tmp_path / "hours.csv", index=False)
    options = (
        "--series",
        tmp_path / "hours.csv",
        "--protects",
        "hour",
        "--alpha",
        "1MVA",
        "--beta",
        "20%",
        "--workers",
        "1",
    )
    made = cli("release", "veil2", *options, "--budget", "9", "--out", tmp_path / "series")
    assert made.code == 0, made.err
    assert failed(cli, tmp_path / "series", code=0) == {}
    (tmp_path / "series" / "public" / "hours.csv").write_text("timestamp,status\n")
    assert set(failed(cli, tmp_path / "series")) == {"files", "network"}
