"""Plug-ins from an installed package, broken ones among them, and the cost of looking for them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "gridveil-example-plugin"
MAIN = "from gridveil.cli import main; main()"


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with the example package and with one that is broken in two ways, as pip would install them."""
    target = tmp_path_factory.mktemp("site")
    source = shutil.copytree(EXAMPLE, tmp_path_factory.mktemp("example") / "copy")  # building writes beside the sources
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"),
            *("--disable-pip-version-check", "--target", str(target), str(source)),
        ],
        check=True,
    )
    meta = target / "broken_plugin-9.9.dist-info"
    meta.mkdir()
    (meta / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-plugin\nVersion: 9.9\n")
    (meta / "entry_points.txt").write_text(
        "[gridveil.methods]\nabsent = no_such_module_at_all:f\n[gridveil.sectors]\nraises = broken_sector:SECTOR\n"
    )
    (target / "broken_sector.py").write_text("raise RuntimeError('out of order')\n")
    return target


@pytest.fixture
def command(installed, tmp_path):
    def run(*arguments: object, code: str = MAIN) -> subprocess.CompletedProcess[str]:
        paths = os.pathsep.join([str(installed), *(path for path in sys.path if path)])
        return subprocess.run(
            [sys.executable, "-c", code, *map(str, arguments)],
            env=os.environ | {"PYTHONPATH": paths, "GRIDVEIL_HOME": str(tmp_path / "home")},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    return run


def test_all_are_listed_and_broken_ones_named_in_one_line(command):
    told = json.loads(command("plugins", "--json").stdout)["plugins"]
    state = {row["name"]: row["state"] for row in told}
    assert {name for name, word in state.items() if word == "ready"} == {
        "noise-only", "high-point", "patient-ipopt", "coarse-laplace", "depots",
    }  # fmt: skip
    assert state["absent"].startswith("plug-in 'absent' (gridveil.methods) of broken-plugin 9.9 cannot be loaded")
    assert "RuntimeError: out of order" in state["raises"] and "\n" not in state["raises"]


def test_a_release_uses_a_method_a_backend_and_a_mechanism_and_its_card_says_who_made_the_noise(command, tmp_path):
    done = command(
        *("release", "veil9", "--method", "high-point", "--solver", "patient-ipopt", "--mechanism", "coarse-laplace"),
        *(
            "--alpha",
            "1MVA",
            "--beta",
            "20%",
            "--seed",
            3,
            "--cost-target",
            "derived",
            "--out",
            tmp_path / "out",
            "--json",
        ),
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["method"] == "high-point"
    card = (tmp_path / "out/simulation/card.yaml").read_text()
    assert "method: high-point" in card and "solver: patient-ipopt" in card
    assert "provided_by: gridveil-example-plugin 0.1.0" in card and "neither wrote nor audited it" in " ".join(
        card.split()
    )


def test_a_private_release_by_a_foreign_mechanism_is_charged_in_full_and_warns_first(command, tmp_path):
    asked = ("--epsilon", 1, "--alpha", "10MVA", "--beta", "5%", "--budget", 3, "--cost-target", "derived")
    done = command("release", "veil9", *asked, "--mechanism", "coarse-laplace", "--out", tmp_path / "out", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["data_set"]["epsilon"] == 1.0
    assert "whose promise gridveil has not audited" in " ".join((tmp_path / "out/public/card.yaml").read_text().split())


def test_a_method_that_misses_the_band_releases_nothing(command, tmp_path):
    aim = ("--cost-target", "forecast", "--forecast-cost", 1, "--beta", "1%")
    done = command("release", "veil9", "--method", "noise-only", *aim, "--seed", 3, "--out", tmp_path / "out")
    assert done.returncode == 3 and "no release" in done.stderr
    assert not (tmp_path / "out/simulation").exists()


def test_a_study_with_workers_and_an_exploration_use_methods_of_plug_ins(command, tmp_path):
    study = tmp_path / "s.toml"
    study.write_text(
        'name = "t"\nepsilon = 1.0\nmethods = ["auto", "high-point", "noise-only"]\nseeds = 2\nsites = "positive"\n'
        '[[grid]]\nalpha = ["0.01pu"]\nbeta = ["10%"]\n[[network]]\ncase = "veil9"\n'
    )
    done = command("study", "run", study, "--store", tmp_path / "s.sqlite", "--workers", 2, "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["done"], told["verified"]) == (6, 6)
    explored = command(
        "explore", "veil9", "--method", "high-point", "--alpha", "0.01pu", "--beta", "10%", "--seeds", 2, "--json"
    )
    assert explored.returncode == 0, explored.stderr
    assert json.loads(explored.stdout)["rows"][0]["verified"] == 2


def test_a_sector_of_a_plug_in_is_released_although_another_is_broken(command, tmp_path):
    case = tmp_path / "town.depots"
    case.write_text(json.dumps({"supply": 60.0, "demands": {"north": 12.0, "south": 9.5, "east": 14.0}}))
    done = command("release", case, "--alpha", "1t/h", "--beta", "5%", "--seed", 4, "--out", tmp_path / "out", "--json")
    assert done.returncode == 0, done.stderr
    broken = [line for line in done.stderr.splitlines() if "cannot be loaded" in line]
    assert len(broken) == 1 and "'raises' (gridveil.sectors) of broken-plugin 9.9" in broken[0]
    released = json.loads((tmp_path / "out/simulation/network.depots").read_text())
    bought = sum(released["demands"].values())
    assert json.loads(done.stdout)["cost"] == pytest.approx(20 * bought + 0.5 * bought**2, rel=1e-6)


def test_unknown_and_broken_names_are_told_with_what_there_is(command, tmp_path):
    unknown = command("release", "veil9", "--method", "magic", "--seed", 1, "--out", tmp_path / "a")
    assert unknown.returncode == 2
    assert unknown.stderr.strip() == (
        "gridveil: there is no method 'magic'; known are auto, bisection, absent, high-point, noise-only"
    )
    broken = command("release", "veil9", "--method", "absent", "--seed", 1, "--out", tmp_path / "b")
    assert broken.returncode == 2 and "of broken-plugin 9.9 cannot be loaded" in broken.stderr


def test_nobody_looks_for_plug_ins_while_gridveils_own_names_do(command, tmp_path):
    watched = (
        "import sys\nfrom gridveil.cli import main\nfrom gridveil.core import plugins\n"
        "try:\n    main()\nexcept SystemExit as end:\n    print(end.code)\n"
        "print(plugins.found_in.cache_info().misses)"
    )
    done = command("release", "veil9", "--seed", 1, "--quiet", "--out", tmp_path / "out", code=watched)
    assert done.stdout.split() == ["0", "0"], done.stderr
