"""gridveil on gas networks: inspect, solve, release and audit, as on power."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import yaml

from conftest import data_folder
from gas_check import check_gas_point
from gridveil.core.band import Tolerance
from gridveil.core.choices import CostTargetMode
from gridveil.core.secret import SecretValues
from gridveil.privacy.mechanisms.simulation import simulate_laplace
from gridveil.privacy.noisy import Draw
from gridveil.programs import Follower
from gridveil.sectors.gas.boundary import GasBoundary, preset_boundary
from gridveil.sectors.gas.ogf import ogf_point
from gridveil.sectors.registry import build_model, load_case
from gridveil.service.account import NoAccount
from gridveil.service.publish import publish
from gridveil.service.release import make_release
from gridveil.service.settings import CostTargetSettings, ReleaseSettings

STUDIES = {
    "24-pipe": ("case-30.m", 45.72),
    "gaslib-40": ("gaslib-40-E.m", 31.35),
    "gaslib-135": ("gaslib-135-F.m", 64.58),
}


def study_file(name: str):
    path = data_folder() / "gas" / STUDIES[name][0]
    if not path.exists():
        pytest.skip(f"needs {path.name} from the folder named by GRIDVEIL_DATA")
    return path


@pytest.mark.parametrize("name", STUDIES)
def test_nominal_cost_of_the_studies(cli, name):
    report = json.loads(cli("solve", study_file(name), "--preset", name, "--json").out)
    assert (report["status"], report["formulation"]) == ("converged", "ogf")
    assert report["cost"] == pytest.approx(STUDIES[name][1], rel=1e-3)


@pytest.mark.parametrize("name", STUDIES)
@pytest.mark.parametrize("beta", ["10%", "1%", "0.1%"])
def test_releases_of_the_studies_end_verified(cli, tmp_path, name, beta):
    # The paper's assumption: a target derived from noisy withdrawals of gaslib-135 is zero, and has no shares.
    options = ["--preset", name, "--beta", beta, "--seed", 3, "--declare-cost-public", "--json"]
    result = cli("release", study_file(name), "--out", tmp_path / "out", *options)
    assert result.code == 0, result.err
    report = json.loads(result.out)
    assert abs(report["cost_error"]) <= float(beta.rstrip("%")) / 100
    written = load_case(
        str(tmp_path / "out/simulation/network.m"), GasBoundary(flow_base=preset_boundary(name).flow_base)
    )
    model = build_model(written.network)
    demand = written.values.reveal()
    solution = Follower(model.program).solve(demand)
    in_kg_per_s = demand * written.network.flow_base
    check = check_gas_point(written.network, in_kg_per_s, ogf_point(written.network, solution.x))
    assert check.worst < 1e-6
    assert check.cost == pytest.approx(report["cost"], rel=1e-3)


def test_inspect_shows_no_demand(cli):
    report = json.loads(cli("inspect", "veilgas", "--json").out)
    assert (report["kind"], report["demand_sites"], report["compressors"]) == ("gas", 6, 2)


def test_release_of_a_built_in_network(cli, tmp_path):
    options = ["--flow-base", "100", "--alpha", "0.01pu", "--beta", "5%", "--budget", "2", "--json"]
    result = cli("release", "veilgas", "--out", tmp_path / "out", *options)
    assert result.code == 0, result.err
    report = json.loads(result.out)
    assert (report["alpha"], report["alpha_unit"]) == (1, "kg/s")
    card = yaml.safe_load((tmp_path / "out/public/card.yaml").read_text())
    assert (card["promise"]["alpha"], card["promise"]["unit"]) == (1, "kg/s")
    assert card["data_set"] == {
        "epsilon": 1.0, "cap": 2.0, "alpha": 1.0, "unit": "kg/s", "draws": 1, "delta": 0.0, "protects": "profile"
    }  # fmt: skip
    scale = card["cost_target"]["scale"]
    assert scale["value"] > 0 and "public data" in scale["meaning"]
    assert card["cost_target"]["beta"] == pytest.approx(
        0.05 * max(abs(card["cost_target"]["value"]), 0.1 * scale["value"])
    )
    (mechanism,) = card["mechanisms"]
    # Scale α/ε in kg/s, and a little more for the rounding to the lattice.
    assert mechanism["name"] == "Laplace" and mechanism["scale"] == pytest.approx(1, rel=2e-3)
    assert any("injections" in text for text in card["unprotected"])
    # Gas has no relaxation: unless a share is stated, the private target is derived from the noisy values.
    assert card["cost_target"]["mode"] == "derived"


def test_a_stated_share_makes_the_cost_of_gas_private(cli, tmp_path):
    options = ["--alpha", "0.2kg/s", "--beta", "10%", "--budget", "1", "--cost-share", "0.2", "--json"]
    result = cli("release", "veilgas", "--out", tmp_path / "out", *options)
    assert result.code == 0, result.err
    card = yaml.safe_load((tmp_path / "out/public/card.yaml").read_text())
    assert [part["epsilon"] for part in card["mechanisms"]] == [0.8, 0.2]
    assert card["cost_target"]["mode"] == "private" and card["promise"]["epsilon"] == 1


def test_alpha_without_a_flow_base_is_in_kg_per_second(cli, tmp_path):
    result = cli("release", "veilgas", "--out", tmp_path / "out", "--alpha", "0.5pu", "--seed", 1)
    assert result.code == 0, result.err
    card = yaml.safe_load((tmp_path / "out/simulation/card.yaml").read_text())
    assert (card["promise"]["alpha"], card["promise"]["unit"]) == (0.5, "kg/s")


def test_alpha_in_the_unit_of_another_sector_is_refused(cli, tmp_path):
    result = cli("release", "veilgas", "--out", tmp_path / "out", "--alpha", "10MVA", "--seed", 1)
    assert result.code == 2 and "kg/s" in result.err and not (tmp_path / "out").exists()


@pytest.mark.parametrize("mode", [CostTargetMode.FORECAST, CostTargetMode.DERIVED])
@pytest.mark.parametrize("file_format", ["matgas", "gaslib"])
def test_non_interference(tmp_path, mode, file_format):
    """Two different true demands with the same noisy ones give byte-identical public folders."""
    case = replace(load_case("veilgas"), file_format=file_format)
    noisy = replace(simulate_laplace(case.values, epsilon=1.0, alpha=0.3, seed=3), simulation=False)
    other = case.with_values(SecretValues(1.3 * case.values.reveal() + 0.1))
    target = CostTargetSettings(mode=mode, forecast=6.7 if mode is CostTargetMode.FORECAST else None)
    settings = ReleaseSettings(epsilon="1", alpha="0.3pu", beta=Tolerance.parse("5%"), target=target)
    folders = []
    for name, one in (("a", case), ("b", other)):
        made = make_release(one, settings, NoAccount(simulation=False), reuse=Draw(noisy=noisy))
        publish(made, one, tmp_path / name, simulation_as_public=False)
        public = tmp_path / name / "public"
        folders.append({path.name: path.read_bytes() for path in sorted(public.rglob("*")) if path.is_file()})
    assert folders[0] == folders[1] and "card.yaml" in folders[0]


def test_audit_of_a_gas_release(cli, tmp_path):
    assert cli("release", "veilgas", "--out", tmp_path / "out", "--alpha", "0.5pu", "--seed", 1).code == 0
    options = ["--alpha", "0.5pu", "--runs", 20, "--draws", 5000, "--released", tmp_path / "out", "--json"]
    result = cli("audit", "veilgas", *options)
    assert result.code == 0, result.err
    report = json.loads(result.out)
    assert report["mechanism"].startswith("ScalarLaplace")
    assert {row["unit"] for row in report["attacks"] if row["error"] is not None} == {"kg/s"}
    assert report["passed"]


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        (["--slack", "nowhere=5MPa"], "nowhere"),
        (["--slack", "1"], "JUNCTION=PRESSURE"),
        (["--slack", "1=5furlong"], "unit"),
        (["--sound-speed", "fast"], "number"),
        (["--flow-base", "-3"], "positive"),
        (["--preset", "moon"], "known"),
    ],
)
def test_bad_boundary_conditions(cli, options, hint):
    result = cli("solve", "veilgas", *options)
    assert result.code == 2 and hint in result.err and result.err.count("\n") == 1


def test_distances_follow_the_noise():
    """Laplace noise of scale α on n sites: the mean distance is near α·√(2n)/‖d°‖."""
    case = load_case("veilgas-national")
    truth = case.values.reveal()
    mean = np.mean(
        [
            np.linalg.norm(simulate_laplace(case.values, epsilon=1.0, alpha=0.2, seed=k).values - truth)
            for k in range(40)
        ]
    )
    assert mean == pytest.approx(0.2 * np.sqrt(2 * len(truth)), rel=0.05)
